#!/bin/sh
# Records what docs/lab/claims.md and the README's pictures are made of, and makes them. To be run on a quiet machine, from the
# repository's root, with the directory of Kafka's jars; further words go to `levada lab` (`--rounds 15` unless there are any).
set -eu

libs=${1:?usage: docs/lab/record.sh KAFKA_LIBS [OPTION]...}
shift
[ $# -gt 0 ] || set -- --rounds 15
cargo build --release --quiet --package levada
levada=target/release/levada
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
"$levada" lab all --kafka-libs "$libs" --record "$scratch/all.jsonl" "$@" > /dev/null
"$levada" lab calibrate --dry-run --record "$scratch/calibrate.jsonl" "$@" > /dev/null
"$levada" lab claims "$scratch/all.jsonl" "$scratch/calibrate.jsonl"
