"""A compacted topic under load: compacted.py load|verify BOOTSTRAP TOPIC FILE [ROUNDS SEED].

`load` creates the topic, overwrites and deletes keys in it, plainly and in transactions of which some are aborted, while
a reader goes over it again and again, and writes to FILE what each key has come to. `verify` waits until the log holds
nothing else, and compares.
"""

import json
import random
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2
LIMIT = 90
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "300",
    "delete.retention.ms": "500",
    "file.delete.delay.ms": "100",
}

what, bootstrap, topic, path = sys.argv[1:5]


def create():
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, PARTITIONS, 1, config=CONFIG)
    for future in admin.create_topics([new], request_timeout=60).values():
        future.result()


def read(partition, isolation="read_committed"):
    """Everything up to what the end is now: (offset, key, value), each later than the one before."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found, deadline = [], time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
        if message.offset() >= end:
            consumer.close()
            return found
        if message.error() is not None:
            continue
        value = message.value()
        assert not found or found[-1][0] < message.offset(), "offsets go back"
        found.append((message.offset(), message.key().decode(), None if value is None else value.decode()))
    raise AssertionError("the end of the log never came")


class Load:
    """Writes keys and knows what they must be."""

    def __init__(self, rounds, seed):
        self.random = random.Random(seed)
        self.rounds = rounds
        self.written = {}  # (partition, offset) -> (key, value, counts)
        self.done = threading.Event()
        common = {"bootstrap.servers": bootstrap, "linger.ms": 2}
        self.plain = Producer({**common, "enable.idempotence": True, "compression.type": "lz4"})
        self.transactional = Producer({**common, "transactional.id": topic, "compression.type": "zstd"})
        self.transactional.init_transactions(60)

    def put(self, producer, kind, keys, into):
        key = f"{kind}{self.random.randrange(keys)}"
        value = None if self.random.random() < 0.15 else f"{self.random.random()}" * self.random.randrange(1, 30)

        def delivered(error, message):
            assert error is None, error
            into.append((message.partition(), message.offset(), key, value))

        producer.produce(topic, value, key, partition=hash(key) % PARTITIONS, on_delivery=delivered)
        producer.poll(0)

    def note(self, delivered, counts):
        for partition, offset, key, value in delivered:
            self.written[(partition, offset)] = (key, value, counts)

    def run(self):
        for _ in range(self.rounds):
            delivered = []
            for _ in range(self.random.randrange(1, 120)):
                self.put(self.plain, "plain", 150, delivered)
            assert self.plain.flush(60) == 0
            self.note(delivered, True)
            delivered, commit = [], self.random.random() < 0.6
            self.transactional.begin_transaction()
            for _ in range(self.random.randrange(1, 60)):
                self.put(self.transactional, "txn", 80, delivered)
            assert self.transactional.flush(60) == 0
            if commit:
                self.transactional.commit_transaction(60)
            else:
                self.transactional.abort_transaction(60)
            self.note(delivered, commit)
        self.done.set()

    def last(self):
        last = {}
        for (partition, offset), (key, value, counts) in sorted(self.written.items()):
            if counts:
                last[key] = (partition, offset, value)
        return last


def reread(load, complaints):
    """Reads over and over; what it sees is looked at once everything written is known."""
    while not load.done.is_set():
        for partition in range(PARTITIONS):
            complaints.append((partition, read(partition)))


def fill(ahead):
    """A record in each partition, so many seconds later than now: segments are rolled by what comes after them."""
    filler, now = Producer({"bootstrap.servers": bootstrap}), time.time()
    for partition in range(PARTITIONS):
        filler.produce(topic, str(now), "filler", partition=partition, timestamp=int((now + ahead) * 1000))
    assert filler.flush(60) == 0


def run_load(rounds, seed):
    create()
    load, seen = Load(rounds, seed), []
    reader = threading.Thread(target=reread, args=(load, seen))
    reader.start()
    load.run()
    reader.join()
    fill(1)
    for partition, records in seen:
        for offset, key, value in records:
            wanted = load.written.get((partition, offset))
            assert wanted == (key, value, True), f"{partition}/{offset}: {key} {value}, written was {wanted}"
    with open(path, "w") as file:
        json.dump({"last": load.last(), "written": len(load.written)}, file)
    print(f"{len(load.written)} written, {len(load.last())} keys, read {len(seen)} times over")


def is_clean(records, last):
    """Whether each key is there once at most, and none whose last record deletes it."""
    keys = [key for _, key, _ in records if key != "filler"]
    return len(keys) == len(set(keys)) and all(key in last and last[key][2] is not None for key in keys)


def run_verify():
    with open(path) as file:
        known = json.load(file)
    last, deadline = known["last"], time.monotonic() + LIMIT
    while True:
        fill(0)
        found = [read(partition, "read_uncommitted") for partition in range(PARTITIONS)]
        if all(is_clean(records, last) for records in found):
            break
        assert time.monotonic() < deadline, f"still not compacted: {[len(records) for records in found]}"
    remaining = dict(last)
    for partition, records in enumerate(found):
        for offset, key, value in records:
            if key != "filler":
                assert [partition, offset, value] == remaining.pop(key), f"{key} at {partition}/{offset}: {value}"
    lost = [key for key, (_, _, value) in remaining.items() if value is not None]
    assert not lost, f"lost: {lost[:5]}"
    print(f"{sum(map(len, found))} records are left of {known['written']}")


if what == "load":
    rounds, seed = sys.argv[5:]
    run_load(int(rounds), int(seed))
else:
    run_verify()
