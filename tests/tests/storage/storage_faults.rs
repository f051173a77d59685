//! Disks that fail under the running binary: the partition concerned answers with Kafka's error,
//! the others stay in service, and a restart repairs it without any edited file. strace makes
//! system calls fail, remounting makes file systems fail.
//!
//! Suite: short; 8 s; needs strace

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, await_some, not_run, trace};

const SOON: Duration = Duration::from_secs(60);
const NONE: i16 = 0;
const STORAGE_ERROR: i16 = 56;
const SEGMENT: &str = "00000000000000000000";

fn batch() -> Vec<u8> {
    Batch::of(&[&[7; 20_000], b"two"]).encode()
}

fn produce(connection: &mut Connection, topic: &str) -> i16 {
    raw::produce_error(&connection.call(&raw::produce(topic, -1, &batch())))
}

fn end_of(connection: &mut Connection, topic: &str) -> i64 {
    raw::listed_offset(&connection.call(&raw::list_end_offset(topic)))
}

/// A Levada with topics `broken` and `whole`, whose calls on one file of `broken` strace makes
/// fail.
fn injured(file: &str, injection: &str, options: &[(&str, &str)]) -> Option<Node> {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: it takes a Levada");
        return None;
    }
    if !trace::is_allowed() {
        not_run("a file whose calls fail: there is no strace that may trace");
        return None;
    }
    let mut node = Node::new();
    for (key, value) in options {
        node = node.option(key, value);
    }
    node.start();
    let mut connection = Connection::open(node.address());
    for topic in ["broken", "whole"] {
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
        assert_eq!(produce(&mut connection, topic), NONE);
    }
    node.stop();
    let path = node.data().join("broken-0").join(file).display().to_string();
    let (calls, what) = injection.split_once(' ').expect("calls, and what becomes of them");
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:{what}"));
    node.wrap(&[
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "--seccomp-bpf",
        "-P",
        &path,
        "-e",
        &trace,
        "-e",
        &inject,
    ]);
    node.start();
    Some(node)
}

/// `broken` refuses records, `whole` does not; without the fault all acknowledged records are
/// there.
fn refuses_and_comes_back(mut node: Node, mut acknowledged: i64) {
    let mut connection = Connection::open(node.address());
    let refused = await_some("a refusal", SOON, || match produce(&mut connection, "broken") {
        NONE => {
            acknowledged += 2;
            None
        }
        other => Some(other),
    });
    assert_eq!(refused, STORAGE_ERROR);
    assert_eq!(produce(&mut connection, "broken"), STORAGE_ERROR, "it stays so");
    assert_eq!(produce(&mut connection, "whole"), NONE);
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("whole", 0, 1 << 20))), NONE);
    let (status, reason) = node.http("/healthz");
    assert!(status == 503 && reason.contains("1 partitions are offline"), "{status} {reason}");
    await_some("a line that names the partition", SOON, || node.talk().contains("broken-0").then_some(()));
    node.stop();

    node.wrap(&[]);
    node.start();
    let mut connection = Connection::open(node.address());
    let end = end_of(&mut connection, "broken");
    assert!(end >= acknowledged, "{acknowledged} were acknowledged, {end} are there");
    assert_eq!(produce(&mut connection, "broken"), NONE);
    assert_eq!(node.http("/healthz").0, 200);
    node.stop();
}

#[test]
fn failed_write_takes_its_partition_offline() {
    let Some(node) = injured(&format!("{SEGMENT}.log"), "pwritev,pwrite64,pwritev2 error=EIO:when=3+", &[])
    else {
        return;
    };
    refuses_and_comes_back(node, 2);
}

#[test]
fn read_only_file_system_refuses_writes() {
    let calls = "pwritev,pwrite64,pwritev2 error=EROFS";
    let Some(mut node) = injured(&format!("{SEGMENT}.log"), calls, &[]) else { return };
    let mut connection = Connection::open(node.address());
    await_some("a broker that is not ready", SOON, || {
        assert_eq!(produce(&mut connection, "broken"), STORAGE_ERROR);
        let (status, reason) = node.http("/readyz");
        (status == 503 && reason.contains("log directories refuse records")).then_some(())
    });
    assert_eq!(produce(&mut connection, "whole"), NONE, "its file takes them");
    assert_eq!(node.http("/healthz").0, 200, "no partition is offline");
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("broken", 0, 1 << 20))), NONE);
    node.stop();
    node.wrap(&[]);
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(end_of(&mut connection, "broken"), 2);
    assert_eq!(produce(&mut connection, "broken"), NONE);
    node.stop();
}

#[test]
fn failed_sync_is_not_retried() {
    // Only one sync fails: a repeated one would succeed and acknowledge data that the kernel has
    // dropped.
    let durable = [("levada.ack.durability", "fdatasync")];
    let Some(node) = injured(&format!("{SEGMENT}.log"), "fdatasync,fsync error=EIO:when=1", &durable) else {
        return;
    };
    refuses_and_comes_back(node, 2);
}

#[test]
fn failed_read_affects_only_its_partition() {
    let calls = "pread64,preadv,preadv2,splice,sendfile error=EIO";
    let Some(mut node) = injured(&format!("{SEGMENT}.log"), calls, &[]) else { return };
    let mut connection = Connection::open(node.address());
    let mut read = |topic: &str| {
        // An error in the middle of a response can only be reported by closing the connection.
        let answer = connection.try_call(&raw::fetch(topic, 0, 1 << 20));
        if answer.is_err() {
            connection = Connection::open(node.address());
        }
        answer.map_or(STORAGE_ERROR, |answer| raw::fetch_error(&answer))
    };
    assert_eq!(read("broken"), STORAGE_ERROR);
    assert_eq!(read("whole"), NONE);
    node.assert_running("after a read that failed");
    node.stop();
    node.wrap(&[]);
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("broken", 0, 1 << 20))), NONE);
    assert_eq!(end_of(&mut connection, "broken"), 2);
    node.stop();
}

