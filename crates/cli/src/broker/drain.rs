//! `levada broker drain`: moves all replicas and leaders to other brokers.

use std::io::Write;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;

use crate::layout::{Directories, Layout};
use crate::moves::MoveArgs;
use crate::planner::Planner;

/// Move all replicas and leaders of a broker to the other brokers
///
/// Prints the plan; --execute carries it out and waits until the broker is empty. Each replica goes
/// to the broker with the fewest replicas, in a rack that the partition does not use yet if there
/// is one. New topics may still get replicas on the broker: set cordoned.log.dirs=* on it first, or
/// stop it after the drain.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada broker drain 3                         shows the plan
  levada broker drain 3 --execute --throttle 50MiB
  levada broker drain 3 --execute --undo back.json     for the return of the broker")]
pub(crate) struct Drain {
    /// Id of the broker
    broker: i32,
    #[command(flatten)]
    pub(super) moves: MoveArgs,
}

/// Number of partitions that an error names.
const NAMED: usize = 5;

impl Drain {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        layout.member(self.broker)?;
        let places: Vec<&TopicPartition> = layout.partitions.keys().collect();
        let directories = Directories::ask(cluster, layout.serving(), Some(&places));
        directories.warn();
        let mut candidates = layout.serving();
        candidates.remove(&self.broker);
        let mut planner = Planner::of_cluster(&layout, &directories, &candidates, |_| true);
        planner.drain(self.broker).map_err(|stuck| self.too_few(&stuck))?;
        self.moves.carry_out(cluster, (&layout, &planner.moves()), out)
    }

    fn too_few(&self, stuck: &[TopicPartition]) -> Failure {
        let named: Vec<String> =
            stuck.iter().take(NAMED).map(|(topic, partition)| format!("{topic}/{partition}")).collect();
        let more = stuck.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} others") };
        Failure::with_next(
            format!(
                "broker {} cannot be drained: no other broker that serves can take a replica of {}{more}",
                self.broker,
                named.join(", "),
            ),
            "start another broker, or move these partitions to fewer brokers: levada partition move --to",
        )
    }
}
