//! The claims, each with the cases that test it.
//!
//! Catalogue: a table of facts about five articles, whose entries have the same form.

use super::{At, Claim, Says, Sum};

/// Text before the first table.
pub(super) const HEAD: &str = "\
# Claims of five articles, tested

Levada's paths were chosen after reading five articles on zero-copy I/O. This page compares each of
their figures with a measured one. `levada lab claims` generates it from the records in
[runs](runs), which `docs/lab/record.sh` writes; a test compares the page with the records. A factor
is the median of the quotients of runs of the same round, with its 95 % confidence interval
([how](METHODOLOGY.md), [known biases](BIAS.md)). *Confirmed*: the interval lies on the claimed
side, and the median reaches half of the claimed factor (of its logarithm). *In part*: the interval
lies on the claimed side, and the median is smaller. *Refuted*: the interval lies below that half.
*Not sure*: the interval contains both.

Measured:

";

/// Letters and titles of the articles.
pub(super) const SOURCES: [(char, &str); 5] = [
    ('A', "Zero copy in Kafka's broker"),
    ('B', "sendfile for local copies"),
    ('C', "Kafka's offset search (KAFKA-18989)"),
    ('D', "io_uring's zero-copy send"),
    ('E', "mmap, readv and io_uring on large files"),
];

const fn transfer(case: &'static str) -> At {
    At { experiment: "transfer", group: "hot, receiver discards", case }
}

const fn copy(case: &'static str) -> At {
    At { experiment: "copy", group: "hot", case }
}

const fn search(case: &'static str) -> At {
    At { experiment: "search", group: "the last of 40 batches", case }
}

const fn send(group: &'static str, case: &'static str) -> At {
    At { experiment: "send", group, case }
}

const fn mixed(group: &'static str, case: &'static str) -> At {
    At { experiment: "mixed", group, case }
}

const fn read(group: &'static str, case: &'static str) -> At {
    At { experiment: "read", group, case }
}

