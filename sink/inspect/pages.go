package inspect

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// Embedded, so that the page fits the program that answers it and needs no folder beside it.
//
//go:embed page
var files embed.FS

// Policy is the Content-Security-Policy of the page: nothing comes from outside, no
// script stands in the page itself, and no text ever becomes markup.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// assets is the folder of everything that the page loads.
const assets = "assets/"

// Pages serves the page below a prefix. Every path that is not an asset is the same
// document, which reads the path by itself. It holds no data, so anyone may load it.
// So a link to any flow can be opened and loaded again.
type Pages struct {
	prefix string
	files  map[string]*file
}

// file is one file as it is sent. Embedded files have no time of change, so caches go
// by a hash.
type file struct {
	// tag is the ETag of body, with its quotes.
	kind, tag string
	body      []byte
	small     func() []byte // body as gzip
}

// NewPages reads what is embedded. The prefix begins and ends with a slash.
// An error is a fault of the build. A file is packed when it is first asked for, because to pack all
// of them was a tenth of the processor time of a start.
func NewPages(prefix string) (*Pages, error) {
	p := &Pages{prefix: prefix, files: make(map[string]*file)}
	err := fs.WalkDir(files, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		p.files[strings.TrimPrefix(name, "page/")] = &file{kind: mimeOf(name), tag: fmt.Sprintf(`"%.16x"`, sha256.Sum256(body)), body: body, small: sync.OnceValue(func() []byte { return packed(body) })}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the pages of the inspector: %w", err)
	}
	return p, nil
}

// packed is body as gzip.
func packed(body []byte) []byte {
	var small bytes.Buffer
	z, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		panic("inspect: " + err.Error()) // the level is one of the package's own
	}
	// A buffer takes all that is written.
	_, _ = z.Write(body)
	_ = z.Close()
	return small.Bytes()
}

// mimeOf does not ask the machine for types, which may have odd ones.
func mimeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".html":
		return "text/html; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// ServeHTTP answers with an asset, or with the document.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The name is looked up and never opened as a path, so it cannot lead out of the folder.
	name := strings.TrimPrefix(r.URL.Path, p.prefix)
	f := p.files["index.html"]
	if rest, ok := strings.CutPrefix(name, assets); ok {
		// The document is not an asset, or it would be found under two names.
		if f = p.files[rest]; f == nil || rest == "index.html" {
			http.NotFound(w, r)
			return
		}
	}
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // asked for anew each time, and by its tag not sent again
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")
	tag, small := f.tag, strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	// The packed body is another representation, and has a tag of its own.
	// A client that names gzip takes it; a client that weighs encodings against each other is no browser.
	if small {
		tag = strings.TrimSuffix(f.tag, `"`) + `-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	// One tag is compared and no list of them: a browser sends the one that it has.
	if r.Header.Get("If-None-Match") == tag {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.body
	if small {
		body = f.small()
	}
	_, _ = w.Write(body) // an error means that the other side is gone
}
