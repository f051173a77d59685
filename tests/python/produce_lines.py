"""Produces the lines of standard input, each once and in order, through broker crashes: produce_lines.py BOOTSTRAP TOPIC.

The line's number is the record's key. Ends with standard input, when everything has been delivered.
"""

import sys

from confluent_kafka import Producer

bootstrap, topic = sys.argv[1:]
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "message.timeout.ms": 300000,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 100,
        "log_level": 2,
    }
)


def delivered(error, _message):
    assert error is None, error


for number, line in enumerate(sys.stdin):
    producer.produce(topic, key=str(number), value=line.rstrip("\n"), on_delivery=delivered)
    producer.poll(0)
left = producer.flush(120)
assert left == 0, f"{left} records are still waiting"
