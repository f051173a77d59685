"""Produces numbered records to all partitions in turn: fill.py BOOTSTRAP TOPIC PARTITIONS FIRST COUNT [SIZE]."""

import random
import sys

from confluent_kafka import Producer

bootstrap, topic, partitions, first, count = sys.argv[1:6]
size = int(sys.argv[6]) if len(sys.argv) > 6 else 100
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "linger.ms": 10,
        "acks": "all",
        "queue.buffering.max.kbytes": 65536,
        "message.max.bytes": 1000000,
    }
)
padding = random.randbytes(1 << 20)
failures = []


def delivered(error, _message):
    if error is not None:
        failures.append(error)


for number in range(int(first), int(first) + int(count)):
    for partition in range(int(partitions)):
        start = random.randrange(len(padding) - size)
        value = number.to_bytes(8, "big") + padding[start : start + size]
        while True:
            try:
                producer.produce(topic, value=value, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    producer.poll(0)
assert producer.flush(60) == 0
assert not failures, failures[:3]
