package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/events/kafka"
	"weir/events/kafka/mskiam"
)

// awsMSKIAM is the mechanism of Amazon MSK.
const awsMSKIAM = "aws-msk-iam"

// mechanisms are the ways to log in to brokers.
var mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer", awsMSKIAM}

// tokenFlags say where tokens for brokers come from.
type tokenFlags struct {
	file, url, audience, region string
	scopes, extensions          *cli.List
}

func (f *tokenFlags) declare(fs *pflag.FlagSet) {
	fs.StringVar(&f.file, "kafka-token-file", "", "`FILE` with a token for oauthbearer, read at each login")
	fs.StringVar(&f.url, "kafka-token-url", "", "get tokens for oauthbearer at this `URL`, an OpenID Connect token endpoint")
	fs.StringVar(&f.audience, "kafka-token-audience", "", "ask for tokens for this `AUDIENCE`")
	f.scopes = cli.NewList(fs, "kafka-token-scope", "ask for tokens with this `SCOPE`; repeatable")
	f.extensions = cli.NewList(fs, "kafka-sasl-extension", "send this `NAME=VALUE` with the token, such as logicalCluster=lkc-1; repeatable")
	fs.StringVar(&f.region, "kafka-aws-region", "", "`REGION` for aws-msk-iam; else that of the environment or of a broker's name")
}

// fill adds what the flags say to the security of a cluster.
func (f *tokenFlags) fill(s *kafka.Security, brokers []string) (err error) {
	s.OAuth = kafka.OAuth{TokenFile: f.file, TokenURL: f.url, Audience: f.audience, Scopes: *f.scopes, Extensions: map[string]string{}}
	for _, x := range *f.extensions {
		name, value, ok := strings.Cut(x, "=")
		if !ok {
			return fmt.Errorf("--kafka-sasl-extension %s: want NAME=VALUE", x)
		}
		s.OAuth.Extensions[name] = value
	}
	if s.Mechanism != awsMSKIAM {
		if f.region != "" {
			return fmt.Errorf("--kafka-aws-region needs --kafka-sasl %s", awsMSKIAM)
		}
		return nil
	}
	if !s.TLS && s.CAFile == "" {
		return fmt.Errorf("--kafka-sasl %s needs --kafka-tls", awsMSKIAM)
	}
	s.SASL, err = mskiam.New(context.Background(), f.region, brokers)
	return err
}
