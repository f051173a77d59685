"""Prints `partition number offset` of every committed record that load.py wrote. journal.py BOOTSTRAP TOPIC PARTITIONS [FOLLOWED].

With a file FOLLOWED it writes there instead, and reads while load.py writes, until a line on standard input.
"""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

bootstrap, topic, partitions = sys.argv[1:4]
followed = open(sys.argv[4], "w") if len(sys.argv) > 4 else None
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "check.crcs": True,
        "isolation.level": "read_committed",
        # The last offsets of a partition may be those of markers and of aborted records.
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "socket.timeout.ms": 10000,
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


def note(messages):
    """Writes the records, and returns the offset behind each and the ends that were reached."""
    for message in messages:
        if message.error() is None:
            number = int.from_bytes(message.value()[:8], "big")
            print(message.partition(), number, message.offset(), file=followed)
            yield message.partition(), message.offset() + 1
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            yield message.partition(), message.offset()


positions = [0] * int(partitions)
if followed:
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(int(partitions))])
    while not stop.is_set():
        for partition, position in note(consumer.consume(1000, 0.2)):
            positions[partition] = position
ends = {}
for partition, position in enumerate(positions):
    low, high = watermarks(partition)
    assert followed or low == 0, low
    if high > position:
        ends[partition] = high
if not followed:
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
last = time.monotonic()
while ends:
    messages = consumer.consume(1000, 0.1)
    assert messages or time.monotonic() < last + 30, f"{ends} never came"
    last = time.monotonic() if messages else last
    for partition, position in note(messages):
        if position >= ends.get(partition, position + 1):
            del ends[partition]
consumer.close()
if followed:
    followed.close()
