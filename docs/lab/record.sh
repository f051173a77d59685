#!/bin/sh
# Records what docs/lab/claims.md and the README's pictures are made of, and makes them: ten minutes of a quiet machine, from the
# repository's root, with the directory of Kafka's jars.
set -eu

libs=${1:?usage: docs/lab/record.sh KAFKA_LIBS}
# Figures are those of the build that packages have; LEVADA_BIN names another.
levada=${LEVADA_BIN:-${CARGO_TARGET_DIR:-target}/dist/levada}
[ -n "${LEVADA_BIN:-}" ] || cargo build --locked --profile dist
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
record() {
    what=$1
    shift
    "$levada" lab "$what" --record "$scratch/$what.jsonl" "$@" > /dev/null
}
record transfer --rounds 9
record copy --rounds 9
record search --rounds 9 --kafka-libs "$libs"
record send --rounds 9
record read --rounds 6
record calibrate --rounds 31 --only 4K --dry-run
# What calibrate measures of send is not what is meant: it comes last.
"$levada" lab claims "$scratch"/[!c]*.jsonl "$scratch"/copy.jsonl "$scratch"/calibrate.jsonl
