"""confluent-kafka (librdkafka)."""

import corpus
from confluent_kafka import Consumer, Producer, TopicPartition


def produce(bootstrap, topic, codec, records):
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.max.bytes": 1000000,
            "queue.buffering.max.messages": 20000,
            "queue.buffering.max.kbytes": 131072,
        }
    )
    failures = []

    def delivered(error, _message):
        if error is not None:
            failures.append(error)

    for partition, timestamp, key, value, headers in records:
        while True:
            try:
                producer.produce(
                    topic,
                    value=value,
                    key=key,
                    partition=partition,
                    timestamp=timestamp,
                    headers=headers,
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0, "not everything was delivered"
    assert not failures, failures[:3]


def consume(bootstrap, topic, partitions, count, add):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.max.bytes": 52428800,
            "max.partition.fetch.bytes": 8388608,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    while count > 0:
        messages = consumer.consume(min(count, 1000), 30)
        assert messages, f"{count} records never came"
        for message in messages:
            assert message.error() is None, message.error()
            add(
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                message.headers() or [],
            )
        count -= len(messages)
    consumer.close()


if __name__ == "__main__":
    corpus.main(produce, consume)
