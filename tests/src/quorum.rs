//! A quorum of controllers from outside: directories, DescribeQuorum (a JVM for each request would
//! take longer than the tests), and the brokers that clients see.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::raw::{self, Connection, Decoder, Encoder};

/// The cluster's id.
pub(crate) const CLUSTER_ID: &str = "bGV2YWRhLXRlc3RzLTAwMA";

/// State of the quorum as its leader describes it.
#[derive(Clone, Debug)]
pub struct QuorumState {
    /// Id of the leader.
    pub leader: i32,
    /// Epoch of the quorum.
    pub epoch: i32,
    /// Offset up to which records are committed.
    pub high_watermark: i64,
    /// Log end offsets of the voters, by id.
    pub voters: BTreeMap<i32, i64>,
    /// Log end offsets of the observers, by id.
    pub observers: BTreeMap<i32, i64>,
}

impl QuorumState {
    /// Number of records that an observer has not fetched; none if the leader does not list it.
    pub fn lag(&self, observer: i32) -> Option<i64> {
        Some(self.voters[&self.leader] - self.observers.get(&observer)?)
    }
}

/// The state, if this controller leads.
pub(crate) fn describe(controller: SocketAddr) -> Option<QuorumState> {
    let head = Encoder::default().i16(55).i16(0).i32(7).string("raw").varint(0);
    let topic = head.varint(2).compact_string("__cluster_metadata").varint(2).i32(0).varint(0).varint(0);
    let answer = Connection::try_open(controller).ok()?.try_call(&topic.varint(0).done()).ok()?;
    let mut answer = Decoder::new(&answer);
    // Correlation id, tags; error, topics.
    answer.i32();
    answer.varint();
    if answer.i16() != 0 || answer.varint() != 2 {
        return None;
    }
    answer.compact_string();
    assert_eq!((answer.varint(), answer.i32()), (2, 0), "one partition");
    if answer.i16() != 0 {
        return None;
    }
    let (leader, epoch, high_watermark) = (answer.i32(), answer.i32(), answer.i64());
    let (voters, observers) = (replicas(&mut answer), replicas(&mut answer));
    Some(QuorumState { leader, epoch, high_watermark, voters, observers })
}

fn replicas(answer: &mut Decoder<'_>) -> BTreeMap<i32, i64> {
    let mut replicas = BTreeMap::new();
    for _ in 1..answer.varint() {
        // One node may be listed with several directories: the newest counts.
        let (id, end) = (answer.i32(), answer.i64());
        replicas.entry(id).and_modify(|other: &mut i64| *other = end.max(*other)).or_insert(end);
        answer.varint();
    }
    replicas
}

/// Ids of the brokers in the metadata that this address sends, in order.
pub(crate) fn announced(address: SocketAddr) -> Option<Vec<i32>> {
    let answer = Connection::try_open(address).ok()?.try_call(&raw::metadata("", false)).ok()?;
    Some(brokers(&mut Decoder::new(&answer)))
}

/// Replicas in sync of each partition of a topic, in the metadata that this address sends.
pub(crate) fn in_sync(address: SocketAddr, topic: &str) -> Option<Vec<Vec<i32>>> {
    let answer = Connection::try_open(address).ok()?.try_call(&raw::metadata(topic, false)).ok()?;
    let mut answer = Decoder::new(&answer);
    brokers(&mut answer);
    answer.nullable_string();
    answer.i32();
    assert_eq!(answer.i32(), 1, "the topic");
    answer.i16();
    answer.string();
    answer.i8();
    let partitions = (0..answer.i32()).map(|_| {
        answer.i16();
        answer.i32();
        answer.i32();
        (0..answer.i32()).for_each(|_| _ = answer.i32());
        (0..answer.i32()).map(|_| answer.i32()).collect()
    });
    Some(partitions.collect())
}

/// Reads a Metadata answer to the end of its brokers; their ids in order.
fn brokers(answer: &mut Decoder<'_>) -> Vec<i32> {
    answer.i32();
    answer.i32();
    let count = answer.i32();
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(answer.i32());
        answer.string();
        answer.i32();
        answer.nullable_string();
    }
    ids.sort_unstable();
    ids
}

/// Id of the directory with this number: 16 bytes in URL-safe base64.
pub(crate) fn directory_id(number: i32) -> String {
    format!("bGV2YWRhLWRpcmVjd{number:04}Q")
}

/// Writes the `meta.properties` of a member: its id, and the number of its directory.
pub(crate) fn identify((id, directory): (i32, i32), data: &Path) {
    let directory = directory_id(directory);
    let text = format!("version=1\nnode.id={id}\ncluster.id={CLUSTER_ID}\ndirectory.id={directory}\n");
    fs::write(data.join("meta.properties"), text).expect("a file of the test's own");
}

/// Copies a directory with everything below it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            _ = fs::copy(entry.path(), target).expect("a file is copied");
        }
    }
}
