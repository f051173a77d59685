// Package kfake has what franz-go's kafka_tests use of franz-go's fake Kafka, by the same names, and
// brings it about with a real broker: one process for each cluster, behind a proxy that lets a test see
// requests and answer some of them itself.
package kfake

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is one broker and the proxy before it.
type Cluster struct {
	proxy  *proxy
	stdin  io.Closer
	node   *exec.Cmd
	client *kgo.Client
	admin  *kadm.Client
}

// Opt changes what a cluster begins with.
type Opt func(*options)

type options struct {
	topics  map[string]int32
	configs map[string]string
}

// NumBrokers is asked for by every test; there is always one.
func NumBrokers(int) Opt { return func(*options) {} }

// SeedTopics creates topics with this many partitions each.
func SeedTopics(partitions int32, topics ...string) Opt {
	return func(o *options) {
		for _, topic := range topics {
			o.topics[topic] = partitions
		}
	}
}

// BrokerConfigs sets configuration keys.
func BrokerConfigs(configs map[string]string) Opt {
	return func(o *options) {
		for key, value := range configs {
			o.configs[key] = value
		}
	}
}

// Settings that need a second key on a real broker: the fake sets no bounds, and has one size for groups of both kinds.
var seconds = map[string]string{
	"group.max.size":                       "group.consumer.max.size",
	"group.consumer.heartbeat.interval.ms": "group.consumer.min.heartbeat.interval.ms",
	"group.consumer.session.timeout.ms":    "group.consumer.min.session.timeout.ms",
}

// NewCluster starts a broker. LEVADA_SUITE_NODE is the program that runs it and LEVADA_SUITE_BROKER which
// broker that is.
func NewCluster(opts ...Opt) (*Cluster, error) {
	o := options{map[string]int32{}, map[string]string{}}
	for _, opt := range opts {
		opt(&o)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	arguments := []string{
		os.Getenv("LEVADA_SUITE_BROKER"),
		"advertised.listeners=PLAINTEXT://" + listener.Addr().String(),
	}
	for key, value := range o.configs {
		arguments = append(arguments, key+"="+value)
		if second, ok := seconds[key]; ok {
			arguments = append(arguments, second+"="+value)
		}
	}
	c := &Cluster{node: exec.Command(os.Getenv("LEVADA_SUITE_NODE"), arguments...)}
	if err := c.start(listener, o.topics); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(listener net.Listener, topics map[string]int32) error {
	c.node.Stderr = os.Stderr
	stdin, err := c.node.StdinPipe()
	if err != nil {
		return err
	}
	c.stdin = stdin
	stdout, err := c.node.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.node.Start(); err != nil {
		return err
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the broker did not start: %w", err)
	}
	c.proxy = newProxy(listener, strings.TrimSpace(address))
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...)); err != nil {
		return err
	}
	c.admin = kadm.NewClient(c.client)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for topic, partitions := range topics {
		if _, err := c.admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
	}
	return nil
}

// ListenAddrs are the addresses for clients.
func (c *Cluster) ListenAddrs() []string { return []string{c.proxy.listener.Addr().String()} }

// Close ends the broker and every connection to it.
func (c *Cluster) Close() {
	if c.client != nil {
		c.client.Close()
	}
	if c.proxy != nil {
		c.proxy.close()
	}
	if c.stdin != nil {
		c.stdin.Close()
	}
	if c.node.Process != nil {
		c.node.Wait()
	}
}

// ControlKey has fn see each request of this key before the broker does. The first that fn answers is
// answered by fn alone, and is the last that it sees.
func (c *Cluster) ControlKey(key int16, fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	c.proxy.control(key, fn)
}
