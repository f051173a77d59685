"""Leaves a transaction open: open_transaction.py BOOTSTRAP ID TOPIC.

Prints `open` once two records are in partition 0. A line on standard input makes it commit; prints `committed`, or
`fenced` if it may not.
"""

import sys

from confluent_kafka import KafkaException, Producer

bootstrap, transactional_id, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 2})
producer.init_transactions(60)
producer.begin_transaction()
for value in ["one", "two"]:
    producer.produce(topic, value, partition=0)
assert producer.flush(60) == 0
print("open", flush=True)
sys.stdin.readline()
try:
    producer.commit_transaction(60)
    print("committed", flush=True)
except KafkaException as failed:
    assert failed.args[0].fatal(), failed
    print("fenced", flush=True)
