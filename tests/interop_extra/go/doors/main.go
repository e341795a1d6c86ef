// franz-go before a secured cluster: a task is a line on stdin, its outcome a line on stdout.
//
//	live  CONFIG NAME   create a topic, write to it in a transaction, read it in a group
//	knock CONFIG -      try to get in
//	write CONFIG TOPIC  try to write to a topic
//
// CONFIG is a JSON file with librdkafka's words for TLS and SASL, and a token where one is shown.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 20 * time.Second

func main() {
	tasks := bufio.NewScanner(os.Stdin)
	for tasks.Scan() {
		words := strings.Split(tasks.Text(), "\t")
		outcome, err := do(words[0], words[1], words[2])
		if err != nil {
			outcome = err.Error()
		}
		fmt.Println("= " + strings.ReplaceAll(outcome, "\n", " "))
	}
}

func do(task, path, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options, err := optionsOf(path)
	if err != nil {
		return "", err
	}
	switch task {
	case "live":
		return live(ctx, options, name)
	case "knock":
		return knock(ctx, options)
	default:
		return write(ctx, options, name)
	}
}

func optionsOf(path string) ([]kgo.Opt, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config := map[string]string{}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(config["bootstrap.servers"], ",")...)}
	if strings.HasSuffix(config["security.protocol"], "SSL") {
		secured, err := tlsOf(config)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(secured))
	}
	user, password := config["sasl.username"], config["sasl.password"]
	switch config["sasl.mechanism"] {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: config["token"]}.AsMechanism()))
	}
	return options, nil
}

func tlsOf(config map[string]string) (*tls.Config, error) {
	authority, err := os.ReadFile(config["ssl.ca.location"])
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	made := &tls.Config{RootCAs: trusted}
	if shown := config["ssl.certificate.location"]; shown != "" {
		pair, err := tls.LoadX509KeyPair(shown, config["ssl.key.location"])
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

func live(ctx context.Context, options []kgo.Opt, name string) (string, error) {
	maker, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer maker.Close()
	if _, err := kadm.NewClient(maker).CreateTopic(ctx, 1, 2, nil, name); err != nil {
		return "", err
	}
	writer, err := kgo.NewClient(append(options, kgo.TransactionalID(name))...)
	if err != nil {
		return "", err
	}
	defer writer.Close()
	if err := writer.BeginTransaction(); err != nil {
		return "", err
	}
	if err := writer.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("a coat")}).FirstErr(); err != nil {
		return "", err
	}
	if err := writer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return "", err
	}
	reader, err := kgo.NewClient(append(options,
		kgo.ConsumerGroup(name), kgo.ConsumeTopics(name), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	for {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return "", err
		}
		if records := fetched.Records(); len(records) > 0 {
			return string(records[0].Value), reader.CommitUncommittedOffsets(ctx)
		}
	}
}

func knock(ctx context.Context, options []kgo.Opt) (string, error) {
	client, err := kgo.NewClient(append(options, kgo.RequestRetries(1))...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	err = client.Ping(ctx)
	var distrusted *tls.CertificateVerificationError
	var alert *net.OpError
	switch {
	case err == nil:
		return "let in", nil
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.As(err, &distrusted):
		return "not let in", nil
	// The other side's verdict on a certificate: with TLS 1.3 it comes after the handshake.
	case errors.As(err, &alert) && alert.Op == "remote error":
		return "not let in", nil
	// It does not read why a token was refused.
	case err.Error() == "unexpected data in oauth response":
		return "not let in", nil
	}
	return "", err
}

func write(ctx context.Context, options []kgo.Opt, topic string) (string, error) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	err = client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("a coat")}).FirstErr()
	switch {
	case err == nil:
		return "written", nil
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return "denied", nil
	}
	return "", err
}
