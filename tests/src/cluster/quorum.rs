//! DescribeQuorum, asked of a controller: Kafka's tool would start a JVM for each question.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::raw::{Connection, Decoder, Encoder};

/// State of the quorum as its leader describes it.
#[derive(Clone, Debug)]
pub struct QuorumState {
    /// Id of the leader.
    pub leader: i32,
    /// The leader's epoch.
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
pub(super) fn describe(controller: SocketAddr) -> Option<QuorumState> {
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
