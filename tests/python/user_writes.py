"""Writes as a user until the outcome is the expected one: user_writes.py TOPIC EXPECTED ADDRESS...

The user is alice, the partition that of the address's place. Outcomes are `written`, or the name of librdkafka's error.
"""

import sys
import time

from confluent_kafka import Producer

topic, expected, *addresses = sys.argv[1:]


def outcome(address, partition):
    outcomes, errors = [], []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "error_cb": lambda error: errors.append(error.name()),
            "message.timeout.ms": 5000,
            "log_level": 0,
        }
    )
    producer.produce(
        topic, b"of alice", partition=partition, on_delivery=lambda error, _: outcomes.append(error.name() if error else "written")
    )
    while not outcomes and "_AUTHENTICATION" not in errors:
        producer.poll(0.1)
    producer.purge()
    return outcomes[0] if outcomes else "_AUTHENTICATION"


for partition, address in enumerate(addresses):
    deadline = time.monotonic() + 90
    while (last := outcome(address, partition)) != expected:
        assert time.monotonic() < deadline, f"{address}: {last}, not {expected}"
