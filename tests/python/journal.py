"""Prints `partition number offset` of every record that load.py wrote. journal.py BOOTSTRAP TOPIC PARTITIONS."""

import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

bootstrap, topic, partitions = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "check.crcs": True,
        "enable.partition.eof": False,
    }
)


def watermarks(partition):
    """The watermarks, as soon as a leader that was just elected knows them."""
    end = time.monotonic() + 30
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.OFFSET_NOT_AVAILABLE or time.monotonic() > end:
                raise


ends = {}
for partition in range(int(partitions)):
    low, high = watermarks(partition)
    assert low == 0, low
    if high > 0:
        ends[partition] = high
consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
left = sum(ends.values())
while ends:
    messages = consumer.consume(min(left, 1000), 30)
    assert messages, f"{ends} never came"
    left = max(left - len(messages), 1)
    for message in messages:
        assert message.error() is None, message.error()
        number = int.from_bytes(message.value()[:8], "big")
        print(message.partition(), number, message.offset())
        if message.offset() + 1 == ends.get(message.partition()):
            del ends[message.partition()]
consumer.close()
