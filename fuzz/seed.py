#!/usr/bin/env python3
"""Writes recorded frames, real files, what earlier fuzzing came upon (keep.py) and, where there is openssl, key stores as seeds: seed.py, then
`cargo +nightly fuzz run TARGET`."""
import glob
import os
import shutil
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
lines = open(os.path.join(here, "../crates/wire/testdata/frames.hex")).read().split()
for number, (line, answer) in enumerate(zip(lines[::2], lines[1::2])):
    frame = bytes.fromhex(line)
    key, version = frame[1], frame[3]
    client_id = int.from_bytes(frame[8:10], "big", signed=True)
    body = frame[10 + max(client_id, 0):]
    seeds = [("requests", frame)]
    if key == 0:
        # The flexible header ends with its (absent) tagged fields.
        seeds.append(("produce", bytes([version - 3]) + body[version >= 9:]))
        # Leader epoch -1 and format 2 follow the batch's base offset and length.
        start = frame.find(b"\xff\xff\xff\xff\2") - 12
        end = start + 12 + int.from_bytes(frame[start + 8:start + 12], "big")
        seeds.append(("batch", frame[start:end]))
    if key == 1:
        seeds.append(("fetch", bytes([version - 4]) + body[version >= 12:]))
        seeds.append(("fetch_answer", bytes([version - 4]) + bytes.fromhex(answer)))
    for target, seed in seeds:
        folder = os.path.join(here, "corpus", target)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"recorded-{number}"), "wb") as file:
            file.write(seed)
# Some of the small files, and no edit at all of a real partition under every flag.
golden = os.path.join(here, "../crates/log/testdata/kafka-4.3.1")
texts = ["recovery-point-offset-checkpoint", "meta.properties", ".kafka_cleanshutdown", "golden-0/partition.metadata"]
seeds = [("checkpoints", open(os.path.join(golden, name), "rb").read()) for name in texts]
seeds.append(("checkpoints", b"# so big\nsmall_extent_bytes=16384\npipe_bytes=1048576\nzero_copy_send_bytes=262144\n"))
seeds += [("partition", bytes([flags, 96, 0])) for flags in range(32)]


