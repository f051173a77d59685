//! Where consuming starts: a word, an offset, a distance from the end, or a time.

use std::{collections::BTreeMap, str::FromStr};

use crate::{
    cluster::{Cluster, EARLIEST, LATEST, Topic},
    failure::Failure,
    time,
};

/// `-o` as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Earliest,
    Latest,
    Offset(i64),
    /// This many records before the end, if the log still has them.
    BeforeEnd(i64),
    /// The first record at or after this time, in milliseconds since 1970.
    Time(i64),
}

impl FromStr for Start {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected earliest, latest, an offset, -N or @TIME";
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<i64>().map_err(|_| EXPECTED),
            false => Err(EXPECTED),
        };
        match text {
            "earliest" | "start" | "beginning" => Ok(Self::Earliest),
            "latest" | "end" => Ok(Self::Latest),
            _ => match text.split_at_checked(1) {
                Some(("-", rest)) => number(rest).map(Self::BeforeEnd),
                Some(("@", rest)) => time::moment(rest).map(Self::Time).map_err(|_| EXPECTED),
                _ => number(text).map(Self::Offset),
            },
        }
    }
}

impl Start {
    /// The first offset to read of each partition.
    pub(super) fn positions(
        self,
        cluster: &mut Cluster,
        topic: &Topic,
    ) -> Result<BTreeMap<i32, i64>, Failure> {
        let mut at =
            |timestamp| cluster.offsets(topic, &topic.leaders.keys().map(|one| (*one, timestamp)).collect());
        match self {
            Self::Earliest => at(EARLIEST),
            Self::Latest => at(LATEST),
            Self::Offset(offset) => Ok(topic.leaders.keys().map(|one| (*one, offset)).collect()),
            Self::BeforeEnd(distance) => {
                let (starts, ends) = (at(EARLIEST)?, at(LATEST)?);
                Ok(before_end(&starts, &ends, distance))
            }
            Self::Time(timestamp) => {
                let (found, ends) = (at(timestamp)?, at(LATEST)?);
                Ok(or_end(&found, &ends))
            }
        }
    }
}

pub(super) fn before_end(
    starts: &BTreeMap<i32, i64>,
    ends: &BTreeMap<i32, i64>,
    distance: i64,
) -> BTreeMap<i32, i64> {
    let start = |partition| starts.get(partition).copied().unwrap_or(0);
    ends.iter().map(|(one, end)| (*one, end.saturating_sub(distance).max(start(one)))).collect()
}

/// A partition without a record that late starts at its end.
pub(super) fn or_end(found: &BTreeMap<i32, i64>, ends: &BTreeMap<i32, i64>) -> BTreeMap<i32, i64> {
    let end = |partition| ends.get(partition).copied().unwrap_or(0);
    found.iter().map(|(one, offset)| (*one, if *offset < 0 { end(one) } else { *offset })).collect()
}
