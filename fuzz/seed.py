#!/usr/bin/env python3
"""Writes the recorded frames of crates/wire/testdata as seeds: seed.py, then `cargo +nightly fuzz run TARGET`."""
import os

here = os.path.dirname(os.path.abspath(__file__))
lines = open(os.path.join(here, "../crates/wire/testdata/frames.hex")).read().split()
for number, line in enumerate(lines[::2]):
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
    for target, seed in seeds:
        folder = os.path.join(here, "corpus", target)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"recorded-{number}"), "wb") as file:
            file.write(seed)
# Two of the small files, and no edit at all of a real partition under every flag.
golden = os.path.join(here, "../crates/log/testdata/kafka-4.3.1")
texts = ["recovery-point-offset-checkpoint", "meta.properties", ".kafka_cleanshutdown", "golden-0/partition.metadata"]
seeds = [("checkpoints", open(os.path.join(golden, name), "rb").read()) for name in texts]
seeds += [("partition", bytes([flags, 96, 0])) for flags in range(32)]
for number, (target, seed) in enumerate(seeds):
    folder = os.path.join(here, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"golden-{number}"), "wb") as file:
        file.write(seed)
