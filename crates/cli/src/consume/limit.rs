//! The end of consuming: the end of the log at the start of the command, an offset, or a time.

use std::str::FromStr;

use levada_client::{Cluster, Isolation, LATEST, Offsets, Topics};
use levada_terminal::failure::Failure;

use super::start;
use crate::time;

/// Value of `--until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The first offset of each partition that is not printed.
    Offset(i64),
    /// Milliseconds since 1970; printing stops at the first record of this time or later.
    Time(i64),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected an offset or @TIME";
        match text.strip_prefix('@') {
            Some(time) => time::moment(time).map(Self::Time).map_err(|forms| format!("after the @, {forms}")),
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map(Self::Offset).map_err(|_| EXPECTED.to_owned())
            }
            None => Err(EXPECTED.to_owned()),
        }
    }
}

/// `--exit` and `--until`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    exit: bool,
    until: Option<Until>,
}

impl Limit {
    pub(super) fn new(exit: bool, until: Option<Until>) -> Self {
        Self { exit, until }
    }

    /// True if the ends are known or can be looked up: a time in the future has no offset yet.
    pub(super) fn is_due(&self) -> bool {
        match self.until {
            Some(Until::Time(moment)) => self.exit || time::now_ms() >= moment,
            Some(Until::Offset(_)) => true,
            None => self.exit,
        }
    }

    /// True if the ends are ends of logs, which can become shorter, and not an offset of
    /// `--until`.
    pub(super) fn is_of_logs(&self) -> bool {
        self.exit || !matches!(self.until, Some(Until::Offset(_)))
    }

    /// The first offset of each partition that is not to be printed. Call only when
    /// [`Limit::is_due`].
    pub(super) fn ends(
        &self,
        cluster: &mut Cluster,
        topics: &Topics,
        isolation: Isolation,
    ) -> Result<Offsets, Failure> {
        let mut at = |timestamp| start::offsets_at(cluster, topics, timestamp, isolation);
        let until = match self.until {
            None => None,
            Some(Until::Offset(offset)) => Some(start::each(topics, offset)),
            Some(Until::Time(moment)) => Some(start::or_end(&at(moment)?, &at(LATEST)?)),
        };
        match (until, self.exit) {
            (Some(until), false) => Ok(until),
            (None, _) => at(LATEST),
            (Some(until), true) => Ok(nearer(until, &at(LATEST)?)),
        }
    }
}

/// The smaller offset of each partition.
pub(super) fn nearer(mut ends: Offsets, others: &Offsets) -> Offsets {
    for (place, end) in &mut ends {
        *end = (*end).min(others.get(place).copied().unwrap_or(*end));
    }
    ends
}
