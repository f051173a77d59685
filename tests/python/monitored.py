"""Traffic for a monitored broker: monitored.py BOOTSTRAP SASL_BOOTSTRAP traffic, or monitored.py BOOTSTRAP - lag|catch_up.

`traffic` prints `round` after each round of produces, fetches, commits, transactions, throttled requests, refused
requests and logins, until a line on standard input ends it. `lag` leaves the group `laggards` behind records that are
an hour old; `catch_up` has the group read and commit them.
"""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, sasl_bootstrap, what = sys.argv[1:]


def create(*topics):
    client = AdminClient({"bootstrap.servers": bootstrap})
    for done in client.create_topics(list(topics)).values():
        done.result()


def producer(**settings):
    base = {"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 2}
    return Producer(base | {name.replace("_", "."): value for name, value in settings.items()})


def consumer(group, **settings):
    base = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 2}
    return Consumer(base | {name.replace("_", "."): value for name, value in settings.items()})


def refused(delivered):
    """Sends a batch that the topic is too small for."""

    def report(error, _message):
        delivered.append(error)

    return report


def reads_nothing(client):
    """Fetches behind the end of the log."""
    client.assign([TopicPartition("orders", 0, 1 << 40)])
    while True:
        message = client.poll(1)
        if message is not None and message.error():
            assert message.error().code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
            return


def logs_in(password):
    settings = {
        "bootstrap.servers": sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "grace",
        "sasl.password": password,
        "log_level": 0,
    }
    try:
        AdminClient(settings).list_topics(timeout=2)
        return True
    except KafkaException:
        return False


def traffic():
    create(
        NewTopic("orders", 2, 1),
        NewTopic("payments", 1, 1),
        NewTopic("small", 1, 1, config={"max.message.bytes": "100"}),
    )
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    plain, bursts = producer(), producer(client_id="bursts", acks="1")
    transactional = producer(transactional_id="payments")
    transactional.init_transactions(60)
    reader = consumer("readers", enable_auto_commit=False)
    reader.subscribe(["orders", "payments"])
    slow = consumer("slow", client_id="bursts", enable_auto_commit=False)
    slow.subscribe(["orders"])
    stray = consumer("stray", auto_offset_reset="error")
    assert logs_in("right") and not logs_in("wrong")
    turn = 0
    while not stop.is_set():
        for partition in range(2):
            plain.produce("orders", b"x" * 5000, partition=partition)
        if len(bursts) == 0:
            bursts.produce("orders", b"x" * 10000, partition=0)
        bursts.poll(0)
        outcome = []
        plain.produce("small", b"x" * 1000, on_delivery=refused(outcome))
        assert plain.flush(60) == 0
        assert outcome[0].code() == KafkaError.MSG_SIZE_TOO_LARGE, outcome
        transactional.begin_transaction()
        transactional.produce("payments", b"one")
        transactional.flush(60)
        transactional.commit_transaction(60) if turn % 2 else transactional.abort_transaction(60)
        for client in (reader, slow):
            if [one for one in client.consume(100, 0.5) if one.error() is None]:
                client.commit(asynchronous=False)
        reads_nothing(stray)
        turn += 1
        print("round", flush=True)


def lag():
    create(NewTopic("old", 1, 1))
    filled = producer()
    hour_ago = int((time.time() - 3600) * 1000)
    for number in range(10):
        filled.produce("old", str(number), partition=0, timestamp=hour_ago)
    assert filled.flush(60) == 0
    consumer("laggards").commit(offsets=[TopicPartition("old", 0, 3)], asynchronous=False)


def catch_up():
    client = consumer("laggards", enable_auto_commit=False)
    client.subscribe(["old"])
    seen = 0
    while seen < 7:
        message = client.poll(30)
        assert message is not None and message.error() is None, message and message.error()
        seen += 1
    client.commit(asynchronous=False)
    client.close()


{"traffic": traffic, "lag": lag, "catch_up": catch_up}[what]()
