"""Writes a record to each partition and reads them in a group: everywhere.py LIBRARY BOOTSTRAP TOPIC PARTITIONS.

LIBRARY is `confluent` or `kafka-python`; the first broker is the only one that the client is told of.
"""

import sys
import uuid

library, bootstrap, topic, partitions = sys.argv[1:]
partitions = range(int(partitions))
mark = uuid.uuid4().bytes
group = f"everywhere-{uuid.uuid4()}"


def with_confluent():
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for partition in partitions:
        producer.produce(topic, value=mark, partition=partition)
    assert producer.flush(60) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    found = set()
    while found != set(partitions):
        message = consumer.poll(60)
        assert message is not None, f"only {found}"
        assert message.error() is None, message.error()
        if message.value() == mark:
            found.add(message.partition())
    consumer.commit(asynchronous=False)
    consumer.close()


def with_kafka_python():
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for sent in [producer.send(topic, value=mark, partition=partition) for partition in partitions]:
        sent.get(60)
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    found = set()
    while found != set(partitions):
        batches = consumer.poll(60000)
        assert batches, f"only {found}"
        found |= {one.partition for batch in batches.values() for one in batch if one.value == mark}
    consumer.commit()
    consumer.close()


{"confluent": with_confluent, "kafka-python": with_kafka_python}[library]()
