//! Start of consuming: a word, an offset, a distance from the end, or a time.

use std::str::FromStr;

use levada_client::{Cluster, EARLIEST, Isolation, LATEST, Offsets, Topics};
use levada_terminal::failure::{Cause, Failure};
use levada_wire::error_code::ErrorCode;

use crate::time;

/// Value of `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Earliest,
    Latest,
    Offset(i64),
    /// This many records before the end, if the log still has them.
    BeforeEnd(i64),
    /// The first record at or after this time, in milliseconds since 1970.
    Time(i64),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected earliest, latest, an offset, -N or @TIME";
        let number = |digits: &str| {
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                digits.parse::<i64>().map_err(|_| EXPECTED.to_owned())
            } else {
                Err(EXPECTED.to_owned())
            }
        };
        match text {
            "earliest" | "start" | "beginning" => Ok(Self::Earliest),
            "latest" | "end" => Ok(Self::Latest),
            _ => match text.split_at_checked(1) {
                Some(("-", rest)) => number(rest).map(Self::BeforeEnd),
                Some(("@", rest)) => {
                    time::moment(rest).map(Self::Time).map_err(|forms| format!("after the @, {forms}"))
                }
                _ => number(text).map(Self::Offset),
            },
        }
    }
}

impl Start {
    /// The first offset to read of each partition that has a leader.
    pub(crate) fn positions(
        self,
        cluster: &mut Cluster,
        topics: &Topics,
        isolation: Isolation,
    ) -> Result<Offsets, Failure> {
        let mut at = |timestamp| offsets_at(cluster, topics, timestamp, isolation);
        match self {
            Self::Earliest => at(EARLIEST),
            Self::Latest => at(LATEST),
            Self::Offset(offset) => {
                in_range(offset, &at(EARLIEST)?, &at(LATEST)?)?;
                Ok(each(topics, offset))
            }
            Self::BeforeEnd(distance) => Ok(before_end(&at(EARLIEST)?, &at(LATEST)?, distance)),
            Self::Time(timestamp) => Ok(or_end(&at(timestamp)?, &at(LATEST)?)),
        }
    }
}

/// The offsets of all partitions at a time.
pub(super) fn offsets_at(
    cluster: &mut Cluster,
    topics: &Topics,
    timestamp: i64,
    isolation: Isolation,
) -> Result<Offsets, Failure> {
    let found = cluster.offsets_at(topics.values(), timestamp, isolation)?;
    Ok(found.into_iter().map(|(place, found)| (place, found.offset)).collect())
}

/// One offset for all partitions.
pub(super) fn each(topics: &Topics, offset: i64) -> Offsets {
    let places = topics.values().flat_map(|topic| topic.leaders.keys().map(|one| (topic.name.clone(), *one)));
    places.map(|place| (place, offset)).collect()
}

/// Fails for the first partition whose log does not hold the offset.
pub(super) fn in_range(offset: i64, starts: &Offsets, ends: &Offsets) -> Result<(), Failure> {
    for ((topic, partition), end) in ends {
        let start = starts.get(&(topic.clone(), *partition)).copied().unwrap_or(0);
        if (start..=*end).contains(&offset) {
            continue;
        }
        let what = format!("{topic}/{partition} does not hold offset {offset}: it holds {start} to {end}");
        let next =
            "-p for the partition that holds it, or -o earliest, -o latest, -o -N for the last N records";
        return Err(Failure::with_next(what, next).because(Cause::Code(ErrorCode::OffsetOutOfRange.code())));
    }
    Ok(())
}

pub(super) fn before_end(starts: &Offsets, ends: &Offsets, distance: i64) -> Offsets {
    let start = |place| starts.get(place).copied().unwrap_or(0);
    ends.iter().map(|(one, end)| (one.clone(), end.saturating_sub(distance).max(start(one)))).collect()
}

/// A partition without a record that late starts at its end.
pub(super) fn or_end(found: &Offsets, ends: &Offsets) -> Offsets {
    let end = |place| ends.get(place).copied().unwrap_or(0);
    found.iter().map(|(one, offset)| (one.clone(), if *offset < 0 { end(one) } else { *offset })).collect()
}
