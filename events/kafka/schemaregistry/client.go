// Package schemaregistry turns Kafka values that need a schema into JSON. It asks a schema registry
// with the HTTP API of Confluent, which Redpanda, Karapace and Apicurio have, too. It is apart
// because it needs libraries for Avro and Protobuf.
package schemaregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Options say how a registry is reached.
type Options struct {
	URL            string       // such as https://registry:8081
	User, Password string       // HTTP basic login; for Confluent Cloud the API key and its secret
	HTTP           *http.Client // nil: a client of its own
}

// Registry gets schemas by their ids and keeps them: an id never changes what it means. It is safe
// for concurrent use.
type Registry struct {
	o      Options
	http   *http.Client
	asking singleflight.Group
	mu     sync.Mutex
	known  map[string]*schema // by path; mu guards it
}

// What a registry may send. A schema is small, and so are the schemas that it names.
const (
	maxAnswer     = 4 << 20
	maxReferences = 64
	maxKnown      = 4096
	patience      = 10 * time.Second
	refusedFor    = time.Minute // an unknown id is asked for again after this
)

// New returns a Registry. It opens no connection.
func New(o Options) (*Registry, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("schema registry: %q is no URL; want for example https://registry:8081", o.URL)
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	r := &Registry{o: o, http: o.HTTP, known: map[string]*schema{}}
	if r.http == nil {
		r.http = &http.Client{Timeout: patience}
	}
	return r, nil
}

// answer is what the registry sends for a schema.
type answer struct {
	Schema     string `json:"schema"`
	SchemaType string `json:"schemaType"` // empty for Avro
	References []struct {
		Name    string `json:"name"`
		Subject string `json:"subject"`
		Version int    `json:"version"`
	} `json:"references"`
}

// schema is a compiled schema, or why there is none.
type schema struct {
	decode  func(value []byte) ([]byte, error)
	refused error
	until   time.Time // when a refusal is asked for again
}

// errUnknown is returned for what the registry does not have or refuses.
type errUnknown struct{ error }

// get returns the schema at a path, such as /schemas/ids/7. An error is one that time heals.
func (r *Registry) get(ctx context.Context, path string) (*schema, error) {
	if s := r.kept(path); s != nil {
		return s, nil
	}
	// Many records with a new id ask once, and those with a known one do not wait for it.
	got, err, _ := r.asking.Do(path, func() (any, error) {
		s := &schema{}
		a, err := r.ask(ctx, path)
		if err == nil {
			s.decode, err = r.compile(ctx, a)
		}
		if err != nil {
			if _, unknown := errors.AsType[errUnknown](err); !unknown {
				return nil, err
			}
			s.refused, s.until = err, time.Now().Add(refusedFor)
		}
		r.keep(path, s)
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return got.(*schema), nil
}

// kept returns a schema that was got before, or nil.
func (r *Registry) kept(path string) *schema {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[path]
	if s == nil || s.refused != nil && time.Now().After(s.until) {
		return nil
	}
	return s
}

// keep keeps a schema. Producers may name any id, so there is a bound.
func (r *Registry) keep(path string, s *schema) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[path] = s
}

// Reach reports whether a schema registry answers at the URL, and takes the login.
func (r *Registry) Reach(ctx context.Context) error {
	text, status, err := r.text(ctx, "/schemas/types")
	var kinds []string
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("schema registry: %s/schemas/types: %d %s", r.o.URL, status, http.StatusText(status))
	case json.Unmarshal(text, &kinds) != nil:
		return fmt.Errorf("schema registry: what answers at %s is no schema registry", r.o.URL)
	}
	return nil
}

// text returns what the registry answers at a path, and the status.
func (r *Registry) text(ctx context.Context, path string) ([]byte, int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.o.URL+path, nil)
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	if r.o.User != "" {
		request.SetBasicAuth(r.o.User, r.o.Password)
	}
	res, err := r.http.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("schema registry: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, 0, fmt.Errorf("schema registry: %s: %w", path, err)
	}
	return text, res.StatusCode, nil
}

// ask gets one schema as the registry sends it.
func (r *Registry) ask(ctx context.Context, path string) (*answer, error) {
	text, status, err := r.text(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, errUnknown{fmt.Errorf("the schema registry has no %s", path)}
	case status != http.StatusOK:
		// A wrong login or a busy registry: records wait, since they would be lost otherwise.
		return nil, fmt.Errorf("schema registry: %s: %d %s", path, status, http.StatusText(status))
	}
	a := &answer{}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("schema registry: %s: the answer is no schema: %w", path, err)
	}
	return a, nil
}

// references returns the schemas that one names, by the names it uses, and those that they name.
func (r *Registry) references(ctx context.Context, a *answer, into map[string]string) error {
	for _, ref := range a.References {
		if _, known := into[ref.Name]; known {
			continue
		}
		if len(into) >= maxReferences {
			return errUnknown{fmt.Errorf("a schema names more than %d others", maxReferences)}
		}
		b, err := r.ask(ctx, fmt.Sprintf("/subjects/%s/versions/%d", url.PathEscape(ref.Subject), ref.Version))
		if err != nil {
			return err
		}
		into[ref.Name] = b.Schema
		if err := r.references(ctx, b, into); err != nil {
			return err
		}
	}
	return nil
}

// compile makes a decoder of what the registry sent.
func (r *Registry) compile(ctx context.Context, a *answer) (func([]byte) ([]byte, error), error) {
	named := map[string]string{}
	if err := r.references(ctx, a, named); err != nil {
		return nil, err
	}
	var decode func([]byte) ([]byte, error)
	var err error
	switch a.SchemaType {
	case "", "AVRO":
		decode, err = avroDecoder(a.Schema, named)
	case "PROTOBUF":
		decode, err = protobufDecoder(ctx, a.Schema, named)
	case "JSON":
		decode = func(value []byte) ([]byte, error) { return value, nil }
	default:
		err = fmt.Errorf("schemas of type %s are not read; Avro, Protobuf and JSON Schema are", a.SchemaType)
	}
	if err != nil {
		return nil, errUnknown{err}
	}
	return decode, nil
}
