// Enter comes in as each case of a file says, by franz-go; prints for each what came of it: "ok", or what the library says of it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// A record that comes back takes no more than this, unless it is lost.
const limit = 60 * time.Second

type entry struct {
	Name, Bootstrap, Ca, Certificate, Mechanism, User, Secret string
	Tls                                                       bool
}

func main() {
	file, err := os.ReadFile(os.Args[1])
	check(err)
	var entries []entry
	check(json.Unmarshal(file, &entries))
	for _, e := range entries {
		fmt.Println(e.Name, outcome(e.enter()))
	}
}

func (e entry) enter() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	producer, err := kgo.NewClient(e.options(kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	check(err)
	defer producer.Close()
	if err := producer.Ping(ctx); err != nil {
		return err
	}
	text := "franz-" + e.Name
	sent, err := producer.ProduceSync(ctx, &kgo.Record{Topic: "secure", Value: []byte(text)}).First()
	if err != nil {
		return err
	}
	place := map[string]map[int32]kgo.Offset{"secure": {0: kgo.NewOffset().At(sent.Offset)}}
	consumer, err := kgo.NewClient(e.options(kgo.ConsumePartitions(place))...)
	check(err)
	defer consumer.Close()
	fetched := consumer.PollFetches(ctx)
	if err := fetched.Err(); err != nil {
		return err
	}
	if read := string(fetched.Records()[0].Value); read != text {
		return errors.New("read " + read)
	}
	return nil
}

func (e entry) options(more ...kgo.Opt) []kgo.Opt {
	options := append(more, kgo.SeedBrokers(e.Bootstrap))
	if e.Tls {
		trusted, err := os.ReadFile(e.Ca)
		check(err)
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(trusted)
		if e.Certificate != "" {
			own, err := tls.LoadX509KeyPair(e.Certificate, e.Certificate)
			check(err)
			// Whatever authorities the broker names: by default a certificate of another is not even shown.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := e.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options
}

func (e entry) mechanism() sasl.Mechanism {
	switch e.Mechanism {
	case "PLAIN":
		return plain.Auth{User: e.User, Pass: e.Secret}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: e.User, Pass: e.Secret}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: e.User, Pass: e.Secret}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: e.Secret}.AsMechanism()
	}
	return nil
}

// outcome is what users of the library look for in an error.
func outcome(err error) string {
	var refused *kerr.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &refused):
		return refused.Message
	case errors.As(err, &untrusted):
		return "untrusted"
	case strings.Contains(err.Error(), "remote error: tls: "):
		return "alert"
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
