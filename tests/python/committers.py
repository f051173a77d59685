"""Members of many groups that commit what they read, and look for commits that were lost.

committers.py BOOTSTRAP TOPIC COUNT

A third of the groups has the classic protocol, a third the consumer protocol, a third a static member; each has one
member. After each acknowledged commit of a partition the group must not have a smaller offset there, whoever its
coordinator is by then. A line with the number of acknowledged commits comes after each round. Ends at a line on
standard input, or with an error if a commit is lost.
"""

import logging
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException

KINDS = [{}, {"group.protocol": "consumer"}, {"group.instance.id": "static"}]
PATIENCE_S = 20
# A member that takes longer to leave its group is named.
SLOW_S = 30

bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
silence = logging.getLogger("silence")
silence.disabled = True
stop = threading.Event()


def listen():
    sys.stdin.readline()
    stop.set()


class Member:
    def __init__(self, number):
        self.name = f"group-{number}"
        self.acknowledged = {}
        self.client = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "metadata.recovery.strategy": "none",
                "reconnect.backoff.max.ms": 100,
                # Members that read ahead of their commits would hold the whole topic in memory, each for itself.
                "queued.min.messages": 100,
                "queued.max.messages.kbytes": 256,
                "logger": silence,
                **KINDS[number % len(KINDS)],
            }
        )
        self.client.subscribe([topic])

    def work(self):
        """Reads, commits, and compares. The number of acknowledged commits."""
        messages = [one for one in self.client.consume(100, 0.05) if one.error() is None]
        if not messages:
            return 0
        try:
            committed = self.client.commit(asynchronous=False)
        except KafkaException:
            # A coordinator that moves, or a member that has to join again: nothing is promised.
            return 0
        for place in committed:
            if place.error is None and place.offset >= 0:
                self.acknowledged[place.partition] = max(place.offset, self.acknowledged.get(place.partition, 0))
        self.compare(committed)
        return len(committed)

    def compare(self, places):
        try:
            found = self.client.committed(places, PATIENCE_S)
        except KafkaException:
            return
        for place in found:
            acknowledged = self.acknowledged.get(place.partition)
            if acknowledged is not None and place.error is None and place.offset < acknowledged:
                sys.exit(f"{self.name}, partition {place.partition}: {place.offset} after a commit of {acknowledged}")

    def close(self):
        began = time.monotonic()
        self.client.close()
        took_s = time.monotonic() - began
        if took_s > SLOW_S:
            print(f"{self.name} left after {took_s:.1f} s", file=sys.stderr, flush=True)


threading.Thread(target=listen, daemon=True).start()
members = [Member(number) for number in range(count)]
commits = 0
while not stop.is_set():
    for member in members:
        # While its coordinator moves, a member may wait for PATIENCE_S.
        if not stop.is_set():
            commits += member.work()
    print(commits, flush=True)
# One after the other, they would wait for minutes on a busy machine.
closing = [threading.Thread(target=member.close) for member in members]
for thread in closing:
    thread.start()
for thread in closing:
    thread.join()
