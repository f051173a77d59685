"""The file of records that tests/src/corpus.rs writes, for every Python client.

Each client module has `produce(bootstrap, topic, codec, records)` and `consume(bootstrap, topic, count)`; `main`
gives them a command line: `CLIENT.py produce BOOTSTRAP TOPIC PARTITIONS CORPUS COUNT`, which uses each codec for a
fifth of the records, and `CLIENT.py consume BOOTSTRAP TOPIC PARTITIONS COUNT`, which prints a SHA-256 a partition.
"""

import hashlib
import struct
import sys

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def _bytes(data, at):
    (length,) = struct.unpack_from(">i", data, at)
    if length < 0:
        return None, at + 4
    return data[at + 4 : at + 4 + length], at + 4 + length


def read(path):
    """Yields (timestamp in ms, key, value, headers)."""
    with open(path, "rb", buffering=1 << 20) as file:
        while head := file.read(4):
            data = file.read(struct.unpack(">I", head)[0])
            (timestamp,) = struct.unpack_from(">q", data)
            key, at = _bytes(data, 8)
            value, at = _bytes(data, at)
            (count,) = struct.unpack_from(">H", data, at)
            at += 2
            headers = []
            for _ in range(count):
                name, at = _bytes(data, at)
                content, at = _bytes(data, at)
                headers.append((name.decode(), content))
            yield timestamp, key, value, headers


def _encoded(content):
    if content is None:
        return b"\xff\xff\xff\xff"
    return struct.pack(">i", len(content)) + content


class Digests:
    """Hashes records as they come back; insists that offsets of a partition have no gap."""

    def __init__(self, partitions):
        self.hashes = [hashlib.sha256() for _ in range(partitions)]
        self.next = [0] * partitions

    def add(self, partition, offset, timestamp, key, value, headers):
        assert offset == self.next[partition], f"partition {partition}: offset {offset}, not {self.next[partition]}"
        self.next[partition] += 1
        parts = [struct.pack(">q", timestamp), _encoded(key), _encoded(value), struct.pack(">H", len(headers))]
        for name, content in headers:
            parts.append(_encoded(name.encode()))
            parts.append(_encoded(content))
        record = b"".join(parts)
        self.hashes[partition].update(struct.pack(">I", len(record)))
        self.hashes[partition].update(record)


def main(produce, consume):
    action, bootstrap, topic, partitions = sys.argv[1:5]
    partitions = int(partitions)
    if action == "produce":
        path, count = sys.argv[5], int(sys.argv[6])
        numbered = enumerate(read(path))
        share = -(-count // len(CODECS))
        for codec in CODECS:
            some = ((number % partitions, *record) for number, record in (next(numbered) for _ in range(min(share, count))))
            count -= min(share, count)
            produce(bootstrap, topic, codec, some)
        assert next(numbered, None) is None
    else:
        digests = Digests(partitions)
        consume(bootstrap, topic, range(partitions), int(sys.argv[5]), digests.add)
        for digest in digests.hashes:
            print(digest.hexdigest())
