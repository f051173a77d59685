"""A member of a consumer group. member.py BOOTSTRAP GROUP TOPIC JOURNAL.

Prints `assigned N` on every rebalance and `read N` as it goes. Writes `partition number offset` of a record before it
commits it. A line on standard input makes it leave well.
"""

import sys
import threading

from confluent_kafka import Consumer

bootstrap, group, topic, journal = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "fetch.wait.max.ms": 100,
        "max.partition.fetch.bytes": 65536,
        "reconnect.backoff.max.ms": 200,
        "log_level": 2,
    }
)
record = open(journal, "w")
stop = threading.Event()


def assigned(_consumer, partitions):
    print(f"assigned {len(partitions)}", flush=True)


def listen():
    sys.stdin.readline()
    stop.set()


threading.Thread(target=listen, daemon=True).start()
consumer.subscribe([topic], on_assign=assigned)
count = 0
while not stop.is_set():
    messages = [message for message in consumer.consume(200, 0.1) if message.error() is None]
    for message in messages:
        number = int.from_bytes((message.value() or b"")[:8], "big")
        record.write(f"{message.partition()} {number} {message.offset()}\n")
    if messages:
        record.flush()
        try:
            consumer.commit(asynchronous=False)
        except Exception as error:  # A rebalance may have taken the partitions away: others will read them again.
            print(f"commit failed: {error}", flush=True)
        count += len(messages)
        print(f"read {count}", flush=True)
consumer.close()
