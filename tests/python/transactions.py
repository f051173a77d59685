"""Transactions at random: transactions.py BOOTSTRAP TOPIC PARTITIONS ROUNDS SEED.

Says the number of each round as it begins; what fails is begun anew, as an application would. At the
end a consumer of committed records must have seen what was committed, each record once, and nothing else
but transactions whose fate the client was never told.
"""

import random
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

bootstrap, topic, partitions, rounds, seed = sys.argv[1:]
partitions = int(partitions)
random.seed(int(seed))


def producer():
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": topic,
            "transaction.timeout.ms": 10000,
            "linger.ms": 0,
        }
    )
    made.init_transactions(60)
    return made


def run(rounds):
    committed, aborted, unknown = set(), set(), set()
    number = 0
    client = producer()
    for turn in range(rounds):
        print(turn, flush=True)
        values = set()
        commit = random.random() < 0.65
        try:
            client.begin_transaction()
            for _ in range(random.randrange(1, 6)):
                client.produce(topic, str(number), partition=random.randrange(partitions))
                values.add(str(number))
                number += 1
            if random.random() < 0.5:
                client.flush(60)
            if commit:
                client.commit_transaction(60)
                committed |= values
            else:
                client.abort_transaction(60)
                aborted |= values
        except KafkaException as failed:
            error = failed.args[0]
            print(f"round {turn}: {error.str()}", file=sys.stderr)
            if error.txn_requires_abort():
                aborted |= values
            else:
                unknown |= values
            client = producer()
    return committed, aborted, unknown


def read():
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    seen, ended = [], set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None, f"nothing more comes, but only {ended} have ended"
        if message.error():
            ended.add(message.partition())
        else:
            seen.append(message.value().decode())
    consumer.close()
    return seen


committed, aborted, unknown = run(int(rounds))
# Whoever has the transactional id next knows that nothing is left open.
producer()
seen = read()
assert len(seen) == len(set(seen)), "records came twice"
assert not committed - set(seen), f"committed and not seen: {committed - set(seen)}"
assert not set(seen) & aborted, f"aborted and seen: {set(seen) & aborted}"
assert not set(seen) - committed - unknown, f"never sent: {set(seen) - committed - unknown}"
assert committed and aborted, "too little happened"
print(f"committed {len(committed)}, aborted {len(aborted)}, unknown {len(unknown)}", flush=True)
