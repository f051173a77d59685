"""A producer and a consumer of librdkafka that stay until standard input ends.

pushing.py BOOTSTRAP TOPIC
"""

import sys
import threading

from confluent_kafka import Consumer, Producer

bootstrap, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "client.id": "c-producer"})
consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": "c-consumer", "group.id": "c-group"})
consumer.subscribe([topic])
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.is_set():
    producer.produce(topic, value=b"value")
    producer.poll(0)
    consumer.poll(0.02)
producer.flush(10)
consumer.close()
