//! A full disk below a queue, with its topic and the states of its records: acknowledgements that
//! cannot be stored are refused, members keep their records, and no record is lost once there is
//! room.
//!
//! Suite: long; 24 s; needs java; share faults

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use levada_tests::cluster::Tools;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::share::letters::await_no_lag;
use levada_tests::share::{self, Members, numbered, values};
use levada_tests::{await_some, not_run, process};

const SOON: Duration = Duration::from_secs(60);
const NONE: i16 = 0;
const STORAGE_ERROR: i16 = 56;
const RECORDS: u32 = 120;
/// Size of the ballast whose removal makes room.
const BALLAST: usize = 2 << 20;

/// Runs a command on a data directory that is a small separate file system, which only that command
/// sees.
const ON_SMALL_DISK: &str = r#"mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@""#;

#[test]
fn a_full_disk_loses_no_record() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it takes a Levada");
    }
    if !process::namespaces_allowed() {
        return not_run("a full disk: there are no user namespaces");
    }
    let mut node = share::node();
    fs::create_dir_all(node.data()).expect("a data directory");
    let data = node.data().display().to_string();
    let own = ["unshare", "--user", "--map-root-user", "--mount", "--fork", "sh", "-c", ON_SMALL_DISK, &data];
    node.wrap(&own);
    node.start();
    let mut members = Members::of(&node.bootstrap());
    members.run("topic t 1");
    members.run("config g share.auto.offset.reset=earliest share.record.lock.duration.ms=5000");
    members.run(&format!("produce t 0 {}", numbered("v", 0..RECORDS)));
    members.run("open a g t share.acknowledgement.mode=explicit");
    let polled = members.await_poll("a");
    let (first, rest) = polled.split_at(2);
    members.acknowledge("a", "accept", first);
    assert_eq!(members.commit("a"), Vec::<String>::new(), "there is room");

    let disk = PathBuf::from(format!("/proc/{}/root{data}", node.pid()));
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![0; BALLAST]).expect("room for the ballast");
    let mut filler = File::create(disk.join("filler")).expect("a name takes no room");
    while filler.write_all(&[0; 4096]).is_ok() {}
    let mut connection = Connection::open(node.address());
    let batch = Batch::of(&[&[7; 60_000]]).encode();
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("t", 1, &batch))), STORAGE_ERROR);
    // The last page of the file of the states has room for some more, and a refused append frees
    // its pages.
    let refused = rest.iter().position(|delivery| {
        while filler.write_all(&[0; 4096]).is_ok() {}
        members.acknowledge("a", "accept", std::slice::from_ref(delivery));
        !members.commit("a").is_empty()
    });
    let rest = &rest[refused.expect("an acknowledgement without room for the states")..];
    node.assert_running("on a full disk");

    fs::remove_file(ballast).expect("the ballast is there");
    await_some("room for records", SOON, || {
        (raw::produce_error(&connection.call(&raw::produce("t", 1, &batch))) == NONE).then_some(())
    });
    // Another member gets the records when their locks have ended.
    members.run("open b g t share.acknowledgement.mode=explicit");
    let mut again = members.take("b", rest.len() + 1, "accept");
    again.retain(|delivery| delivery.value.starts_with("v-"));
    assert_eq!(values(&again), values(rest), "each record that was not accepted comes again");
    members.assert_quiet("b");
    await_no_lag(&mut Tools::of(&node.bootstrap(), node.scratch()));
    node.stop();
}
