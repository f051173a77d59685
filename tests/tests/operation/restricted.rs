//! A container allows less than its machine: records arrive unchanged in spite of missing
//! capabilities, by the next best path, and `levada doctor` names the missing capabilities and
//! their requirements.
//!
//! Suite: long; 4 s

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, await_some, not_run, paths};
use rustix::fs::Advice;

/// A container with restricted rights.
struct Case {
    name: &'static str,
    restrictions: &'static [&'static str],
    /// Paths by which large ranges leave, one of them.
    paths: &'static [&'static str],
    /// Capabilities that the doctor misses.
    missing: &'static [&'static str],
}

const LIMIT: Duration = Duration::from_secs(20);
const NO_RING: [&str; 2] = ["--deny", "io_uring_setup,io_uring_enter,io_uring_register=EPERM"];

const BY_REFERENCE: &[&str] = &["splice", "sendfile"];
/// One copy from a mapping, or two through a buffer.
const BY_COPY: &[&str] = &["mmap_write", "read_write"];

const CASES: [Case; 9] = [
    Case {
        name: "no io_uring, as Docker has it",
        restrictions: &NO_RING,
        paths: BY_REFERENCE,
        missing: &["io_uring", "SEND_ZC", "registered buffers"],
    },
    Case {
        name: "no splice, said by a profile",
        restrictions: &["--deny", "splice=EPERM"],
        paths: &["sendfile"],
        missing: &["splice"],
    },
    Case {
        name: "no splice, said by a kernel",
        restrictions: &["--deny", "splice=ENOSYS"],
        paths: &["sendfile"],
        missing: &["splice"],
    },
    Case {
        name: "neither splice nor sendfile",
        restrictions: &["--deny", "splice,sendfile,copy_file_range=ENOSYS"],
        paths: BY_COPY,
        missing: &["splice", "sendfile", "copy_file_range"],
    },
    Case {
        name: "a splice that copies",
        restrictions: &["--copying-splice"],
        paths: &["mmap_write", "splice_copy"],
        missing: &["page references"],
    },
    Case {
        name: "no cachestat, as before Linux 6.5",
        restrictions: &["--deny", "cachestat=ENOSYS"],
        paths: BY_REFERENCE,
        missing: &["cachestat"],
    },
    Case {
        name: "64 KiB of locked memory",
        restrictions: &["--locked-memory", "65536", "--namespace"],
        paths: BY_REFERENCE,
        missing: &["registered buffers"],
    },
    Case {
        name: "a user namespace without privileges",
        restrictions: &["--namespace"],
        paths: BY_REFERENCE,
        missing: &[],
    },
    Case {
        name: "nothing at all",
        restrictions: &[
            "--deny",
            "io_uring_setup,io_uring_enter,io_uring_register,splice,sendfile,copy_file_range,cachestat,preadv2=EPERM",
            "--locked-memory",
            "65536",
            "--namespace",
        ],
        paths: BY_COPY,
        missing: &["io_uring", "splice", "sendfile", "copy_file_range", "cachestat", "RWF_NOWAIT reads"],
    },
];

/// Cold records on a machine without free memory: read around the page cache, and sent from there.
const AROUND: &str = "uring_read";

const LAUNCHER: &str = env!("CARGO_BIN_EXE_restricted");
const TOPIC: &str = "restricted";
/// Several segments of a megabyte.
const BATCHES: u8 = 100;

/// True if this machine lets us restrict a process so.
fn can(case: &Case) -> bool {
    let tried = Command::new(LAUNCHER).args(case.restrictions).args(["--", "true"]).output();
    let tried = tried.expect("the launcher starts");
    if !tried.status.success() {
        not_run(&format!("{}: {}", case.name, String::from_utf8_lossy(&tried.stderr)));
    }
    tried.status.success()
}

