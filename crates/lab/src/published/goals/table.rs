//! The goals, each with the cases that test it.
//!
//! Catalogue: a table of figures, whose entries have the same form.

use super::{At, Bound, Goal};

/// Text before the pictures of growth.
pub(super) const GROWTH: &str = "
## As work grows

These pictures show the processor time of the broker for one request. One client has five produce requests or one fetch in flight, and all
data is in the page cache. [As work grows](../performance.md#as-work-grows) explains their shapes.
";

/// Text before the table.
pub(super) const HEAD: &str = "\
# Cost of Levada, and goals

Each row is a goal, beside Apache Kafka 4.3.1 (4.4.0 for single operations, share groups and streams groups), beside nginx, or beside a bare loop of the unavoidable system calls (the *floor*):
[how it is measured](../performance.md). `levada lab goals` generates the page from the records in [runs](runs), which `docs/performance/record.sh`
writes; a test compares the page with the records. A factor is the median of the quotients of runs of the same round, with its 95 %
confidence interval. With fewer than six rounds the interval is the range of all rounds, and its confidence is lower: 94 % with five rounds,
88 % with four, 75 % with three, 50 % with two. *Not sure*: the median misses the goal, and the interval contains it.

Measured:

";

const fn at(experiment: &'static str, group: &'static str, case: &'static str) -> At {
    At { experiment, group, case }
}

const NOISE: &str = "see the records";
const BELOW_FLOOR: &str = "[the floor](../performance.md#goals-out-of-reach-on-this-machine) itself is not so far below Kafka on this machine";
const JAVA_FLOOR: &str = "the client decides when it sends, so nearly every batch wakes the broker: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const JAVA_CLIENT: &str = "pauses of the client cause the longest latencies: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const MANY_FLOOR: &str = "the floor is three system calls for each record: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const LOOKING: &str = "the broker checks if the next bytes are in memory, and lets other connections continue after each MiB: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const TLS_FLOOR: &str = "the encryption itself takes most of the time: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const WAKE_UPS: &str = "the wake-up of a thread on this virtual machine takes most of the time: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const SCHEDULER: &str =
    "brokers and clients share two processors: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const FIRST_ROUND: &str =
    "the two rounds of the record differ: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const DEVICE: &str = "the broker reads the unchecked segments from the device";
const FILES_LARGE: &str = "both servers spend most of their time in `sendfile`: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const FILES_SMALL: &str = "the bare loop itself takes 0.71 to 0.75 of nginx's time: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const FILES_SHORT: &str = "opening and closing the connection takes most of the time: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const FILES_COLD: &str = "servers and clients share the device and two processors: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const PER_PARTITION: &str = "see the curves below [growth](../performance.md)";
const IDLE_MEMORY: &str = "the program itself takes most of the memory";

const ONE_AT_A_TIME: &str = "one request at a time: receiving, waking and sending take about 40 µs of each on this machine: [why](../performance.md#goals-out-of-reach-on-this-machine)";
const HEADERS: &str = "the broker reads one or two headers of batches more, and sends the bytes after the records separately: [why](../performance.md#goals-out-of-reach-on-this-machine)";

/// Goal for an operation of the control plane, as a factor of Kafka's cost.
const fn control(operation: &'static str, most: f64) -> Goal {
    Goal {
        work: operation,
        metric: &["cpu_us_per_operation"],
        this: at("broker-control", operation, "levada"),
        bound: Bound::Times(at("broker-control", operation, "kafka"), most),
        if_not: ONE_AT_A_TIME,
    }
}

pub(super) const GOALS: &[Goal] = &[
    Goal {
        work: "start on an empty directory",
        metric: &["start_ms"],
        this: at("broker-start", "on an empty directory", "levada"),
        bound: Bound::Times(at("broker-start", "on an empty directory", "kafka"), 1.0 / 40.0),
        if_not: NOISE,
    },
    Goal {
        work: "start with 10 000 partitions",
        metric: &["start_ms"],
        this: at("broker-start", "with 10000 partitions", "levada"),
        bound: Bound::Times(at("broker-start", "with 10000 partitions", "kafka"), 0.1),
        if_not: NOISE,
    },
    Goal {
        work: "memory then",
        metric: &["resident_mb"],
        this: at("broker-start", "with 10000 partitions", "levada"),
        bound: Bound::Times(at("broker-start", "with 10000 partitions", "kafka"), 0.1),
        if_not: PER_PARTITION,
    },
    Goal {
        work: "file descriptors then",
        metric: &["descriptors"],
        this: at("broker-start", "with 10000 partitions", "levada"),
        bound: Bound::Value(11_000.0),
        if_not: NOISE,
    },
    Goal {
        work: "idle: processor",
        metric: &["cpu_ms_per_s"],
        this: at("broker-idle", "", "levada"),
        bound: Bound::Times(at("broker-idle", "", "kafka"), 0.05),
        if_not: NOISE,
    },
    Goal {
        work: "idle: wake-ups a second",
        metric: &["wakeups_per_s"],
        this: at("broker-idle", "", "levada"),
        bound: Bound::Value(10.0),
        if_not: NOISE,
    },
    Goal {
        work: "idle: memory",
        metric: &["resident_mb"],
        this: at("broker-idle", "", "levada"),
        bound: Bound::Times(at("broker-idle", "", "kafka"), 0.05),
        if_not: IDLE_MEMORY,
    },
    Goal {
        work: "memory after 5 GB",
        metric: &["resident_mb"],
        this: at("broker-memory", "", "levada"),
        bound: Bound::Times(at("broker-memory", "", "kafka"), 0.1),
        if_not: NOISE,
    },
    Goal {
        work: "produce, 16 KiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "16 KiB", "levada"),
        bound: Bound::Times(at("broker-produce", "16 KiB", "kafka"), 1.0 / 8.0),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "produce, 16 KiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "16 KiB", "levada"),
        bound: Bound::Times(at("broker-produce", "16 KiB", "floor"), 1.6),
        if_not: NOISE,
    },
    Goal {
        work: "produce, 64 KiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "64 KiB", "levada"),
        bound: Bound::Times(at("broker-produce", "64 KiB", "kafka"), 0.2),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "produce, 64 KiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "64 KiB", "levada"),
        bound: Bound::Times(at("broker-produce", "64 KiB", "floor"), 1.4),
        if_not: NOISE,
    },
    Goal {
        work: "produce, 256 KiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "256 KiB", "levada"),
        bound: Bound::Times(at("broker-produce", "256 KiB", "kafka"), 1.0 / 3.5),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "produce, 256 KiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "256 KiB", "levada"),
        bound: Bound::Times(at("broker-produce", "256 KiB", "floor"), 1.3),
        if_not: NOISE,
    },
    Goal {
        work: "produce, 1 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "1 MiB", "levada"),
        bound: Bound::Times(at("broker-produce", "1 MiB", "kafka"), 1.0 / 3.5),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "produce, 1 MiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-produce", "1 MiB", "levada"),
        bound: Bound::Times(at("broker-produce", "1 MiB", "floor"), 1.3),
        if_not: NOISE,
    },
    Goal {
        work: "ProducerPerformance, 16 KiB, acks=1: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-java-producer", "16 KiB, acks=1", "levada"),
        bound: Bound::Times(at("broker-java-producer", "16 KiB, acks=1", "kafka"), 0.2),
        if_not: JAVA_FLOOR,
    },
    Goal {
        work: "ProducerPerformance, 16 KiB, acks=all: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-java-producer", "16 KiB, acks=all", "levada"),
        bound: Bound::Times(at("broker-java-producer", "16 KiB, acks=all", "kafka"), 0.2),
        if_not: JAVA_FLOOR,
    },
    Goal {
        work: "ProducerPerformance, 256 KiB, acks=1: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-java-producer", "256 KiB, acks=1", "levada"),
        bound: Bound::Times(at("broker-java-producer", "256 KiB, acks=1", "kafka"), 0.2),
        if_not: JAVA_FLOOR,
    },
    Goal {
        work: "ProducerPerformance, 256 KiB, acks=all: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-java-producer", "256 KiB, acks=all", "levada"),
        bound: Bound::Times(at("broker-java-producer", "256 KiB, acks=all", "kafka"), 0.2),
        if_not: JAVA_FLOOR,
    },
    Goal {
        work: "ProducerPerformance, 16 KiB, lz4, acks=1: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-java-producer", "16 KiB, lz4, acks=1", "levada"),
        bound: Bound::Times(at("broker-java-producer", "16 KiB, lz4, acks=1", "kafka"), 0.2),
        if_not: JAVA_FLOOR,
    },
    Goal {
        work: "ProducerPerformance, 256 KiB, lz4, acks=all: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-java-producer", "256 KiB, lz4, acks=all", "levada"),
        bound: Bound::Times(at("broker-java-producer", "256 KiB, lz4, acks=all", "kafka"), 0.2),
        if_not: JAVA_FLOOR,
    },
    Goal {
        work: "ProducerPerformance, 5 000 a second: longest latency",
        metric: &["max_latency_ms"],
        this: at("broker-java-producer", "5000 a second", "levada"),
        bound: Bound::Times(at("broker-java-producer", "5000 a second", "kafka"), 0.1),
        if_not: JAVA_CLIENT,
    },
    Goal {
        work: "200 small producers: records by processor second",
        metric: &["records_per_cpu_s"],
        this: at("broker-many-producers", "", "levada"),
        bound: Bound::TimesAtLeast(at("broker-many-producers", "", "kafka"), 5.0),
        if_not: MANY_FLOOR,
    },
    Goal {
        work: "the same, beside the floor",
        metric: &["records_per_cpu_s"],
        this: at("broker-many-producers", "", "levada"),
        bound: Bound::TimesAtLeast(at("broker-many-producers", "", "floor"), 1.0 / 1.6),
        if_not: NOISE,
    },
    Goal {
        work: "fetch, 50 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "50 MiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "50 MiB", "kafka"), 0.7),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "fetch, 50 MiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "50 MiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "50 MiB", "floor"), 1.3),
        if_not: LOOKING,
    },
    Goal {
        work: "fetch, 8 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "8 MiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "8 MiB", "kafka"), 0.7),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "fetch, 8 MiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "8 MiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "8 MiB", "floor"), 1.3),
        if_not: LOOKING,
    },
    Goal {
        work: "fetch, 1 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "1 MiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "1 MiB", "kafka"), 0.5),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "fetch, 256 KiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "256 KiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "256 KiB", "kafka"), 1.0 / 3.0),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "fetch, 64 KiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "64 KiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "64 KiB", "kafka"), 0.2),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "fetch, 16 KiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-fetch", "16 KiB", "levada"),
        bound: Bound::Times(at("broker-fetch", "16 KiB", "kafka"), 1.0 / 8.0),
        if_not: BELOW_FLOOR,
    },
    Goal {
        work: "two connections in parallel: rate",
        metric: &["gb_per_s"],
        this: at("broker-parallel", "levada", "two connections"),
        bound: Bound::TimesAtLeast(at("broker-parallel", "levada", "one connection"), 1.5),
        if_not: NOISE,
    },
    Goal {
        work: "fetch over TLS, 50 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-tls-fetch", "50 MiB", "levada"),
        bound: Bound::Times(at("broker-tls-fetch", "50 MiB", "kafka"), 0.5),
        if_not: TLS_FLOOR,
    },
    Goal {
        work: "fetch over TLS, 50 MiB: beside rustls alone",
        metric: &["cpu_s_per_gb"],
        this: at("broker-tls-fetch", "50 MiB", "levada"),
        bound: Bound::Times(at("broker-tls-fetch", "50 MiB", "rustls alone"), 1.2),
        if_not: NOISE,
    },
    Goal {
        work: "fetch over TLS, 1 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-tls-fetch", "1 MiB", "levada"),
        bound: Bound::Times(at("broker-tls-fetch", "1 MiB", "kafka"), 0.5),
        if_not: TLS_FLOOR,
    },
    Goal {
        work: "fetch over TLS, 1 MiB: beside rustls alone",
        metric: &["cpu_s_per_gb"],
        this: at("broker-tls-fetch", "1 MiB", "levada"),
        bound: Bound::Times(at("broker-tls-fetch", "1 MiB", "rustls alone"), 1.2),
        if_not: NOISE,
    },
    Goal {
        work: "produce to fetch at 1 000 a second: p50",
        metric: &["tail_p50_ms"],
        this: at("broker-latency", "", "levada"),
        bound: Bound::Times(at("broker-latency", "", "kafka"), 0.5),
        if_not: WAKE_UPS,
    },
    Goal {
        work: "produce to fetch at 1 000 a second: p99",
        metric: &["tail_p99_ms"],
        this: at("broker-latency", "", "levada"),
        bound: Bound::Times(at("broker-latency", "", "kafka"), 0.5),
        if_not: WAKE_UPS,
    },
    Goal {
        work: "produce to fetch at 1 000 a second: p99.9",
        metric: &["tail_p999_ms"],
        this: at("broker-latency", "", "levada"),
        bound: Bound::Times(at("broker-latency", "", "kafka"), 0.25),
        if_not: WAKE_UPS,
    },
    Goal {
        work: "the same: processor a record",
        metric: &["cpu_us_per_record"],
        this: at("broker-latency", "", "levada"),
        bound: Bound::Times(at("broker-latency", "", "kafka"), 1.0 / 6.0),
        if_not: WAKE_UPS,
    },
    Goal {
        work: "5 000 silent connections: memory of each",
        metric: &["kib_per_connection"],
        this: at("broker-connections", "", "levada"),
        bound: Bound::Value(8.0),
        if_not: NOISE,
    },
    Goal {
        work: "killed with 1 000 partitions: launch to the first that serves",
        metric: &["first_s"],
        this: at("broker-recovery", "", "levada"),
        bound: Bound::Times(at("broker-recovery", "", "kafka"), 0.2),
        if_not: NOISE,
    },
    Goal {
        work: "launch to all of them",
        metric: &["all_s"],
        this: at("broker-recovery", "", "levada"),
        bound: Bound::Times(at("broker-recovery", "", "kafka"), 0.2),
        if_not: DEVICE,
    },
    Goal {
        work: "live producers beside a cold replay: p99, by quiet",
        metric: &["produce_p99_by_quiet"],
        this: at("broker-interference", "levada", "with replay"),
        bound: Bound::Value(1.3),
        if_not: SCHEDULER,
    },
    Goal {
        work: "live consumers beside a cold replay: p99, by quiet",
        metric: &["tail_p99_by_quiet"],
        this: at("broker-interference", "levada", "with replay"),
        bound: Bound::Value(1.3),
        if_not: SCHEDULER,
    },
    Goal {
        work: "stalls of shards meanwhile",
        metric: &["stalls"],
        this: at("broker-interference", "levada", "with replay"),
        bound: Bound::Value(0.0),
        if_not: SCHEDULER,
    },
    Goal {
        work: "tail that stays in memory, %",
        metric: &["tail_resident"],
        this: at("broker-interference", "levada", "with replay"),
        bound: Bound::ValueAtLeast(99.0),
        if_not: NOISE,
    },
    Goal {
        work: "50 small readers beside a large one: p99, by alone",
        metric: &["p99_by_alone"],
        this: at("broker-fairness", "levada", "beside a large one"),
        bound: Bound::Value(2.0),
        if_not: SCHEDULER,
    },
    Goal {
        work: "a partial eviction, requests of 50 MiB: second pass, bytes from the device",
        metric: &["second_device_mb"],
        this: at("broker-reheat", "50 MiB", "levada"),
        bound: Bound::Value(0.0),
        if_not: NOISE,
    },
    Goal {
        work: "a partial eviction, requests of 50 MiB: second pass, rate by hot, %",
        metric: &["second_by_hot"],
        this: at("broker-reheat", "50 MiB", "levada"),
        bound: Bound::ValueAtLeast(95.0),
        if_not: NOISE,
    },
    Goal {
        work: "a partial eviction, requests of 1 MiB: second pass, bytes from the device",
        metric: &["second_device_mb"],
        this: at("broker-reheat", "1 MiB", "levada"),
        bound: Bound::Value(0.0),
        if_not: NOISE,
    },
    Goal {
        work: "a partial eviction, requests of 1 MiB: second pass, rate by hot, %",
        metric: &["second_by_hot"],
        this: at("broker-reheat", "1 MiB", "levada"),
        bound: Bound::ValueAtLeast(95.0),
        if_not: NOISE,
    },
    Goal {
        work: "four consumers one after the other: bytes from the device, by the log",
        metric: &["device_by_log"],
        this: at("broker-fan-out", "", "levada"),
        bound: Bound::Value(1.05),
        if_not: NOISE,
    },
    Goal {
        work: "three replicas, acks=all, 16 KiB: processor of all brokers",
        metric: &["cpu_s_per_gb"],
        this: at("broker-replicate", "16 KiB", "levada"),
        bound: Bound::Times(at("broker-replicate", "16 KiB", "kafka"), 0.5),
        if_not: NOISE,
    },
    Goal {
        work: "three replicas, acks=all, 1 MiB: processor of all brokers",
        metric: &["cpu_s_per_gb"],
        this: at("broker-replicate", "1 MiB", "levada"),
        bound: Bound::Times(at("broker-replicate", "1 MiB", "kafka"), 0.6),
        if_not: FIRST_ROUND,
    },
    Goal {
        work: "three replicas, acks=all, 5 000 records a second: p99",
        metric: &["produce_p99_ms"],
        this: at("broker-replicate", "fixed rate", "levada"),
        bound: Bound::Times(at("broker-replicate", "fixed rate", "kafka"), 0.5),
        if_not: NOISE,
    },
    Goal {
        work: "a new replica: rate of its copy",
        metric: &["copied_mb_per_s"],
        this: at("broker-replicate", "new replica", "levada"),
        bound: Bound::TimesAtLeast(at("broker-replicate", "new replica", "kafka"), 1.0),
        if_not: NOISE,
    },
    Goal {
        work: "a new replica: p99 of producers during the copy, by before",
        metric: &["p99_by_quiet"],
        this: at("broker-replicate", "new replica", "levada"),
        bound: Bound::Value(1.5),
        if_not: SCHEDULER,
    },
    Goal {
        work: "a new replica: memory of its broker",
        metric: &["resident_mb"],
        this: at("broker-replicate", "new replica", "levada"),
        bound: Bound::Times(at("broker-replicate", "new replica", "kafka"), 0.1),
        if_not: NOISE,
    },
    control("ApiVersions", 0.1),
    control("Metadata of 1 partition", 1.0 / 15.0),
    control("Metadata of 1000 partitions", 1.0 / 15.0),
    control("Metadata of 10000 partitions", 1.0 / 15.0),
    control("OffsetCommit of 1 partition", 0.1),
    control("OffsetCommit of 100 partitions", 0.1),
    control("OffsetFetch of 1 partition", 0.1),
    control("OffsetFetch of 100 partitions", 0.1),
    control("ListOffsets of 100 partitions", 0.1),
    control("InitProducerId", 0.1),
    control("DescribeConfigs of 1 topic", 0.1),
    control("Produce to 100 partitions", 0.1),
    control("empty Fetch of 100 partitions", 0.1),
    control("transaction of 1 record", 0.1),
    control("create and delete 1 topic", 0.1),
    Goal {
        work: "heartbeat of a streams group of 1 000 members",
        metric: &["cpu_us_per_operation"],
        this: at("broker-streams-members", "heartbeat of a streams group of 1000 members", "levada"),
        bound: Bound::Times(
            at("broker-streams-members", "heartbeat of a streams group of 1000 members", "kafka"),
            0.2,
        ),
        if_not: NOISE,
    },
    Goal {
        work: "share fetch, 1 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-share-fetch", "", "levada"),
        bound: Bound::Times(at("broker-share-fetch", "", "kafka"), 0.5),
        if_not: NOISE,
    },
    Goal {
        work: "share fetch, 1 MiB: beside a fetch",
        metric: &["cpu_s_per_gb"],
        this: at("broker-share-fetch", "", "levada"),
        bound: Bound::Times(at("broker-share-fetch", "", "levada, Fetch"), 1.15),
        if_not: HEADERS,
    },
    Goal {
        work: "share fetch: memory of a batch in flight",
        metric: &["bytes_per_batch"],
        this: at("broker-share-fetch", "", "levada"),
        bound: Bound::Value(200.0),
        if_not: NOISE,
    },
    Goal {
        work: "records acquired and acknowledged one by one: processor a record",
        metric: &["cpu_us_per_record"],
        this: at("broker-share-acknowledge", "one by one", "levada"),
        bound: Bound::Times(at("broker-share-acknowledge", "one by one", "kafka"), 0.25),
        if_not: NOISE,
    },
    Goal {
        work: "the same, all of a fetch with one request",
        metric: &["cpu_us_per_record"],
        this: at("broker-share-acknowledge", "all of a fetch", "levada"),
        bound: Bound::Times(at("broker-share-acknowledge", "all of a fetch", "kafka"), 0.25),
        if_not: NOISE,
    },
    Goal {
        work: "memory of a record in flight that is tracked alone",
        metric: &["bytes_per_record"],
        this: at("broker-share-acknowledge", "one by one", "levada"),
        bound: Bound::Value(64.0),
        if_not: NOISE,
    },
    Goal {
        work: "1 000 members of a share group: p99 from produce to acquire",
        metric: &["acquire_p99_ms"],
        this: at("broker-share-members", "1000 members of one group, 10 partitions", "levada"),
        bound: Bound::Times(
            at("broker-share-members", "1000 members of one group, 10 partitions", "kafka"),
            0.5,
        ),
        if_not: NOISE,
    },
    Goal {
        work: "100 share groups: p99 from produce to acquire",
        metric: &["acquire_p99_ms"],
        this: at("broker-share-members", "100 groups of one member, one partition", "levada"),
        bound: Bound::Times(
            at("broker-share-members", "100 groups of one member, one partition", "kafka"),
            0.5,
        ),
        if_not: NOISE,
    },
    Goal {
        work: "produce, 64 KiB, while 1 000 clients push metrics: by without",
        metric: &["cpu_s_per_gb"],
        this: at("broker-telemetry", "produce, 64 KiB", "clients push"),
        bound: Bound::Times(at("broker-telemetry", "produce, 64 KiB", "no subscription"), 1.05),
        if_not: NOISE,
    },
    Goal {
        work: "fetch, 1 MiB, while 1 000 clients push metrics: by without",
        metric: &["cpu_s_per_gb"],
        this: at("broker-telemetry", "fetch, 1 MiB", "clients push"),
        bound: Bound::Times(at("broker-telemetry", "fetch, 1 MiB", "no subscription"), 1.05),
        if_not: NOISE,
    },
    Goal {
        work: "replay from the remote store, 1 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-remote-replay", "1 MiB", "levada"),
        bound: Bound::Times(at("broker-remote-replay", "1 MiB", "kafka"), 0.5),
        if_not: NOISE,
    },
    Goal {
        work: "replay from the remote store, 1 MiB: rate",
        metric: &["gb_per_s"],
        this: at("broker-remote-replay", "1 MiB", "levada"),
        bound: Bound::TimesAtLeast(at("broker-remote-replay", "1 MiB", "kafka"), 1.0),
        if_not: NOISE,
    },
    Goal {
        work: "replay from the remote store, 8 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-remote-replay", "8 MiB", "levada"),
        bound: Bound::Times(at("broker-remote-replay", "8 MiB", "kafka"), 0.5),
        if_not: NOISE,
    },
    Goal {
        work: "replay from the remote store, 8 MiB: rate",
        metric: &["gb_per_s"],
        this: at("broker-remote-replay", "8 MiB", "levada"),
        bound: Bound::TimesAtLeast(at("broker-remote-replay", "8 MiB", "kafka"), 1.0),
        if_not: NOISE,
    },
    Goal {
        work: "the same again, 1 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-remote-replay", "1 MiB", "levada, again"),
        bound: Bound::Times(at("broker-remote-replay", "1 MiB", "kafka"), 0.5),
        if_not: NOISE,
    },
    Goal {
        work: "the same again, 1 MiB: MB read from the store",
        metric: &["store_mb"],
        this: at("broker-remote-replay", "1 MiB", "levada, again"),
        bound: Bound::Value(0.0),
        if_not: NOISE,
    },
    Goal {
        work: "the same again, 8 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("broker-remote-replay", "8 MiB", "levada, again"),
        bound: Bound::Times(at("broker-remote-replay", "8 MiB", "kafka"), 0.5),
        if_not: NOISE,
    },
    Goal {
        work: "the same again, 8 MiB: MB read from the store",
        metric: &["store_mb"],
        this: at("broker-remote-replay", "8 MiB", "levada, again"),
        bound: Bound::Value(0.0),
        if_not: NOISE,
    },
    Goal {
        work: "copy to the remote store: processor, beside a copy of the files",
        metric: &["cpu_s_per_gb"],
        this: at("broker-remote-copy", "", "levada"),
        bound: Bound::Times(at("broker-remote-copy", "", "floor"), 1.3),
        if_not: NOISE,
    },
    Goal {
        work: "files of 100 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("files-volume", "100 MiB", "levada"),
        bound: Bound::Times(at("files-volume", "100 MiB", "nginx"), 0.9),
        if_not: FILES_LARGE,
    },
    Goal {
        work: "files of 100 MiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("files-volume", "100 MiB", "levada"),
        bound: Bound::Times(at("files-volume", "100 MiB", "floor"), 1.2),
        if_not: NOISE,
    },
    Goal {
        work: "files of 1 MiB: processor",
        metric: &["cpu_s_per_gb"],
        this: at("files-volume", "1 MiB", "levada"),
        bound: Bound::Times(at("files-volume", "1 MiB", "nginx"), 0.9),
        if_not: FILES_LARGE,
    },
    Goal {
        work: "files of 1 MiB: beside the floor",
        metric: &["cpu_s_per_gb"],
        this: at("files-volume", "1 MiB", "levada"),
        bound: Bound::Times(at("files-volume", "1 MiB", "floor"), 1.2),
        if_not: NOISE,
    },
    Goal {
        work: "files of 16 KiB: processor a request",
        metric: &["cpu_us_per_request"],
        this: at("files-requests", "16 KiB", "levada"),
        bound: Bound::Times(at("files-requests", "16 KiB", "nginx"), 0.8),
        if_not: FILES_SMALL,
    },
    Goal {
        work: "files of 1 KiB: processor a request",
        metric: &["cpu_us_per_request"],
        this: at("files-requests", "1 KiB", "levada"),
        bound: Bound::Times(at("files-requests", "1 KiB", "nginx"), 0.8),
        if_not: FILES_SMALL,
    },
    Goal {
        work: "files of 16 KiB, a connection for each request: processor",
        metric: &["cpu_us_per_request"],
        this: at("files-requests", "16 KiB, a connection each", "levada"),
        bound: Bound::Times(at("files-requests", "16 KiB, a connection each", "nginx"), 1.0),
        if_not: FILES_SHORT,
    },
    Goal {
        work: "files of 1 KiB, a connection for each request: processor",
        metric: &["cpu_us_per_request"],
        this: at("files-requests", "1 KiB, a connection each", "levada"),
        bound: Bound::Times(at("files-requests", "1 KiB, a connection each", "nginx"), 1.0),
        if_not: FILES_SHORT,
    },
    Goal {
        work: "files of 1 MiB over TLS: processor",
        metric: &["cpu_s_per_gb"],
        this: at("files-volume", "1 MiB, TLS", "levada"),
        bound: Bound::Times(at("files-volume", "1 MiB, TLS", "nginx"), 0.9),
        if_not: NOISE,
    },
    Goal {
        work: "small files beside a large cold download: p99",
        metric: &["answer_p99_ms"],
        this: at("files-fairness", "beside a large download from the disk", "levada"),
        bound: Bound::Times(at("files-fairness", "beside a large download from the disk", "nginx"), 0.2),
        if_not: FILES_COLD,
    },
    Goal {
        work: "5 000 idle connections to a server of files: memory of each",
        metric: &["kib_per_connection"],
        this: at("files-idle", "", "levada"),
        bound: Bound::Value(4.0),
        if_not: NOISE,
    },
];
