//! Share groups: brokers with short limits for them, and members that do what a test says.

pub mod ledger;
pub mod letters;
mod work;

use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::tool::Conversation;
use crate::{Node, Tool};

pub use self::work::{GROUP, LIMIT_OF_WORK, MARGIN_US, TOPIC, WORK_SETTINGS, Workers, await_no_lag, writer};

const LIMIT: Duration = Duration::from_secs(120);
/// Duration of one poll, ms.
const POLL_MS: u64 = 200;
/// Polls without a record after which no further record is expected.
const QUIET_POLLS: usize = 4;

/// Shortest duration of a lock that a group can have, in milliseconds.
pub const SHORTEST_LOCK_MS: u64 = 1_000;

/// Configuration of brokers whose share groups assign partitions immediately, with short locks.
pub const OPTIONS: [(&str, &str); 10] = [
    ("share.coordinator.state.topic.num.partitions", "3"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.share.min.record.lock.duration.ms", "1000"),
    ("group.share.min.session.timeout.ms", "3000"),
    ("group.share.session.timeout.ms", "3000"),
    ("group.share.min.heartbeat.interval.ms", "300"),
    ("group.share.heartbeat.interval.ms", "300"),
    ("group.share.assignment.interval.ms", "0"),
    ("offsets.topic.num.partitions", "3"),
];

/// A broker with [`OPTIONS`], not started.
pub fn node() -> Node {
    OPTIONS.iter().fold(Node::new(), |node, (key, value)| node.option(key, value))
}

/// A record as a member gets it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Delivery {
    /// Number of the partition.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
    /// Number of this delivery of the record, from 1.
    pub count: i16,
    /// Value of the record.
    pub value: String,
}

impl Delivery {
    fn parse(word: &str) -> Self {
        let parse = || {
            let (place, value) = word.split_once('=')?;
            let mut parts = place.split(':');
            let partition = parts.next()?.parse().ok()?;
            let offset = parts.next()?.parse().ok()?;
            let count = parts.next()?.parse().ok()?;
            Some(Self { partition, offset, count, value: value.to_owned() })
        };
        parse().unwrap_or_else(|| panic!("`{word}` is no delivery"))
    }

    /// Partition and offset, as commands name them.
    pub fn place(&self) -> String {
        format!("{}:{}", self.partition, self.offset)
    }
}

/// Values of deliveries, sorted.
pub fn values(deliveries: &[Delivery]) -> Vec<&str> {
    let mut values: Vec<&str> = deliveries.iter().map(|delivery| delivery.value.as_str()).collect();
    values.sort_unstable();
    values
}

/// Values `PREFIX-N` for each number of the range.
pub fn numbered(prefix: impl Display, numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| format!("{prefix}-{number:03}")).collect::<Vec<_>>().join(" ")
}

/// A process with members of share groups and with producers. Dropping it kills it.
pub struct Members(Conversation);

impl Members {
    /// Members that reach a cluster by these addresses.
    pub fn of(bootstrap: &str) -> Self {
        Self(Tool::own_java("ShareMembers").arg(bootstrap).spawn())
    }

    /// Gives a command; an error is the line that the program answers, class first.
    pub fn try_run(&mut self, command: &str) -> Result<String, String> {
        self.0.say(command);
        let answer = self.0.line(LIMIT);
        match answer.strip_prefix("! ") {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }

    /// Gives a command, which must succeed.
    pub fn run(&mut self, command: &str) -> String {
        self.try_run(command).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Records that arrive in one poll of this time.
    pub fn poll(&mut self, name: &str, milliseconds: u64) -> Vec<Delivery> {
        let answer = self.run(&format!("poll {name} {milliseconds}"));
        answer.split_whitespace().map(Delivery::parse).collect()
    }

    /// The records of the first poll that has any.
    pub fn await_poll(&mut self, name: &str) -> Vec<Delivery> {
        let start = Instant::now();
        loop {
            let found = self.poll(name, POLL_MS);
            if !found.is_empty() {
                return found;
            }
            assert!(start.elapsed() < LIMIT, "{name}: no record within {LIMIT:?}");
        }
    }

    /// Polls until this number of records has arrived, each of which the member acknowledges so.
    pub fn take(&mut self, name: &str, count: usize, acknowledgement: &str) -> Vec<Delivery> {
        self.take_each(name, count, |_| acknowledgement)
    }

    /// Like `take`, with an acknowledgement that depends on the record.
    pub fn take_each<'a>(
        &mut self,
        name: &str,
        count: usize,
        acknowledgement: impl Fn(&Delivery) -> &'a str,
    ) -> Vec<Delivery> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let polled = self.await_poll(name);
            for deliveries in polled.chunk_by(|one, next| acknowledgement(one) == acknowledgement(next)) {
                self.acknowledge(name, acknowledgement(&deliveries[0]), deliveries);
            }
            taken.extend(polled);
            assert_eq!(self.commit(name), Vec::<String>::new(), "{name}");
        }
        taken
    }

    /// Acknowledges deliveries, without sending the acknowledgement yet.
    pub fn acknowledge(&mut self, name: &str, kind: &str, deliveries: &[Delivery]) {
        let places: Vec<String> = deliveries.iter().map(Delivery::place).collect();
        self.run(&format!("acknowledge {name} {kind} {}", places.join(" ")));
    }

    /// Sends the acknowledgements; the partitions with another result than success.
    pub fn commit(&mut self, name: &str) -> Vec<String> {
        let answer = self.run(&format!("commit {name}"));
        answer.split_whitespace().filter(|word| !word.ends_with("=ok")).map(str::to_owned).collect()
    }

    /// Fails if the member gets a record, except the one that a last poll returns.
    pub fn assert_quiet(&mut self, name: &str) {
        for _ in 0..QUIET_POLLS {
            assert_eq!(self.poll(name, POLL_MS), vec![], "{name}");
        }
    }

    /// Kills the process: its members end without leaving their groups.
    pub fn kill(self) {
        self.0.kill();
    }
}