#[test]
fn restricted_host_falls_back_to_another_path() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: a promise of Levada's alone");
    }
    for case in CASES.iter().filter(|case| can(case)) {
        let mut node = Node::new().option("log.segment.bytes", "1048576");
        let wrapper: Vec<&str> =
            [LAUNCHER].into_iter().chain(case.restrictions.iter().copied()).chain(["--"]).collect();
        node.wrap(&wrapper);
        node.start();
        let mut connection = Connection::open(node.address());
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(TOPIC, 1))), 0, "{}", case.name);
        for number in 0..BATCHES {
            let batch = Batch::of(&[&[number; 60_000]]).encode();
            assert_eq!(raw::produce_error(&connection.call(&raw::produce(TOPIC, 1, &batch))), 0);
        }
        let segments = segments(&node);
        assert!(segments.len() > 4, "{}: {segments:?}", case.name);
        let mut fetch = |cold: bool| -> usize {
            let lengths = segments.iter().map(|(path, base_offset)| {
                let expected = fs::read(path).expect("the segment");
                if cold {
                    evict(path);
                }
                let response = connection.call(&raw::fetch(TOPIC, *base_offset, 16 << 20));
                assert!(response.ends_with(&expected), "{}, cold {cold}: {}", case.name, path.display());
                expected.len()
            });
            lengths.sum()
        };
        let fetched = (fetch(false) + fetch(true)) as f64;
        // The last bytes may be here before the broker has counted them.
        let sent = await_some(case.name, LIMIT, || {
            let sent = sent_by_path(&node);
            let by_permitted: f64 =
                case.paths.iter().chain(&[AROUND]).filter_map(|path| sent.get(*path)).sum();
            (by_permitted >= fetched).then_some(sent)
        });
        println!("{}: {fetched} bytes of records, sent: {sent:?}", case.name);
        // The rest of the responses.
        let of = |path: &str| sent.get(path).copied().unwrap_or(0.0);
        let rest = of("send") - of(AROUND);
        assert!(rest < fetched / 10.0, "{}: {sent:?}", case.name);
        let is_other = |path: &str| !["send", AROUND].contains(&path) && !case.paths.contains(&path);
        let others = sent.keys().filter(|path| is_other(path));
        assert_eq!(others.count(), 0, "{}: {sent:?}", case.name);
        node.stop();
    }
}

#[test]
fn doctor_explains_missing_kernel_features() {
    for case in CASES.iter().filter(|case| can(case)) {
        let mut command = Command::new(LAUNCHER);
        command.args(case.restrictions).arg("--").arg(paths::binary()).args(["doctor", "--output", "json"]);
        let output = command.output().expect("the doctor starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {said}", case.name);
        let report: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let found = report["capabilities"].as_array().expect("a list");
        for name in case.missing {
            let one = found.iter().find(|one| one["name"] == *name);
            let one = one.unwrap_or_else(|| panic!("{}: nothing about {name}: {said}", case.name));
            assert_eq!(one["works"], false, "{}: {one}", case.name);
            let says = |key: &str| one[key].as_str().is_some_and(|text| !text.is_empty());
            assert!(says("why") && says("remedy"), "{}: {one}", case.name);
        }
        let best = report["large_fetches_use"].as_str().expect("a path");
        assert!(case.paths.contains(&best), "{}: {best}", case.name);
    }
}

/// Bytes that the broker has sent, by path; without paths that sent none.
fn sent_by_path(node: &Node) -> BTreeMap<String, f64> {
    let path = |name: &str| -> Option<String> {
        let path = name.strip_prefix("levada_transfer_bytes_total{path=\"")?.strip_suffix("\"}")?;
        Some(path.to_owned())
    };
    let sent = node.metrics().into_iter().filter(|(_, bytes)| *bytes > 0.0);
    sent.filter_map(|(name, bytes)| Some((path(&name)?, bytes))).collect()
}

/// Path and base offset of each segment but the last, in order.
fn segments(node: &Node) -> Vec<(PathBuf, i64)> {
    let entries = fs::read_dir(node.data().join(format!("{TOPIC}-0"))).expect("the partition");
    let logs = entries.map(|entry| entry.expect("an entry").path()).filter_map(|path| {
        let base = path.file_stem()?.to_str()?.parse().ok()?;
        path.extension().is_some_and(|extension| extension == "log").then_some((path, base))
    });
    let mut segments: Vec<(PathBuf, i64)> = logs.collect();
    segments.sort_by_key(|(_, base)| *base);
    segments.pop();
    segments
}

/// Requests the kernel to drop a file's pages. A file system that does not is not a failure of
/// Levada.
fn evict(path: &PathBuf) {
    let file = fs::File::open(path).expect("the segment");
    file.sync_data().expect("written back");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
}
