#!/usr/bin/env python3
"""Keeps the smallest inputs of the corpora that reach everything these reach, as seeds/TARGET.hex: keep.py [TARGET...], after fuzzing.

They go back into the corpora with seed.py.
"""
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
corpora = os.path.join(here, "corpus")
# Of a target, and of one input.
BYTES, INPUT_BYTES = 16 << 10, 1 << 10

for target in sys.argv[1:] or sorted(os.listdir(corpora)):
    program = os.path.join(here, "target/x86_64-unknown-linux-gnu/release", target)
    with tempfile.TemporaryDirectory() as merged:
        # The smallest come first, and others only for what they add.
        command = [program, "-merge=1", f"-max_len={INPUT_BYTES}", merged, os.path.join(corpora, target)]
        subprocess.run(command, check=True, capture_output=True)
        inputs = [open(os.path.join(merged, name), "rb").read() for name in os.listdir(merged)]
    kept, left = [], BYTES
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        if data and len(data) <= left:
            kept.append(data.hex())
            left -= len(data)
    path = os.path.join(here, "seeds", target + ".hex")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("\n".join(kept) + "\n")
    print(f"{target}: {len(kept)} of {len(inputs)} inputs, {BYTES - left} bytes")
