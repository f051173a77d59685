"""Reads a topic in a group, commits, and stays: reader.py BOOTSTRAP GROUP TOPIC COUNT classic|consumer.

Prints `committed` once COUNT records are read and committed. A line on standard input makes it leave well.
"""

import sys

from confluent_kafka import Consumer

bootstrap, group, topic, count, protocol = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "client.id": "reader",
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "log_level": 2,
    }
)
consumer.subscribe([topic])
left = int(count)
while left > 0:
    left -= len([message for message in consumer.consume(left, 1) if message.error() is None])
consumer.commit(asynchronous=False)
print("committed", flush=True)
sys.stdin.readline()
consumer.close()
