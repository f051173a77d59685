"""The clients of the exactly-once check. Each works until a line comes on standard input.

writer BOOTSTRAP NAME PARTITIONS SEED JOURNAL  writes transactions into `input` and how each of them ended into JOURNAL
copier BOOTSTRAP NAME PARTITIONS SEED TOPIC    copies `input` to TOPIC, offsets within the transaction; ends when it is fenced
reader BOOTSTRAP PARTITIONS FILE TOPIC...      writes the committed records of the topics into FILE, then ends where they end

A record of `input` says who wrote it, in which transaction, with which running number of that writer and partition; a
copy says before it where the original lies.
"""

import logging
import os
import random
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

PATIENCE_S = 60
ENDINGS = {"commit": 60, "abort": 20, "abandon": 8, "rival": 8, "overdue": 4}

role, bootstrap, *rest = sys.argv[1:]
silence = logging.getLogger("silence")
silence.disabled = True
connection = {
    "bootstrap.servers": bootstrap,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    # With the only broker gone, librdkafka would take a new handle for it and hang on the cached old one.
    "metadata.recovery.strategy": "none",
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    # Being fenced is business as usual here.
    "logger": silence,
}
stop = threading.Event()


def listen():
    sys.stdin.readline()
    stop.set()


def opened(name, timeout_ms):
    """A producer that has made sure that its predecessors are fenced and their transactions ended."""
    settings = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
    made = Producer({**connection, **settings})
    made.init_transactions(PATIENCE_S)
    return made


def consumer(settings):
    return Consumer(
        {**connection, "isolation.level": "read_committed", "enable.auto.commit": False, "check.crcs": True, **settings}
    )


def again(call):
    """Repeats a call that the client says may be repeated."""
    while True:
        try:
            return call(PATIENCE_S)
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise


class Writer:
    def __init__(self, name, partitions, seed, journal):
        self.name, self.partitions = name, int(partitions)
        random.seed(seed)
        self.journal = open(journal, "w", buffering=1)
        self.numbers = [0] * self.partitions
        self.client = opened(name, 3000)

    def run(self):
        transaction = 0
        while not stop.is_set():
            ending = random.choices(list(ENDINGS), ENDINGS.values())[0]
            sent = []
            outcome = self.attempt(transaction, ending, sent)
            records = " ".join(f"{partition}:{number}" for partition, number in sent)
            self.journal.write(f"{transaction} {outcome} {records}\n")
            transaction += 1
            time.sleep(random.random() * 0.1)
        # Nothing is left open behind it.
        opened(self.name, 3000)

    def attempt(self, transaction, ending, sent):
        """Tells how a transaction ended: committed, aborted or unknown."""
        asked_to_commit = False
        try:
            self.client.begin_transaction()
            self.send(transaction, sent)
            if ending == "abort":
                again(self.client.abort_transaction)
                return "aborted"
            if ending == "abandon":
                self.client = opened(self.name, 3000)
                return "aborted"
            if ending == "rival":
                return self.meet_rival()
            if ending == "overdue":
                time.sleep(5)
            asked_to_commit = True
            again(self.client.commit_transaction)
            return "committed"
        except KafkaException as failed:
            if failed.args[0].txn_requires_abort():
                try:
                    again(self.client.abort_transaction)
                    return "aborted"
                except KafkaException:
                    pass
            self.client = opened(self.name, 3000)
            return "unknown" if asked_to_commit else "aborted"

    def send(self, transaction, sent):
        for _ in range(random.randrange(1, 30)):
            partition = random.randrange(self.partitions)
            number = self.numbers[partition]
            self.numbers[partition] += 1
            sent.append((partition, number))
            padding = "x" * random.randrange(500)
            self.client.produce("input", f"{self.name} {transaction} {number} {padding}", partition=partition)
        if random.random() < 0.3:
            self.client.flush(PATIENCE_S)

    def meet_rival(self):
        """Another producer takes the name: from then on this one must not be able to commit."""
        rival = opened(self.name, 3000)
        try:
            again(self.client.commit_transaction)
            sys.exit(f"{self.name} has committed after it was fenced")
        except KafkaException:
            self.client = rival
            return "aborted"


