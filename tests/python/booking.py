"""Transactions over all partitions of a topic, and their records as a reader of committed records finds them.

booking.py write BOOTSTRAP TOPIC PARTITIONS JOURNAL  ends four of five transactions with a commit, the others with an abort,
    and writes `NUMBER committed|aborted` into JOURNAL; prints the number of transactions. A line on standard input ends it.
booking.py read BOOTSTRAP TOPIC PARTITIONS           prints `PARTITION NUMBER` of every committed record

The writer fails on an error after which neither a repetition nor an abort is allowed.
"""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

role, bootstrap, topic, partitions, *rest = sys.argv[1:]
partitions = range(int(partitions))
PATIENCE_S = 60
connection = {
    "bootstrap.servers": bootstrap,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 2,
}


def again(call):
    """Repeats a call that the client says may be repeated."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call(PATIENCE_S)
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > end:
                raise


def write():
    stop = threading.Event()

    def listen():
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=listen, daemon=True).start()
    producer = Producer({**connection, "transactional.id": topic, "transaction.timeout.ms": 60000, "linger.ms": 2})
    again(producer.init_transactions)
    journal = open(rest[0], "w", buffering=1)
    number = 0
    while not stop.is_set():
        is_wanted = number % 5 != 4
        producer.begin_transaction()
        try:
            for partition in partitions:
                producer.produce(topic, value=str(number), partition=partition)
            producer.flush(PATIENCE_S)
            if is_wanted:
                again(producer.commit_transaction)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                print(f"failed: {failure.args[0]}", flush=True)
                sys.exit(1)
            is_wanted = False
        if not is_wanted:
            again(producer.abort_transaction)
        journal.write(f"{number} {'committed' if is_wanted else 'aborted'}\n")
        number += 1
        if number % 5 == 0:
            print(number, flush=True)
    journal.close()


def read():
    consumer = Consumer({**connection, "group.id": "unused", "isolation.level": "read_committed", "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    ended = set()
    while len(ended) < len(partitions):
        for message in consumer.consume(1000, 1):
            if message.error() is None:
                ended.discard(message.partition())
                print(message.partition(), message.value().decode())
            else:
                ended.add(message.partition())
    consumer.close()


write() if role == "write" else read()
