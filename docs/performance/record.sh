#!/bin/sh
# Records what docs/performance/figures.md is made of, and makes it: two hours of a quiet machine with 50 GB of room, from the repository's
# root, with the directory of Kafka's jars. NEWER_KAFKA_LIBS names those of the next Kafka for the control plane and groups,
# TIERS_LIBS those of the test jars with LocalTieredStorage of this Kafka. NGINX names the program of nginx if PATH does not have it.
set -eu

libs=${1:?usage: docs/performance/record.sh KAFKA_LIBS [SCRATCH_DIR]}
# Figures are those of the build that packages have; LEVADA_BIN names another.
levada=${LEVADA_BIN:-${CARGO_TARGET_DIR:-target}/dist/levada}
[ -n "${LEVADA_BIN:-}" ] || cargo build --locked --profile dist
scratch=$(mktemp -d -p "${2:-/tmp}")
trap 'rm -r "$scratch"' EXIT
record() {
    what=$1
    shift
    "$levada" lab broker "$what" --kafka-libs "$libs" --dir "$scratch" --record "$scratch/$what.jsonl" "$@" > /dev/null
}
# In the machine's own network perf sees the kernel, and no figure is taken from there. These come first: of two records the last one counts.
flame() {
    "$levada" lab broker "$1" --only "$2" --quick --flames --network host --dir "$scratch" --record "$scratch/0-$1-$3.jsonl" > /dev/null
}
flame fetch "16 KiB levada" small
flame fetch "50 MiB levada" large
flame produce "16 KiB levada" small
flame many-producers levada single
for what in produce fetch many-producers latency tls-fetch parallel connections fairness interference reheat fan-out idle java-producer append growth; do
    record "$what"
done
libs=${NEWER_KAFKA_LIBS:-$libs}
for what in control share-fetch share-acknowledge share-members streams-members telemetry; do
    record "$what"
done
libs=$1
# Kafka's remote store in a directory is in its test jars.
for what in remote-replay remote-interference; do
    record "$what" ${TIERS_LIBS:+--tiers-libs "$TIERS_LIBS"}
done
# Beside a Kafka, which takes and frees much memory, rounds differ by a factor of up to six.
"$levada" lab broker remote-copy --rounds 21 --dir "$scratch" --record "$scratch/remote-copy.jsonl" > /dev/null
"$levada" lab files --nginx="${NGINX:-nginx}" --dir "$scratch" --record "$scratch/files.jsonl" > /dev/null
record memory --full
record start --full --rounds 5
record recovery --full --rounds 3
record replicate --full --rounds 3
"$levada" lab goals "$scratch"/*.jsonl
