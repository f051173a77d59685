"""Connects as each *.json file of a directory says; prints for each what came of it: "ok" or "refused"."""

import json
import pathlib
import sys
import time


def confluent(case, text):
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

    errors = []
    settings = {
        "bootstrap.servers": case["bootstrap"],
        "security.protocol": "ssl",
        "ssl.ca.location": case["ca"],
        "error_cb": errors.append,
        "log_level": 0,
    }
    if "certificate" in case:
        settings |= {"ssl.certificate.location": case["certificate"], "ssl.key.location": case["certificate"]}
    delivered = []
    producer = Producer(settings)
    producer.produce("secure", text, partition=0, on_delivery=lambda error, message: delivered.append((error, message)))
    end = time.monotonic() + 60
    # With TLS 1.3 a client learns from its first read that its certificate was refused.
    def refused():
        return any(error.code() == KafkaError._SSL or "alert" in error.str() for error in errors)

    while not delivered and not refused():
        assert time.monotonic() < end, [error.str() for error in errors[:5]]
        producer.poll(0.1)
    if not delivered:
        producer.purge()
        return "refused"
    assert delivered[0][0] is None, delivered
    consumer = Consumer(settings | {"group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("secure", 0, delivered[0][1].offset())])
    message = consumer.poll(60)
    assert message.value().decode() == text, message.value()
    consumer.close()
    return "ok"


def kafka_python(case, text):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError

    settings = {
        "bootstrap_servers": case["bootstrap"],
        "security_protocol": "SSL",
        "ssl_cafile": case["ca"],
        "ssl_certfile": case.get("certificate"),
        "ssl_keyfile": case.get("certificate"),
    }
    try:
        producer = KafkaProducer(**settings)
    except KafkaError:
        return "refused"
    offset = producer.send("secure", text.encode(), partition=0).get(60).offset
    producer.close()
    consumer = KafkaConsumer(consumer_timeout_ms=60000, **settings)
    partition = TopicPartition("secure", 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    assert next(consumer).value.decode() == text
    consumer.close()
    return "ok"


if __name__ == "__main__":
    client = {"confluent": confluent, "kafka_python": kafka_python}[sys.argv[1]]
    for path in sorted(pathlib.Path(sys.argv[2]).glob("*.json")):
        print(path.stem, client(json.loads(path.read_text()), f"{sys.argv[1]}-{path.stem}"))
