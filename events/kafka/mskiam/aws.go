// Package mskiam logs in to Amazon MSK by IAM. It is apart because it needs the SDK of AWS.
package mskiam

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/aws_msk_iam_v2"
)

// New returns the login of Amazon MSK by IAM. The credentials are those that AWS' own tools find:
// variables, shared files, a role of the container or the machine. Without a region it is the one of
// the environment, else the one in the name of a broker.
func New(ctx context.Context, region string, brokers []string) (sasl.Mechanism, error) {
	var options []func(*config.LoadOptions) error
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("configuration of AWS: %w", err)
	}
	for _, b := range brokers {
		if c.Region == "" {
			c.Region = regionOf(b)
		}
	}
	if c.Region == "" {
		return nil, errors.New("aws-msk-iam: no region is known; give it, or set AWS_REGION")
	}
	return aws_msk_iam_v2.NewMechanism(c), nil
}

// regionOf is the region in the name of a broker of MSK, as in b-1.name.x1.c2.kafka.eu-west-1.amazonaws.com
// and boot-x.c1.kafka-serverless.us-east-1.amazonaws.com; "" for others.
func regionOf(broker string) string {
	host, _, err := net.SplitHostPort(broker)
	if err != nil {
		host = broker
	}
	parts := strings.Split(host, ".")
	for i, p := range parts[:max(0, len(parts)-2)] {
		if (p == "kafka" || p == "kafka-serverless") && parts[i+2] == "amazonaws" {
			return parts[i+1]
		}
	}
	return ""
}
