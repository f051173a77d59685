//! A broker full of what requests can name: many topics, many groups with positions, and a group
//! with many members. Without them, no request shows what it costs to look at each of them, or at
//! all of them again for each of its entries.

use levada_testing::scaled;

use super::{CROWD, KNOWN};
use crate::raw::{Connection, Decoder, Encoder};

/// Topics of one partition, which have numbers as names.
const TOPICS: usize = 20;
/// Groups with a position in [`KNOWN`], which have numbers as names.
const GROUPS: usize = 100;
/// Number of members of [`CROWD`], a consumer group.
const MEMBERS: usize = 20;

/// One of the numbers above, times the scale of the tests if that is above 1.
fn number(least: usize) -> usize {
    scaled(least).max(least)
}

/// A name that distinct names of requests begin with.
fn name(number: usize) -> String {
    format!("{number:05}")
}

/// Makes the topics, which must not exist.
pub fn make_topics(connection: &mut Connection) {
    let topics = number(TOPICS);
    let mut create = head(19, 2).i32(count(topics));
    for number in 0..topics {
        create = create.string(&name(number)).i32(1).i16(1).i32(0).i32(0);
    }
    let said = connection.call(&create.i32(60_000).i8(0).done());
    let mut said = Decoder::new(&said);
    assert_eq!((said.i32(), said.i32(), said.i32()), (7, 0, count(topics)));
    for _ in 0..topics {
        let topic = said.string();
        assert_eq!((said.i16(), said.nullable_string()), (0, None), "{topic}");
    }
}

/// Commits positions: one for each group, and one for each topic in the group [`KNOWN`] as `member`
/// of a generation. The coordinator must serve.
pub fn commit_positions(connection: &mut Connection, (generation, member): (i32, &str)) {
    for number in 0..number(GROUPS) {
        let commit = head(8, 2).string(&name(number)).i32(-1).string("").i64(-1);
        let commit = commit.i32(1).string(KNOWN).i32(1).i32(0).i64(0).string("");
        let said = connection.call(&commit.done());
        assert_eq!(said.last_chunk(), Some(&[0, 0]), "group {number}");
    }
    let topics = number(TOPICS);
    let mut commit = head(8, 2).string(KNOWN).i32(generation).string(member).i64(-1).i32(count(topics));
    for number in 0..topics {
        commit = commit.string(&name(number)).i32(1).i32(0).i64(0).string("");
    }
    assert_eq!(connection.call(&commit.done()).last_chunk(), Some(&[0, 0]), "positions of {KNOWN}");
}

/// Lets the members of [`CROWD`] join. The coordinator must serve.
pub fn join_crowd(connection: &mut Connection) {
    for number in 0..number(MEMBERS) {
        let beat = head(68, 1).varint(0).compact_string(CROWD).compact_string(&name(number)).i32(0);
        // No instance, no rack; a subscription by name, no expression, assignor and partitions.
        let beat = beat.varint(0).varint(0).i32(300_000).varint(2).compact_string(KNOWN);
        let said = connection.call(&beat.varint(0).varint(0).varint(1).varint(0).done());
        let mut said = Decoder::new(&said);
        assert_eq!((said.i32(), said.varint(), said.i32(), said.i16()), (7, 0, 0, 0), "member {number}");
    }
}

fn head(key: i16, version: i16) -> Encoder {
    Encoder::default().i16(key).i16(version).i32(7).string("raw")
}

fn count(number: usize) -> i32 {
    i32::try_from(number).expect("a small number")
}
