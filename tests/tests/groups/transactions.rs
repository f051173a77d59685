//! A transactional producer continues through two crashes of the broker; readers of committed
//! records see the records that it committed, each once, and nothing that it aborted.
//!
//! Suite: short; 6 s; needs python
//! Soak: controllers 3

use std::time::Duration;

use levada_testing::seed;
use levada_tests::{Node, Tool};

const PARTITIONS: &str = "3";
const ROUNDS: &str = "60";
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn committed_records_and_no_others_survive_crashes() {
    let mut node = Node::started();
    Tool::python("topics.py").args([&node.bootstrap(), "ledger", PARTITIONS]).run();
    let seed = seed().to_string();
    let mut tool = Tool::python("transactions.py");
    let mut client = tool.args([&node.bootstrap(), "ledger", PARTITIONS, ROUNDS, &seed]).spawn();
    for crash_at in ["15", "40"] {
        while client.line(LIMIT) != crash_at {}
        node.kill();
        node.start();
    }
    let said = client.finish(LIMIT);
    println!("{}", said.last().expect("a summary"));
    node.stop();
}
