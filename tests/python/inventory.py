"""What a broker holds, for a data directory that changes hands: inventory.py fill|go-on|survey BOOTSTRAP.

`fill` leaves topics, records, groups, settings and transactions behind, one of them open; `go-on` works on with all
of that as its owners would; `survey` prints everything that a client can see, in an order of its own.
"""

import hashlib
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel

verb, bootstrap = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": bootstrap})
TOPICS = {"plain": 3, "kept": 1, "accounts": 2}
GROUPS = {"old-style": "classic", "new-style": "consumer"}


def fill():
    created = admin.create_topics(
        [
            NewTopic("plain", 3, 1, config={"segment.bytes": "1048576", "retention.ms": "-1"}),
            NewTopic("kept", 1, 1, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9"}),
            NewTopic("accounts", 2, 1),
        ]
    )
    for one in created.values():
        one.result(60)
    settings = ConfigResource(
        ResourceType.TOPIC,
        "accounts",
        incremental_configs=[
            ConfigEntry("max.message.bytes", "2000000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    for one in admin.incremental_alter_configs([settings]).values():
        one.result(60)
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
        produce({"compression.type": codec, "enable.idempotence": True}, "plain", 400, codec)
    produce({}, "kept", 50, "first")
    commit("old-style", 100)
    commit("new-style", 200)
    transactions("begin")


def go_on():
    produce({"enable.idempotence": True}, "plain", 100, "later")
    produce({}, "kept", 50, "second")
    commit("old-style", 150)
    commit("new-style", 250)
    transactions("again")


def produce(options, topic, count, word):
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **options})
    for number in range(count):
        producer.produce(
            topic,
            (f"{word} {number} " * (1 + number % 50)).encode(),
            key=f"key {number % 37}".encode(),
            headers=[("word", word.encode()), ("none", None)],
            partition=number % TOPICS[topic],
            timestamp=1_700_000_000_000 + number,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    producer.flush(60)
    assert not failed, failed[0]


def commit(group, offset):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": GROUPS[group],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["plain"])
    while not consumer.assignment():
        message = consumer.poll(1)
        assert message is None or not message.error(), message.error()
    positions = [TopicPartition("plain", index, offset + index, metadata=f"by {group}") for index in range(3)]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def transactions(word):
    """One committed, one aborted, one left open by a client that dies; all of the same owner the next time."""
    for fate in ["committed", "aborted", "open"]:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"clerk-{fate}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(20):
            producer.produce("accounts", f"{word} {fate} {number}".encode(), partition=number % 2)
        producer.flush(60)
        if fate == "committed":
            producer.commit_transaction(60)
        elif fate == "aborted":
            producer.abort_transaction(60)


def survey():
    for topic, partitions in sorted(TOPICS.items()):
        for index in range(partitions):
            for level in ["read_uncommitted", "read_committed"]:
                records(topic, index, level)
            ends(topic, index)
        settings(topic)
    listed = admin.list_consumer_groups(request_timeout=30).result(60)
    for group in sorted(one.group_id for one in listed.valid):
        described = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        for one in sorted(described[group].result(60).topic_partitions, key=lambda one: (one.topic, one.partition)):
            print("group", group, one.topic, one.partition, one.offset, one.metadata)


def records(topic, index, level):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "surveyor",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0)])
    digest, count, offsets = hashlib.sha256(), 0, []
    last = {}
    while True:
        message = consumer.poll(60)
        assert message is not None, f"{topic}-{index} does not end"
        if message.error():
            break
        seen = message.offset(), message.timestamp(), message.key(), message.value(), message.headers()
        last[message.key()] = seen
        digest.update(repr(seen).encode())
        count += 1
        offsets.append(message.offset())
    consumer.close()
    if topic == "kept":
        # Compaction may come at any time, and leaves this.
        digest = hashlib.sha256(repr(sorted(last.values())).encode())
        count, offsets = len(last), []
    print("records", topic, index, level, count, offsets[:1], offsets[-1:], digest.hexdigest())


def ends(topic, index):
    partition = TopicPartition(topic, index)
    for name, spec, level in [
        ("start", OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
        ("end", OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
        ("stable", OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
        ("newest", OffsetSpec.max_timestamp(), IsolationLevel.READ_UNCOMMITTED),
        ("at", OffsetSpec.for_timestamp(1_700_000_000_050), IsolationLevel.READ_UNCOMMITTED),
    ]:
        found = admin.list_offsets({partition: spec}, isolation_level=level)[partition].result(60)
        # Two records of "kept" share the latest timestamp, until compaction takes the first.
        print("offset", topic, index, name, found.timestamp if (topic, name) == ("kept", "newest") else found.offset)


def settings(topic):
    resource = ConfigResource(ResourceType.TOPIC, topic)
    for name, entry in sorted(admin.describe_configs([resource])[resource].result(60).items()):
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value:
            print("setting", topic, name, entry.value)


try:
    {"fill": fill, "go-on": go_on, "survey": survey}[verb]()
except KafkaException as failed:
    sys.exit(f"{verb}: {failed}")
