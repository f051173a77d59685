// Stands in for franz-go's fake Kafka, so that the tests written for it ask a real broker.
module github.com/twmb/franz-go/pkg/kfake

go 1.26.0

require (
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kadm v1.19.0
	github.com/twmb/franz-go/pkg/kmsg v1.15.0
)
