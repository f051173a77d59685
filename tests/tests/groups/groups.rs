//! A consumer group of three librdkafka members loses one, gains one, and delivers every record;
//! what it has committed outlives the broker's restart.
//!
//! Suite: short; 9 s; needs python
//! Soak: controllers 3

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use levada_tests::journal::{self, Entry};
use levada_tests::tool::Conversation;
use levada_tests::{Node, Tool, await_some};

const PARTITIONS: usize = 6;
const LIMIT: Duration = Duration::from_secs(60);

struct Group<'a> {
    node: &'a Node,
    journals: Vec<PathBuf>,
}

impl Group<'_> {
    fn join(&mut self) -> Conversation {
        let journal = self.node.scratch().join(format!("member-{}", self.journals.len()));
        let mut tool = Tool::python("member.py");
        tool.args([&self.node.bootstrap(), "trio", "shared"]).arg(journal.display().to_string());
        self.journals.push(journal);
        tool.spawn()
    }

    /// Entries that all members together have read so far.
    fn read(&self) -> Vec<Entry> {
        let written = self.journals.iter().filter(|journal| journal.exists());
        written.flat_map(|journal| journal::read(journal)).collect()
    }

    fn distinct(&self) -> usize {
        let read = self.read();
        read.iter().map(|entry| (entry.partition, entry.number)).collect::<HashSet<_>>().len()
    }
}

fn fill(node: &Node, first: usize, count: usize) {
    let mut tool = Tool::python("fill.py");
    tool.args([&node.bootstrap(), "shared", &PARTITIONS.to_string()]);
    tool.arg(first.to_string()).arg(count.to_string()).run();
}

/// Waits until the member has been given `wanted` partitions, or any number above 0 if that is
/// `None`.
fn await_assignment(member: &mut Conversation, wanted: Option<usize>) -> usize {
    await_some("an assignment", LIMIT, || {
        let line = member.line_now()?;
        let count = line.strip_prefix("assigned ")?.parse().expect("a number");
        (wanted.is_none_or(|wanted| wanted == count) && count > 0).then_some(count)
    })
}

#[test]
fn group_rebalances_after_kill_and_rejoin() {
    let mut node = Node::new().option("group.initial.rebalance.delay.ms", "0");
    node.start();
    Tool::python("topics.py").args([&node.bootstrap(), "shared", &PARTITIONS.to_string()]).run();
    fill(&node, 0, 2_000);

    let mut group = Group { node: &node, journals: Vec::new() };
    let mut members: Vec<Conversation> = (0..3).map(|_| group.join()).collect();
    for member in &mut members {
        await_assignment(member, Some(2));
    }
    await_some("the first records", LIMIT, || (group.distinct() > 3_000).then_some(()));
    members.remove(0).kill();
    fill(&node, 2_000, 2_000);
    for member in &mut members {
        await_assignment(member, Some(3));
    }
    members.push(group.join());
    await_assignment(members.last_mut().expect("a member"), Some(2));
    fill(&node, 4_000, 1_000);
    await_some("every record", LIMIT, || (group.distinct() == PARTITIONS * 5_000).then_some(()));
    println!(
        "{} records read, {} of them once more",
        group.distinct(),
        group.read().len() - group.distinct()
    );
    for member in &mut members {
        member.say("leave");
    }
    for member in members {
        member.finish(LIMIT);
    }

    // Entries read were committed: after a restart nothing old comes again, and everything new
    // does.
    node.restart();
    fill(&node, 5_000, 10);
    let mut group = Group { node: &node, journals: Vec::new() };
    let mut late = group.join();
    assert_eq!(await_assignment(&mut late, None), PARTITIONS);
    await_some("the new records", LIMIT, || (group.distinct() == PARTITIONS * 10).then_some(()));
    late.say("leave");
    late.finish(LIMIT);
    let old = group.read().into_iter().filter(|entry| entry.number < 5_000).count();
    assert_eq!(old, 0, "committed records came again");
    node.stop();
}