def varint(data, at):
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def values(log):
    """The values of the records of all batches that are no control batches."""
    found, at = [], 0
    while at < len(log):
        end = at + 12 + int.from_bytes(log[at + 8:at + 12], "big")
        is_control, place = log[at + 22] & 0x20, at + 61
        while place < end and not is_control:
            length, place = varint(log, place)
            after = place + length // 2
            _, place = varint(log, place + 1)
            _, place = varint(log, place)
            key, place = varint(log, place)
            value, place = varint(log, place + max(key // 2 if key & 1 == 0 else 0, 0))
            found.append(log[place:place + value // 2])
            place = after
        at = end
    return found


# The real metadata log: without an edit, and its records one by one, as batches and as a snapshot.
metadata = os.path.join(here, "../crates/metadata/testdata/kafka-4.3.1/__cluster_metadata-0/00000000000000000000.log")
records = [value for value in values(open(metadata, "rb").read()) if len(value) < 256]
seeds += [("metadata", bytes([flags])) for flags in (1, 5)]
for flags in (0, 2, 6, 0x0F):
    for part in (records[:12], records[12:24], records[24:48]):
        seeds.append(("metadata", bytes([flags]) + b"".join(bytes([0, len(value)]) + value for value in part)))
# Subscriptions of every version and assignments, each with its length.
names = b"\0\0\0\2\0\1a\0\5topic"
owned = b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\2"
subscriptions = [b"\0\0" + names + b"\xff" * 4, b"\0\1" + names + b"\xff" * 4 + owned,
                 b"\0\3" + names + b"\0\0\0\1x" + owned + b"\0\0\0\7" + b"\0\4rack"]
parts = subscriptions + [b"\0\1" + owned + b"\xff" * 4, b"\0\0" + owned + b"\0\0\0\1y"]
for flags in range(32):
    seeds.append(("embedded", bytes([flags]) + b"".join(bytes([len(part)]) + part for part in parts)))
# What may be said after a handshake: the first byte of a step is its kind, the second a length.
steps = [b"\0\5hello", b"\1\2\1\0", b"\x09\2\1\0", b"\x11\5\x18\0\0\1\1", b"\x11\3\x18\0\0\7\0", b"\x5c\1x", b"\x34\0",
         b"\x85\5hello", b"\x3e\x10" + bytes(16), b"\3\4\x17\3\3\0"]
for suite in range(6):
    seeds += [("tls", bytes([6, suite]) + step + b"\0\2hi") for step in steps]
    seeds.append(("tls", bytes([6, suite]) + b"".join(steps[:1] + steps[5:6] + steps[7:9])))
    seeds += [("tls", bytes([5, suite | show]) + b"\0\1\x2c\0\1") for show in (0, 0x80)]
    # The front of a message, and the end; the same with an answer between them.
    seeds += [("tls", bytes([6, suite]) + b"\x11\3\x18\0\0" + end) for end in (b"\7\0", b"\x0e\4full\0\2hi")]
seeds.append(("tls", b"\4\7\x16\3\1\0\x2f\1\0\0\x2b\3\3" + bytes(32) + b"\0\0\2\x13\1\1\0"))
seeds += [("tls", b"\3\0" + rules) for rules in (b"DEFAULT\nCN=duke", b"RULE:^CN=(.*?),OU=(.*)$/$1@$2/L, DEFAULT\nCN=duke,OU=x")]


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


if shutil.which("openssl"):
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path("key"),
                "-out", path("chain"), "-subj", "/C=DE/O=Acme, Inc./OU=a+OU=b/emailAddress=a@b.c/CN=host", "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1")
        openssl("x509", "-in", path("chain"), "-outform", "DER", "-out", path("der"))
        openssl("pkcs8", "-topk8", "-in", path("key"), "-out", path("locked"), "-passout", "pass:secret", "-iter", "1")
        store = ["pkcs12", "-export", "-inkey", path("key"), "-in", path("chain"), "-passout", "pass:secret", "-iter", "1"]
        openssl(*store, "-out", path("p12"))
        # Without a sum over it: changes get as far as the parser of what is within.
        openssl(*store, "-nomac", "-keypbe", "NONE", "-certpbe", "NONE", "-out", path("bare"))
        openssl(*store, "-nokeys", "-nomac", "-certpbe", "NONE", "-out", path("trusted"))
        content = {name: open(path(name), "rb").read() for name in ("key", "chain", "der", "locked", "p12", "bare", "trusted")}
    seeds += [("tls", b"\0\3" + content["chain"] + content[key]) for key in ("key", "locked")]
    seeds += [("tls", b"\1\0" + content["chain"] + b"\xff" + content["key"] + b"\xff" + content["chain"])]
    seeds += [("tls", bytes([0, how]) + content[name]) for name in ("p12", "bare", "trusted") for how in (1, 5)]
    seeds += [("tls", b"\0\4" + content["chain"]), ("tls", b"\2\0" + content["der"])]
# Requests, ranges of a file of 1000 bytes, and paths, some of them by links.
seeds += [("http_head", b"GET /a%20b?c HTTP/1.1\r\nHost: x:80\r\nRange: bytes=0-1\r\n\r\n" * 2)]
seeds += [("http_head", b"\r\nPOST http://x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcHEAD / HTTP/1.0\r\n\r\n")]
seeds += [("http_range", (1000).to_bytes(8, "little") + field) for field in (b"0-0", b"bytes=-5", b"990-,5-9, 7-20", b"1000-")]
seeds += [("http_path", path) for path in (b"/a/b/a", b"/%61/./b//a/", b"/c/b", b"/a/d", b"/e", b"/a/%2e%2e/b", b"/.well-known/a")]
# Headers of the PROXY protocol: of both versions, with and without a client, and a field behind it.
seeds += [("proxy_header", line + b"\r\nGET") for line in (b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443", b"PROXY TCP6 ::1 ::2 1 2", b"PROXY UNKNOWN")]
signature, ports = b"\r\n\r\n\0\r\nQUIT\n", bytes((220, 4, 1, 187))
for front, body in ((b"\x21\x11", bytes(8) + ports + b"\4\0\1\0"), (b"\x21\x21", bytes(32) + ports), (b"\x21\x31", bytes(216)), (b"\x20\0", b"")):
    seeds += [("proxy_header", signature + front + len(body).to_bytes(2, "big") + body)]
for path in glob.glob(os.path.join(here, "seeds", "*.hex")):
    target = os.path.basename(path).removesuffix(".hex")
    seeds += [(target, bytes.fromhex(line)) for line in open(path).read().split()]
for number, (target, seed) in enumerate(seeds):
    folder = os.path.join(here, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"golden-{number}"), "wb") as file:
        file.write(seed)
