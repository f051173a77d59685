"""kafka-python, which is pure Python."""

import corpus
from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def produce(bootstrap, topic, codec, records):
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
        batch_size=262144,
    )
    sent = [
        producer.send(topic, value=value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp)
        for partition, timestamp, key, value, headers in records
    ]
    producer.flush(60)
    for future in sent:
        future.get(60)
    producer.close()


def consume(bootstrap, topic, partitions, count, add):
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, partition) for partition in partitions])
    while count > 0:
        polled = consumer.poll(30000)
        assert polled, f"{count} records never came"
        for messages in polled.values():
            for message in messages:
                add(
                    message.partition,
                    message.offset,
                    message.timestamp,
                    message.key,
                    message.value,
                    message.headers,
                )
            count -= len(messages)
    consumer.close()


if __name__ == "__main__":
    corpus.main(produce, consume)
