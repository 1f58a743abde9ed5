package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"weir/cmd/internal/config"
	"weir/events/kafka"
	"weir/events/kafka/schemaregistry"
)

// schemaFlags say where the schemas of values lie.
type schemaFlags struct {
	url, user string
	password  *config.Secret
}

func (f *schemaFlags) declare(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "schema-registry", "", "read Avro, Protobuf and JSON Schema by the schema registry at this `URL`")
	fs.StringVar(&f.user, "schema-registry-user", "", "log in to the schema registry as `USER`")
	f.password = config.NewSecret(fs, "schema-registry-password-file", "`FILE` with the password for the schema registry")
}

// fill makes a cluster read values by their schemas. It opens no connection.
func (f *schemaFlags) fill(c *kafka.Cluster) error {
	r, err := f.registry()
	if err == nil && r != nil {
		c.Values = r.Values(context.Background())
	}
	return err
}

// registry returns the registry of the flags, nil where they name none. It opens no connection.
func (f *schemaFlags) registry() (*schemaregistry.Registry, error) {
	password, err := f.password.Read()
	switch {
	case err != nil:
		return nil, fmt.Errorf("password for the schema registry: %w", err)
	case f.url != "":
		return schemaregistry.New(schemaregistry.Options{URL: f.url, User: f.user, Password: string(password)})
	case f.user != "":
		return nil, errors.New("--schema-registry-user needs --schema-registry")
	}
	return nil, nil
}
