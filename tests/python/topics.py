"""Creates a topic: topics.py BOOTSTRAP TOPIC PARTITIONS. Waits until its partitions can be seen."""

import sys
import time

from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, topic, partitions = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": bootstrap})
for future in admin.create_topics([NewTopic(topic, int(partitions), 1)], request_timeout=60).values():
    future.result()
deadline = time.monotonic() + 30
while True:
    seen = admin.list_topics(topic, timeout=30).topics[topic].partitions
    if len(seen) == int(partitions):
        break
    assert time.monotonic() < deadline, f"{len(seen)} partitions"