class Copier:
    def __init__(self, name, partitions, seed, topic):
        random.seed(seed)
        self.topic, self.rebalanced = topic, False
        self.producer = opened(name, random.randrange(5000, 15000))
        self.consumer = consumer(
            {"group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        )
        self.consumer.subscribe(["input"], on_assign=self.changed, on_revoke=self.changed, on_lost=self.changed)

    def changed(self, *_):
        self.rebalanced = True

    def run(self):
        while not stop.is_set():
            messages = [one for one in self.consumer.consume(random.randrange(1, 200), 0.3) if one.error() is None]
            member = self.consumer.consumer_group_metadata()
            try:
                if self.rebalanced:
                    # Some of the records may be another member's by now.
                    self.rebalanced = False
                    self.rewind()
                elif messages:
                    self.copy(messages, member)
            except KafkaException as failed:
                self.recover(failed.args[0])
        self.consumer.close()

    def recover(self, error):
        try:
            if error.txn_requires_abort():
                self.give_up()
                return
        except KafkaException as failed:
            error = failed.args[0]
        print(f"over: {error.str()}", flush=True)
        # As a crash would: without leaving the group.
        os._exit(0)

    def copy(self, messages, member):
        self.producer.begin_transaction()
        offsets = {}
        for message in messages:
            value = f"{message.offset()} {message.value().decode()}"
            self.producer.produce(self.topic, value, partition=message.partition())
            offsets[message.partition()] = message.offset() + 1
        ends = [TopicPartition("input", partition, offset) for partition, offset in offsets.items()]
        again(lambda limit: self.producer.send_offsets_to_transaction(ends, member, limit))
        if random.random() < 0.15:
            self.give_up()
        else:
            again(self.producer.commit_transaction)

    def give_up(self):
        again(self.producer.abort_transaction)
        self.rewind()

    def rewind(self):
        assigned = self.consumer.assignment()
        if not assigned:
            return
        for place in again(lambda limit: self.consumer.committed(assigned, limit)):
            self.consumer.seek(TopicPartition("input", place.partition, max(place.offset, 0)))


class Reader:
    def __init__(self, partitions, file, *topics):
        self.places = [TopicPartition(topic, index, 0) for topic in topics for index in range(int(partitions))]
        self.seen = dict.fromkeys(topics, 0)
        self.file = open(file, "w")
        self.settings = {"group.id": "nobody", "auto.offset.reset": "error"}

    def run(self):
        client = consumer({**self.settings, "enable.partition.eof": True})
        client.assign(self.places)
        reached, ends = {}, None
        while ends is None or any(reached.get(place, -1) < end for place, end in ends.items()):
            if ends is None and stop.is_set():
                ends = self.settled_ends(client)
            for message in client.consume(500, 0.3):
                if message.error() is None:
                    self.take(message)
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    reached[(message.topic(), message.partition())] = message.offset()
            print(*self.seen.values(), flush=True)
        self.file.close()
        client.close()

    def take(self, message):
        self.seen[message.topic()] += 1
        value = message.value().decode().rstrip("x ")
        self.file.write(f"{message.topic()} {message.partition()} {message.offset()} {value}\n")

    def settled_ends(self, client):
        """Waits until no transaction is open, then tells where each partition ends."""
        plain = Consumer({**connection, **self.settings, "isolation.level": "read_uncommitted"})
        deadline = time.monotonic() + PATIENCE_S
        ends = {}
        for place in self.places:
            name = (place.topic, place.partition)
            while name not in ends:
                stable = client.get_watermark_offsets(place, PATIENCE_S)[1]
                high = plain.get_watermark_offsets(place, PATIENCE_S)[1]
                if stable == high:
                    ends[name] = stable
                elif time.monotonic() > deadline:
                    sys.exit(f"{name}: a transaction is open from {stable} on, the end is {high}")
                else:
                    time.sleep(0.1)
        plain.close()
        return ends


threading.Thread(target=listen, daemon=True).start()
{"writer": Writer, "copier": Copier, "reader": Reader}[role](*rest).run()