const RATE: Sum = &["gb_per_s"];
const CPU: Sum = &["cpu_s_per_gb"];
const COPIES: Sum = &["copies_per_byte"];
const CALLS: Sum = &["calls_per_gb"];
const MESSAGES: Sum = &["messages_per_s"];
const IN_ORDER: &str = "hot, in order";
const AT_RANDOM: &str = "hot, at random";
const COLD: &str = "cold, in order";
const RING: &str = "ring, depth 32, registered";
const POOLED: &str = "preadv, 8 pooled buffers";
const KAFKA_OLD: &str = "Kafka, last offset of each";
const KAFKA_NEW: &str = "Kafka, searchForOffsetFromPosition";

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: 'A',
        words: "sendfile has 2.5 times the throughput of reading and writing 8 KiB",
        says: Says::Times {
            metric: RATE,
            this: transfer("sendfile"),
            that: transfer("read+write 8K"),
            times: 2.5,
        },
        if_so: "sendfile makes neither a copy nor a call for each 8 KiB",
        if_not: "On loopback the sender also pays for the receiver's part of TCP, which no path avoids",
    },
    Claim {
        source: 'A',
        words: "sendfile takes 73 % less processor time (45 % to 12 %)",
        says: Says::Times {
            metric: CPU,
            this: transfer("read+write 8K"),
            that: transfer("sendfile"),
            times: 3.75,
        },
        if_so: "The rest is the cost of TCP itself",
        if_not: "On loopback the sender also pays for the receiver's part of TCP, which no path avoids",
    },
    Claim {
        source: 'A',
        words: "sendfile copies no byte by processor",
        says: Says::Is { metric: COPIES, this: transfer("sendfile"), value: 0.0 },
        if_so: "The kernel puts pages of the cache into the socket by reference; our engine counts the bytes where they move",
        if_not: "Some bytes took another path",
    },
    Claim {
        source: 'A',
        words: "mmap and write saves one of the two copies of read and write",
        says: Says::Times {
            metric: COPIES,
            this: transfer("read+write 1M"),
            that: transfer("mmap+write 1M"),
            times: 2.0,
        },
        if_so: "The socket copies from the page cache, and no other copy is made",
        if_not: "The counters say otherwise",
    },
    Claim {
        source: 'A',
        words: "mmap and write is cheaper than read and write",
        says: Says::Times {
            metric: CPU,
            this: transfer("read+write 1M"),
            that: transfer("mmap+write 1M"),
            times: 1.5,
        },
        if_so: "A copy costs more than the entry of pages into the page table",
        if_not: "The entry of pages into the page table costs as much as the saved copy; Levada plans this path only where splice copies",
    },
    Claim {
        source: 'A',
        words: "Zero copy does not pay for small transfers, of a few KB (4 KiB behind a header)",
        says: Says::Times {
            metric: &["cpu_us"],
            this: At { experiment: "extents", group: "4K", case: "splice" },
            that: At { experiment: "extents", group: "4K", case: "read_write" },
            times: 1.2,
        },
        if_so: "Two calls on a pipe cost more than a copy; `levada lab calibrate` measures this size limit on your machine",
        if_not: "Copies are expensive on this machine; `levada lab calibrate` measures the size from which references are cheaper",
    },
    Claim {
        source: 'A',
        words: "TLS in user space loses zero copy: it reads, encrypts and writes",
        says: Says::Times {
            metric: CPU,
            this: transfer("TLS here, 128K"),
            that: transfer("sendfile"),
            times: 3.0,
        },
        if_so: "The process reads, encrypts and copies every byte again",
        if_not: "On this processor encryption costs little compared with TCP",
    },
    Claim {
        source: 'A',
        words: "sendfile is splice inside: the same pages by the same pipe of 64 KiB",
        says: Says::Times {
            metric: CPU,
            this: transfer("splice, pipe 64K"),
            that: transfer("sendfile"),
            times: 1.0,
        },
        if_so: "The only difference is that the pipe is the kernel's instead of ours",
        if_not: "Our own pipe takes two calls each time it is filled, and sendfile takes one call for everything",
    },
    Claim {
        source: 'A',
        words: "(ours) a pipe of 1 MiB makes splice cheaper than sendfile",
        says: Says::Times {
            metric: CPU,
            this: transfer("sendfile"),
            that: transfer("splice, pipe 1M"),
            times: 1.2,
        },
        if_so: "sendfile's own pipe has 16 pages; the contents of a larger pipe go through TCP in fewer pieces",
        if_not: "On this machine the size of the pipe has less effect",
    },
    Claim {
        source: 'B',
        words: "sendfile needs half the system calls of read and write with 4 KB",
        says: Says::Times {
            metric: CALLS,
            this: copy("read+write 4K"),
            that: copy("sendfile 4K"),
            times: 1.998,
        },
        if_so: "One call for each block instead of two",
        if_not: "The counters say otherwise",
    },
    Claim {
        source: 'B',
        words: "The time in calls falls from 19.2 to 13.6 s",
        says: Says::Times {
            metric: &["call.read.total_ms", "call.write.total_ms", "call.sendfile.total_ms"],
            this: copy("read+write 4K"),
            that: copy("sendfile 4K"),
            times: 1.41,
        },
        if_so: "Half of the calls are gone",
        if_not: "Half of the calls are gone, but each remaining call does more: into a file, sendfile uses a pipe and copies at its end",
    },
    Claim {
        source: 'B',
        words: "sendfile costs less processor time than read and write with 4 KB",
        says: Says::Times {
            metric: CPU,
            this: copy("read+write 4K"),
            that: copy("sendfile 4K"),
            times: 1.41,
        },
        if_so: "Half of the calls are gone",
        if_not: "Into a file, sendfile uses a pipe and copies at its end: the saved calls are not the main cost",
    },
    Claim {
        source: 'C',
        words: "A lookup takes half the time: 55.9 to 27.7 ms an operation",
        says: Says::Times {
            metric: &["mean_us"],
            this: search(KAFKA_OLD),
            that: search(KAFKA_NEW),
            times: 2.016,
        },
        if_so: "Kafka's own classes: they read the header of one batch instead of each header",
        if_not: "Kafka's own classes: both versions must read the start of each batch",
    },
    Claim {
        source: 'C',
        words: "The longest lookup falls from 88.2 to 35.3 ms",
        says: Says::Times {
            metric: &["max_us"],
            this: search(KAFKA_OLD),
            that: search(KAFKA_NEW),
            times: 2.5,
        },
        if_so: "Fewer calls, fewer chances to be interrupted",
        if_not: "The scheduler or the garbage collector causes the longest of thousands of lookups, not the loop",
    },
    Claim {
        source: 'C',
        words: "The deviation falls by 67 %",
        says: Says::Times {
            metric: &["deviation_us"],
            this: search(KAFKA_OLD),
            that: search(KAFKA_NEW),
            times: 3.03,
        },
        if_so: "Fewer calls, fewer chances to be interrupted",
        if_not: "A few interrupted lookups cause the deviation",
    },
    Claim {
        source: 'C',
        words: "Bytes read in a lookup fall from 2440 to 61",
        says: Says::Times {
            metric: &["bytes"],
            this: search("last offset of each"),
            that: search("base offset of each"),
            times: 40.0,
        },
        if_so: "One header instead of forty",
        if_not: "The article counts headers alone. The search must also read the start of each batch (17 bytes) to find the next batch",
    },
    Claim {
        source: 'C',
        words: "(ours) one window is cheaper than a read for each batch",
        says: Says::Times {
            metric: &["cpu_us"],
            this: search("base offset of each"),
            that: search("one window"),
            times: 2.0,
        },
        if_so: "A lookup costs system calls, not bytes: for this reason Levada reads one bounded window",
        if_not: "Calls are cheap on this machine",
    },
    Claim {
        source: 'D',
        words: "MSG_ZEROCOPY pays from about 10 KB on",
        says: Says::From {
            metric: &["cpu_us"],
            this: send("ifb, transmit only, ", "MSG_ZEROCOPY"),
            that: send("ifb, transmit only, ", "send"),
            bytes: 10240.0,
        },
        if_so: "Measured on a device that takes references: the pinning of pages and the notification cost as much as a copy of that size",
        if_not: "Measured on a device that takes references: each datagram costs a notification by the error queue",
    },
    Claim {
        source: 'D',
        words: "SEND_ZC pays for large messages (64 KiB)",
        says: Says::Times {
            metric: &["cpu_us"],
            this: send("ifb, transmit only, 64K", "ring SEND"),
            that: send("ifb, transmit only, 64K", "SEND_ZC registered"),
            times: 1.5,
        },
        if_so: "A device that takes references needs no copy",
        if_not: "The accounting costs as much as the copy would",
    },
    Claim {
        source: 'D',
        words: "Without a card that gathers the kernel copies",
        says: Says::Is { metric: &["copied_share"], this: send("loopback, 64K", "SEND_ZC"), value: 1.0 },
        if_so: "On loopback the kernel reports this for every send: it copies the data when it receives the packet",
        if_not: "The kernel does not report a copy",
    },
    Claim {
        source: 'D',
        words: "On such a device SEND_ZC costs as much as SEND, or more",
        says: Says::Times {
            metric: &["cpu_us"],
            this: send("loopback, 64K", "SEND_ZC"),
            that: send("loopback, 64K", "ring SEND"),
            times: 1.1,
        },
        if_so: "The kernel copies anyway, and notifications cost more",
        if_not: "The cost of notifications is small compared with TCP",
    },
    Claim {
        source: 'D',
        words: "Not waiting for the notification before the next send is faster",
        says: Says::Times {
            metric: MESSAGES,
            this: send("loopback, 16K", "SEND_ZC"),
            that: send("loopback, 16K", "SEND_ZC, waits for release"),
            times: 1.5,
        },
        if_so: "A notification comes after the receiver has taken the bytes; a sender that waits for it sends one message at a time",
        if_not: "Over loopback the notification comes with the result",
    },
    Claim {
        source: 'D',
        words: "With few pieces (256), one send and sends split by size cost the same",
        says: Says::Times {
            metric: MESSAGES,
            this: mixed("256 pieces", "cut by size"),
            that: mixed("256 pieces", "one send"),
            times: 1.0,
        },
        if_so: "A small number of references has no measurable cost",
        if_not: "A reference for each piece has a measurable cost even with few pieces",
    },
    Claim {
        source: 'D',
        words: "With 1024 pieces, split sends are 3.1 times faster",
        says: Says::Times {
            metric: MESSAGES,
            this: mixed("1024 pieces", "cut by size"),
            that: mixed("1024 pieces", "one send"),
            times: 3.1,
        },
        if_so: "A piece by reference is a fragment with separate bookkeeping, which fills the receiver's buffer (the kernel counts PruneCalled): the connection then waits for a timer of 200 ms",
        if_not: "On this machine the copy of small pieces into one buffer also costs time",
    },
    Claim {
        source: 'D',
        words: "With 2048 pieces, split sends are 6.7 times faster",
        says: Says::Times {
            metric: MESSAGES,
            this: mixed("2048 pieces", "cut by size"),
            that: mixed("2048 pieces", "one send"),
            times: 6.7,
        },
        if_so: "A piece by reference is a fragment with separate bookkeeping, which fills the receiver's buffer (the kernel counts PruneCalled): the connection then waits for a timer of 200 ms",
        if_not: "On this machine the copy of small pieces into one buffer also costs time",
    },
    Claim {
        source: 'E',
        words: "io_uring reads 1.56 times as fast as readv, in order (4.61 against 2.95 GiB/s), from memory",
        says: Says::Times {
            metric: RATE,
            this: read(IN_ORDER, RING),
            that: read(IN_ORDER, POOLED),
            times: 1.56,
        },
        if_so: "A call for many reads",
        if_not: "At 128 KiB the copy from the page cache is the main cost, and both paths make it",
    },
    Claim {
        source: 'E',
        words: "The same from the device",
        says: Says::Times { metric: RATE, this: read(COLD, RING), that: read(COLD, POOLED), times: 1.56 },
        if_so: "io_uring has many reads in progress at the same time, and readv waits for each read",
        if_not: "The kernel's read-ahead keeps the device as busy as many reads would",
    },
    Claim {
        source: 'E',
        words: "mmap reads 1.29 times as fast as readv, in order, from memory",
        says: Says::Times {
            metric: RATE,
            this: read(IN_ORDER, "mmap, sequential"),
            that: read(IN_ORDER, POOLED),
            times: 1.29,
        },
        if_so: "Nothing is copied",
        if_not: "Faults cost more than copies",
    },
    Claim {
        source: 'E',
        words: "io_uring reads 1.21 times as fast as mmap, in order, from memory",
        says: Says::Times {
            metric: RATE,
            this: read(IN_ORDER, RING),
            that: read(IN_ORDER, "mmap, sequential"),
            times: 1.21,
        },
        if_so: "No faults",
        if_not: "A ring copies from the page cache, and a mapping does not",
    },
    Claim {
        source: 'E',
        words: "readv takes 2.7 times the processor time of io_uring (15.3 against 5.7 % user time; here all of it)",
        says: Says::Times {
            metric: CPU,
            this: read(IN_ORDER, POOLED),
            that: read(IN_ORDER, RING),
            times: 2.68,
        },
        if_so: "Fewer calls",
        if_not: "Both copy in the kernel, which is the main cost. The article also measured the time of Go's runtime",
    },
    Claim {
        source: 'E',
        words: "Pooled buffers: 42 to 27 µs a readv",
        says: Says::Times {
            metric: &["mean_us"],
            this: read(IN_ORDER, "preadv, 8 new buffers a call"),
            that: read(IN_ORDER, POOLED),
            times: 1.56,
        },
        if_so: "The kernel must clear returned memory and map it again",
        if_not: "The allocator keeps returned memory",
    },
    Claim {
        source: 'E',
        words: "Registered files and buffers: 42 to 9 µs a read",
        says: Says::Times {
            metric: &["mean_us"],
            this: read(IN_ORDER, "ring, depth 32"),
            that: read(IN_ORDER, RING),
            times: 4.67,
        },
        if_so: "No lookups and no pinning for each read",
        if_not: "At 128 KiB the lookup of a file costs little compared with the copy",
    },
    Claim {
        source: 'E',
        words: "p99 of a read: readv 127, mmap 89 µs",
        says: Says::Times {
            metric: &["p99_us"],
            this: read(COLD, POOLED),
            that: read(COLD, "mmap, sequential"),
            times: 1.43,
        },
        if_so: "Faults are spread over the pages of a block",
        if_not: "Both wait for the same device",
    },
    Claim {
        source: 'E',
        words: "Huge pages help mappings at random",
        says: Says::Times {
            metric: RATE,
            this: read(AT_RANDOM, "mmap, huge pages"),
            that: read(AT_RANDOM, "mmap"),
            times: 1.2,
        },
        if_so: "One fault and one entry in the page table instead of 512",
        if_not: "The kernel maps the pages around a fault, and the file is too small to exhaust the TLB",
    },
    Claim {
        source: 'E',
        words: "MAP_POPULATE: no fault at a later access",
        says: Says::Times {
            metric: &["mean_us"],
            this: read(AT_RANDOM, "mmap"),
            that: read(AT_RANDOM, "mmap, populate"),
            times: 1.5,
        },
        if_so: "The kernel maps all pages before the first access; it counts them as faults, and the rate contains them",
        if_not: "The kernel maps the pages around each fault, so few faults remain",
    },
];