#[test]
fn slow_disk_delays_only_its_own_producers() {
    let durable = [("levada.ack.durability", "fdatasync")];
    let slow = "fdatasync,fsync delay_enter=3s";
    let Some(mut node) = injured(&format!("{SEGMENT}.log"), slow, &durable) else { return };
    let mut waiting = Connection::open(node.address());
    waiting.send_frame(&raw::produce("broken", -1, &batch())).expect("a request");
    let mut other = Connection::open(node.address());
    for _ in 0..20 {
        assert_eq!(produce(&mut other, "whole"), NONE);
    }
    assert_eq!(end_of(&mut other, "whole"), 42, "all of them before the slow one is answered");
    let answer = waiting.response().expect("an answer in the end");
    assert_eq!(raw::produce_error(&answer), NONE);
    node.stop();
}

#[test]
fn truncated_index_is_error_of_its_partition() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka's JVM has its own answer");
    }
    let mut node = Node::new().option("log.index.interval.bytes", "4096");
    node.start();
    let mut connection = Connection::open(node.address());
    for topic in ["broken", "whole"] {
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
        for _ in 0..10 {
            assert_eq!(produce(&mut connection, topic), NONE);
        }
    }
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("broken", 15, 1 << 20))), NONE);
    let index = node.data().join("broken-0").join(SEGMENT).with_extension("index");
    File::options().write(true).open(&index).and_then(|file| file.set_len(0)).expect("an index to cut");
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("broken", 15, 1 << 20))), STORAGE_ERROR);
    assert_eq!(produce(&mut connection, "broken"), STORAGE_ERROR);
    assert_eq!(produce(&mut connection, "whole"), NONE);
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("whole", 15, 1 << 20))), NONE);
    assert!(node.talk().contains(&index.display().to_string()), "{}", node.talk());
    node.restart();
    let mut connection = Connection::open(node.address());
    assert_eq!(end_of(&mut connection, "broken"), 20);
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("broken", 15, 1 << 20))), NONE);
    assert_eq!(produce(&mut connection, "broken"), NONE);
    node.stop();
}

#[test]
fn externally_deleted_directory_is_noticed() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka notices with the next roll");
    }
    let mut node = Node::started();
    let mut connection = Connection::open(node.address());
    for topic in ["broken", "whole"] {
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
        assert_eq!(produce(&mut connection, topic), NONE);
    }
    fs::remove_dir_all(node.data().join("broken-0")).expect("a directory to delete");
    await_some("the loss to be noticed", SOON, || {
        (produce(&mut connection, "broken") == STORAGE_ERROR).then_some(())
    });
    assert_eq!(produce(&mut connection, "whole"), NONE);
    assert_eq!(node.http("/healthz").0, 503);
    node.restart();
    let mut connection = Connection::open(node.address());
    assert_eq!(produce(&mut connection, "broken"), NONE, "from offset 0, since nothing is left");
    assert_eq!(end_of(&mut connection, "whole"), 4);
    node.stop();
}

/// A separate small ext4, unmounted with the guard.
struct LoopMount(std::path::PathBuf);

impl LoopMount {
    fn new(at: &Path, image: &Path) -> io::Result<Self> {
        fs::create_dir_all(at)?;
        File::create(image)?.set_len(96 << 20)?;
        run("mkfs.ext4", &["-q", "-F", &image.display().to_string()])?;
        run("mount", &["-o", "loop", &image.display().to_string(), &at.display().to_string()])?;
        Ok(Self(at.to_owned()))
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        let _ = run("umount", &[&self.0.display().to_string()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> io::Result<()> {
    let said = Command::new(program).args(arguments).output()?;
    if said.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&said.stderr).into_owned()))
    }
}

#[test]
fn aborted_journal_loses_no_acknowledged_records() {
    let mut node = Node::of(Kind::Levada).option("levada.ack.durability", "fdatasync");
    let (data, image) = (node.data(), node.scratch().join("image"));
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: it takes a Levada");
    }
    let mounted = match LoopMount::new(&data, &image) {
        Ok(mounted) => mounted,
        Err(error) => return not_run(&format!("a disk that becomes read-only: no loop mount: {error}")),
    };
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic("kept", 1))), NONE);
    for _ in 0..10 {
        assert_eq!(produce(&mut connection, "kept"), NONE);
    }
    run("mount", &["-o", "remount,abort", &data.display().to_string()]).expect("ext4 gives up when asked to");
    await_some("a refusal", SOON, || (produce(&mut connection, "kept") == STORAGE_ERROR).then_some(()));
    assert_ne!(raw::topic_error(&connection.call(&raw::create_topic("late", 1))), NONE);
    assert_eq!(
        raw::fetch_error(&connection.call(&raw::fetch("kept", 0, 1 << 20))),
        NONE,
        "it can still be read"
    );
    node.assert_running("on a read-only disk");
    node.kill();
    drop(mounted);
    let again = run("e2fsck", &["-fy", &image.display().to_string()]);
    // Exit code 1 means that something was repaired.
    println!("e2fsck: {again:?}");
    run("mount", &["-o", "loop", &image.display().to_string(), &data.display().to_string()])
        .expect("a repaired disk");
    let _mounted = LoopMount(data);
    node.start();
    let mut connection = Connection::open(node.address());
    let end = end_of(&mut connection, "kept");
    assert!(end >= 20, "20 records were acknowledged, {end} are there");
    assert_eq!(produce(&mut connection, "kept"), NONE);
    node.stop();
}
