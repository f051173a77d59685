"""Produces without end, through broker crashes, and writes down every acknowledgement.

load.py BOOTSTRAP TOPIC PARTITIONS JOURNAL idempotent|plain [RATE [SIZE]]. Prints the number of acknowledgements whenever it
has grown. RATE limits the records of a second, SIZE the bytes of a value. A line on standard input ends it: it then waits
until everything has been delivered.
"""

import random
import sys
import threading
import time

from confluent_kafka import Producer

bootstrap, topic, partitions, journal, kind = sys.argv[1:6]
rate = float(sys.argv[6]) if len(sys.argv) > 6 else None
size = int(sys.argv[7]) if len(sys.argv) > 7 else 1000
partitions = int(partitions)
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": kind == "idempotent",
        "acks": "all" if kind == "idempotent" else "1",
        "max.in.flight.requests.per.connection": 5,
        "compression.type": random.choice(["none", "lz4", "zstd"]),
        # Large values are meant for large batches.
        "linger.ms": 2 if size <= 1000 else 100,
        "batch.num.messages": 50,
        "message.timeout.ms": 300000 if kind == "idempotent" else 5000,
        # A suspended broker does not close its connections.
        "request.timeout.ms": 10000,
        "socket.timeout.ms": 10000,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 100,
        "queue.buffering.max.messages": 3000,
        "log_level": 2,
    }
)
acknowledged = open(journal, "w", buffering=1)
count = 0
stop = threading.Event()


def delivered(partition, number):
    def report(error, message):
        global count
        if error is None:
            count += 1
            # No offset if the broker had the batch already when it was sent again.
            offset = -1 if message.offset() is None else message.offset()
            acknowledged.write(f"{partition} {number} {offset}\n")
        elif kind == "idempotent":
            print(f"failed: {error}", flush=True)
            sys.exit(1)

    return report


def listen():
    sys.stdin.readline()
    stop.set()


threading.Thread(target=listen, daemon=True).start()
random.seed(7)
noise = random.randbytes(2 * size)
number, reported = [0] * partitions, 0
start = time.monotonic()
while not stop.is_set():
    partition = random.randrange(partitions)
    first = random.randrange(size)
    value = number[partition].to_bytes(8, "big") + noise[first : first + random.randrange(size)]
    try:
        producer.produce(
            topic, value=value, partition=partition, on_delivery=delivered(partition, number[partition])
        )
        number[partition] += 1
    except BufferError:
        producer.poll(0.01)
    producer.poll(0)
    while rate and sum(number) > rate * (time.monotonic() - start) and not stop.is_set():
        producer.poll(0.01)
    if count >= reported + 500:
        reported = count
        print(count, flush=True)
left = producer.flush(120)
acknowledged.close()
assert left == 0, f"{left} records are still waiting"
print(f"produced {sum(number)}", flush=True)
