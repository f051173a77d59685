//! Streams groups: brokers with short limits for them, and an application that joins payments with
//! orders and sums them by region and window.

mod report;
mod work;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rand::RngExt;
use rand::rngs::StdRng;

use crate::{Node, Tool};

pub use self::work::{Applications, Untold, described};

/// Name of the application and of its group.
pub const APPLICATION: &str = "paid-orders";

/// Topics that the application reads and writes.
pub const TOPICS: [&str; 3] = ["orders", "payments", SUMS];
const SUMS: &str = "sums";

/// Configuration of brokers whose streams groups notice a dead member soon.
pub const OPTIONS: [(&str, &str); 7] = [
    ("group.streams.min.session.timeout.ms", "1000"),
    ("group.streams.session.timeout.ms", "2000"),
    ("group.streams.min.heartbeat.interval.ms", "200"),
    ("group.streams.heartbeat.interval.ms", "200"),
    ("group.streams.initial.rebalance.delay.ms", "200"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "300"),
    ("offsets.topic.num.partitions", "3"),
];

/// Settings of applications whose transactions end soon after a kill.
pub const SETTINGS: [&str; 2] = ["group.protocol=streams", "producer.transaction.timeout.ms=3000"];

const REGIONS: [&str; 4] = ["north", "east", "south", "west"];
/// Time between an order and its payment that still pays it, in milliseconds.
const JOIN_MS: i64 = 5_000;
/// Length of a window, in milliseconds.
const WINDOW_MS: i64 = 10_000;

/// A broker with short limits, not started.
pub fn node() -> Node {
    OPTIONS.iter().fold(Node::new(), |node, (key, value)| node.option(key, value))
}

/// The application that sums, as an instance that keeps its state in this directory.
pub fn application(bootstrap: &str, state: &Path) -> Tool {
    application_at("OFF", bootstrap, state)
}

/// The application with its log from this level on.
fn application_at(level: &str, bootstrap: &str, state: &Path) -> Tool {
    let mut tool = Tool::own_java_at(level, "StreamsGroups");
    tool.args([bootstrap, &state.display().to_string(), APPLICATION]).args(SETTINGS);
    tool
}

/// The process that writes the records of its standard input.
pub fn records_writer(bootstrap: &str) -> Tool {
    let mut tool = Tool::own_java("Records");
    tool.arg(bootstrap);
    tool
}

/// Orders and payments that were written.
pub struct Payments {
    random: StdRng,
    /// Time of the first record, in milliseconds: a start of windows. It is recent, because topics
    /// delete old records in a long run.
    first_ms: i64,
    next: u32,
    /// Number of payments that have an order.
    paid: usize,
    /// Sums of the payments by region and window.
    sums: BTreeMap<String, i64>,
}

impl Payments {
    /// A state without payments.
    pub fn new(random: StdRng) -> Self {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis();
        let now_ms = i64::try_from(now_ms).expect("milliseconds");
        let first_ms = now_ms - now_ms % WINDOW_MS;
        Self { random, first_ms, next: 0, paid: 0, sums: BTreeMap::new() }
    }

    /// Draws an order and its payment: two lines for the writer, in any order.
    pub fn pair(&mut self) -> [String; 2] {
        let number = self.next;
        self.next += 1;
        let ordered = self.first_ms + self.random.random_range(0..60_000);
        // Some payments are too early or too late.
        let paid = ordered + self.random.random_range(-6_000..=6_000);
        let region = REGIONS[self.random.random_range(0..REGIONS.len())];
        let amount: i64 = self.random.random_range(1..1_000);
        if (paid - ordered).abs() <= JOIN_MS {
            self.paid += 1;
            let latest = paid.max(ordered);
            let start = latest - latest % WINDOW_MS;
            *self.sums.entry(format!("{region}@{}", start / 1_000)).or_default() += amount;
        }
        let mut lines =
            [format!("orders {number} {region} {ordered}"), format!("payments {number} {amount} {paid}")];
        if self.random.random_bool(0.5) {
            lines.reverse();
        }
        lines
    }

    /// Number of sums that the application writes: one for each payment that has an order.
    pub fn paid(&self) -> usize {
        self.paid
    }

    /// Fails unless each payment was added once.
    pub fn assert_summed(&self, sums: &[(String, i64)]) {
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        for (key, sum) in sums {
            let before = last.insert(key.clone(), *sum).unwrap_or_default();
            assert!(*sum > before, "{key}: {sum} after {before}");
        }
        assert_eq!(last, self.sums);
        assert_eq!(sums.len(), self.paid);
    }
}

/// The sums as a reader of committed records sees them; those of one key in order.
pub fn sums(bootstrap: &str) -> Vec<(String, i64)> {
    let said = reader(bootstrap).run().stdout;
    let sum = |line: &str| {
        let (key, sum) = line.split_once(' ')?;
        Some((key.to_owned(), sum.parse().ok()?))
    };
    said.lines().map(|line| sum(line).unwrap_or_else(|| panic!("a key and a sum: {line}"))).collect()
}

/// Number of sums that a reader gets to, which are not all of them if a broker is absent.
pub fn summed(bootstrap: &str) -> usize {
    reader(bootstrap).outcome().1.stdout.lines().count()
}

fn reader(bootstrap: &str) -> Tool {
    let mut kcat = Tool::kcat();
    kcat.args(["-C", "-b", bootstrap, "-t", SUMS, "-e", "-q"]);
    kcat.args(["-X", "isolation.level=read_committed", "-f", "%k %s\n"]);
    kcat
}
