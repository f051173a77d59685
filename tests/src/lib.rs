//! Support for the black-box tests: it starts the release binary as a user would, runs real clients
//! against it, and depends on none of the crates inside.
//!
//! With `LEVADA_TEST_NODE=kafka` the same suites run against a real Kafka, which shows that a suite
//! expects Kafka's behaviour; checks of promises of Levada alone are then omitted.

pub mod browser;
pub mod cluster;
pub mod corpus;
pub mod files;
pub mod gaps;
pub mod hostile;
pub mod http;
pub mod internal;
pub mod java_log;
pub mod journal;
pub mod lab;
pub mod ledger;
pub mod load;
pub mod node;
pub mod paths;
pub mod pki;
pub mod process;
pub mod prometheus;
pub mod quorum;
pub mod raw;
pub mod registry;
pub mod replicas;
pub mod share;
pub mod shell;
pub mod sick_store;
pub mod sickness;
pub mod streams;
pub mod suite;
pub mod tiers;
pub mod tool;
pub mod trace;
pub mod transcript;
pub mod wall_clock;
pub mod words;

pub use cluster::Cluster;
pub use node::Node;
pub use tool::Tool;

use std::io::Write;
use std::time::{Duration, Instant};

/// Repeats `question` until it has a response. Panics after `limit`, with the name of the expected
/// event.
pub fn await_some<T>(what: &str, limit: Duration, mut question: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(start.elapsed() < limit, "still waiting after {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reports on standard error, past the test harness, which captures the rest, that this machine
/// cannot run a test or a part of it. Panics if `CI` is `true`: the machine of CI can run all of
/// them.
pub fn not_run(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let line = format!("skipped: {test}: {}", reason.trim_end());
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!is_ci, "{line} (with CI=true every test has to run)");
    let _ = writeln!(std::io::stderr(), "{line}");
}
