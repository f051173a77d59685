"""The broker's own topics under compaction: internal.py fill|verify BOOTSTRAP FILE.

`fill` commits offsets and ends transactions again and again, until compaction has left few records of many, and writes to FILE what was
committed last. `verify` asks for that, and goes on where `fill` was.
"""

import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

TOPICS = ["__consumer_offsets", "__transaction_state"]
GROUPS = 5
LEAST = 600
FEW = 200
LIMIT = 90

what, bootstrap, path = sys.argv[1:]


def commit(groups, offset):
    for consumer in groups:
        consumer.commit(offsets=[TopicPartition("data", 0, offset)], asynchronous=False)


def group(number):
    return Consumer({"bootstrap.servers": bootstrap, "group.id": f"group{number}", "enable.auto.commit": False})


def transactional():
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "internal", "linger.ms": 0})
    producer.init_transactions(60)
    return producer


def transact(producer):
    producer.begin_transaction()
    producer.produce("data", "value", "key", partition=0)
    producer.commit_transaction(60)


def count(topic):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found, deadline = 0, time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            consumer.close()
            return found, message.offset()
        found += message is not None
    raise AssertionError("the end of the log never came")


def fill():
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("data", 1, 1)], request_timeout=60).values():
        future.result()
    groups, producer = [group(number) for number in range(GROUPS)], transactional()
    commit(groups, 1)
    transact(producer)
    sooner = {"segment.ms": "300", "min.cleanable.dirty.ratio": "0.01"}
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in sooner.items()]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries) for topic in TOPICS]
    for future in admin.incremental_alter_configs(resources).values():
        future.result()
    offset, deadline = 1, time.monotonic() + LIMIT
    while True:
        for _ in range(20):
            offset += 1
            commit(groups, offset)
            transact(producer)
        counts = [count(topic) for topic in TOPICS]
        if all(end > LEAST and found < FEW for found, end in counts):
            break
        assert time.monotonic() < deadline, f"still not compacted: {counts}"
    with open(path, "w") as file:
        json.dump(offset, file)
    print(f"{counts} records are left, of those written")


def verify():
    with open(path) as file:
        offset = json.load(file)
    for number in range(GROUPS):
        consumer = group(number)
        (found,) = consumer.committed([TopicPartition("data", 0)], timeout=60)
        assert found.offset == offset, f"group{number} is at {found.offset}, committed was {offset}"
        consumer.close()
    producer = transactional()
    transact(producer)
    print(f"all groups are at {offset}")


if what == "fill":
    fill()
else:
    verify()
