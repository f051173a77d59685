"""A member of a consumer group that commits, and watches what it has committed.

committing.py BOOTSTRAP GROUP TOPIC classic|consumer. Prints the number of records read after each commit. A line on standard
input makes it read up to the end, commit, and leave. It fails on an error that is no reason to try again, on a record
that is skipped, and on a committed offset that is lower than one whose commit was acknowledged.
"""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

bootstrap, group, topic, protocol = sys.argv[1:]
settings = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "group.protocol": protocol,
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 200,
    "log_level": 2,
}
# Errors of Kafka's protocol that are RetriableException, and those of the client itself that stand for them.
RETRIABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
    KafkaError._WAIT_CACHE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
}
PATIENCE = 120
acknowledged, numbers, retried = {}, {}, {}
stop = threading.Event()


def judge(error, deed):
    """Notes an error that is a reason to try again; ends the program with any other."""
    if error.code() not in RETRIABLE and not error.retriable():
        print(f"failed: {deed}: {error}", flush=True)
        sys.exit(1)
    retried[error.name()] = retried.get(error.name(), 0) + 1


def patiently(deed, action):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except KafkaException as failure:
            judge(failure.args[0], deed)
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def offsets(partitions):
    """Committed offsets of these partitions, which never go back."""

    def ask():
        found = consumer.committed([TopicPartition(topic, partition) for partition in partitions], timeout=10)
        for one in found:
            if one.error is not None:
                raise KafkaException(one.error)
        return found

    found = patiently("committed offsets", ask)
    for one in found:
        known = acknowledged.get(one.partition, 0)
        if max(one.offset, 0) < known:
            print(f"failed: partition {one.partition} is committed to {one.offset}, was to {known}", flush=True)
            sys.exit(1)
    return found


def assigned(_consumer, partitions):
    found = offsets([one.partition for one in partitions])
    for one in found:
        one.offset = max(one.offset, 0)
        numbers.pop(one.partition, None)
    (consumer.incremental_assign if protocol == "consumer" else consumer.assign)(found)


def commit(positions):
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in positions.items()]

    def act():
        for one in consumer.commit(offsets=wanted, asynchronous=False):
            if one.error is not None:
                raise KafkaException(one.error)

    patiently("commit", act)
    acknowledged.update(positions)
    offsets(positions)


def read(limit):
    positions = {}
    for message in consumer.consume(limit, 0.5):
        if message.error() is not None:
            judge(message.error(), "fetch")
            continue
        partition, number = message.partition(), int.from_bytes(message.value()[:8], "big")
        expected = numbers.get(partition, number)
        if number > expected:
            print(f"failed: partition {partition}: record {number} comes after {expected - 1}", flush=True)
            sys.exit(1)
        numbers[partition] = number + 1
        positions[partition] = message.offset() + 1
    return positions


def told(error):
    if error.fatal():
        judge(error, "client")


def listen():
    sys.stdin.readline()
    stop.set()


settings["error_cb"] = told
consumer = Consumer(settings)
threading.Thread(target=listen, daemon=True).start()
consumer.subscribe([topic], on_assign=assigned)
count = 0
while not stop.is_set():
    positions = read(2000)
    if positions:
        commit(positions)
        count += sum(1 for _ in positions)
        print(count, flush=True)
ends = {}
for one in patiently("assignment", consumer.assignment):
    ask = TopicPartition(topic, one.partition)
    ends[one.partition] = patiently("end", lambda: consumer.get_watermark_offsets(ask, timeout=10))[1]
assert ends, "no partition is assigned"
deadline = time.monotonic() + PATIENCE
while any(acknowledged.get(partition, 0) < end for partition, end in ends.items()):
    assert time.monotonic() < deadline, f"{acknowledged} never reached {ends}"
    positions = read(2000)
    if positions:
        commit(positions)
consumer.close()
print(f"read up to {sum(ends.values())}; tried again after {retried}", flush=True)
