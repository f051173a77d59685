"""Produces without end, through broker crashes, and writes down every acknowledgement.

load.py BOOTSTRAP TOPIC PARTITIONS JOURNAL idempotent|plain|transactional [RATE [SIZE]]. Prints the number of
acknowledgements whenever it has grown. RATE limits the records of a second, SIZE the bytes of a value. A line on standard
input ends it: it then waits until everything has been delivered.

All kinds have acks=all. A plain producer gives records up after 5 s, and may have others stored twice. A transactional one
writes a transaction down when it is committed; the records of an aborted one are sent again with their numbers.
"""

import random
import sys
import threading
import time

from confluent_kafka import KafkaException, Producer

# Records of a transaction.
TRANSACTION = 60
PATIENCE_S = 60

bootstrap, topic, partitions, journal, kind = sys.argv[1:6]
rate = float(sys.argv[6]) if len(sys.argv) > 6 else None
size = int(sys.argv[7]) if len(sys.argv) > 7 else 1000
partitions = int(partitions)
settings = {
    "bootstrap.servers": bootstrap,
    "enable.idempotence": kind != "plain",
    "acks": "all",
    "max.in.flight.requests.per.connection": 5,
    "compression.type": random.choice(["none", "lz4", "zstd"]),
    # Large values are meant for large batches.
    "linger.ms": 2 if size <= 1000 else 100,
    "batch.num.messages": 50,
    "message.timeout.ms": 5000 if kind == "plain" else 300000,
    # A suspended broker does not close its connections.
    "request.timeout.ms": 10000,
    "socket.timeout.ms": 10000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    # The records of a partition without a leader leave room for those of the others.
    "queue.buffering.max.messages": 100000 if rate and size <= 1000 else 3000,
    "log_level": 2,
}
if kind == "transactional":
    settings |= {"transactional.id": topic, "transaction.timeout.ms": 300000}
producer = Producer(settings)
acknowledged = open(journal, "w", buffering=1)
count = 0
stop = threading.Event()


def note(partition, number, message):
    global count
    count += 1
    # No offset if the broker had the batch already when it was sent again.
    offset = -1 if message.offset() is None else message.offset()
    acknowledged.write(f"{partition} {number} {offset}\n")


def delivered(partition, number):
    def report(error, message):
        if error is None:
            note(partition, number, message)
        elif kind == "idempotent":
            fail(error)

    return report


def fail(error):
    print(f"failed: {error}", flush=True)
    sys.exit(1)


def listen():
    sys.stdin.readline()
    stop.set()


threading.Thread(target=listen, daemon=True).start()
random.seed(7)
noise = random.randbytes(2 * size)
number, reported = [0] * partitions, 0
start = time.monotonic()


def record():
    """The next record: its partition, number and value."""
    partition = random.randrange(partitions)
    first = random.randrange(size)
    value = number[partition].to_bytes(8, "big") + noise[first : first + random.randrange(size)]
    number[partition] += 1
    return partition, number[partition] - 1, value


def keep_pace():
    global reported
    while rate and sum(number) > rate * (time.monotonic() - start) and not stop.is_set():
        producer.poll(0.01)
    if count >= reported + 500:
        reported = count
        print(count, flush=True)


def produce(partition, value, report):
    while True:
        try:
            producer.produce(topic, value=value, partition=partition, on_delivery=report)
            return producer.poll(0)
        except BufferError:
            producer.poll(0.01)


def again(call):
    """Repeats a call that the client says may be repeated."""
    while True:
        try:
            return call(PATIENCE_S)
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise


def attempt(records):
    """Has the records and further ones committed; returns how they were delivered, or None if that was aborted."""
    messages = {}

    def send(partition, number, value):
        produce(partition, value, lambda _, message: messages.update({(partition, number): message}))

    try:
        producer.begin_transaction()
        try:
            for one in records:
                send(*one)
            while len(records) < TRANSACTION and not stop.is_set():
                records.append(record())
                send(*records[-1])
                keep_pace()
        except KafkaException:
            # The commit tells what has happened.
            pass
        again(producer.commit_transaction)
        return messages
    except KafkaException as failed:
        if not failed.args[0].txn_requires_abort():
            fail(failed)
        print(f"aborted: {failed}", file=sys.stderr)
        again(producer.abort_transaction)
        return None


def transact():
    records = []
    while (messages := attempt(records)) is None:
        pass
    for (partition, number), message in messages.items():
        note(partition, number, message)


if kind == "transactional":
    again(producer.init_transactions)
while not stop.is_set():
    if kind == "transactional":
        transact()
    else:
        partition, own, value = record()
        produce(partition, value, delivered(partition, own))
    keep_pace()
left = producer.flush(120)
acknowledged.close()
assert left == 0, f"{left} records are still waiting"
print(f"produced {sum(number)}", flush=True)
