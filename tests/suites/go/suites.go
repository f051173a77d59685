// Package suites names what is tested, so that go.mod keeps it.
package suites

import (
	_ "github.com/IBM/sarama"
	_ "github.com/segmentio/kafka-go"
	_ "github.com/segmentio/kafka-go/topics"
	_ "github.com/twmb/franz-go/pkg/kadm"
	_ "github.com/twmb/franz-go/pkg/kfake"
	_ "github.com/twmb/franz-go/pkg/kgo"
	_ "github.com/twmb/franz-go/pkg/kmsg"
)
