//! `levada partition elect`: elections of leaders.

use std::io::Write;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output::FormatArgs;

use crate::layout::{Layout, Placed};
use crate::moves::{self, Election};
use crate::outcomes::{Outcome, Outcomes};
use crate::question;
use crate::selection::{self, Selection};

/// Elect leaders: the preferred ones, or any replica of partitions without a leader
///
/// The preferred leader is the first replica. An unclean election takes a replica that may lack
/// records: they are lost. Use it if no replica in sync will return.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada partition elect --all                  preferred leaders everywhere
  levada partition elect clicks 'logs-*'
  levada partition elect clicks:3 --unclean     its records may be lost
  levada partition elect --all --dry-run")]
pub(crate) struct Elect {
    /// Topics, partitions or patterns
    #[arg(value_name = "TOPIC[:N,N…]", required_unless_present = "all")]
    topics: Vec<Selection>,
    /// Every partition
    #[arg(long, conflicts_with_all = ["topics", "unclean"])]
    all: bool,
    /// Let a replica lead that is not in sync, of partitions without a leader: records can be lost
    #[arg(long)]
    unclean: bool,
    /// List the partitions that need an election, without one
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

impl Elect {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        let chosen = selection::chosen(&self.topics, layout.partitions.keys())?;
        let needs = |place: &&TopicPartition| self.is_needed(&layout.partitions[*place]);
        let places: Vec<TopicPartition> = chosen.into_iter().filter(needs).cloned().collect();
        let mut outcomes = Outcomes::new(self.format);
        if places.is_empty() {
            let leads =
                if self.unclean { "each partition has a leader" } else { "all preferred replicas lead" };
            tell!("no election is needed: {leads}");
            return outcomes.end(out);
        }
        if self.dry_run {
            for (topic, partition) in &places {
                let name = format!("{topic}/{partition}");
                outcomes.add(("partition", &name), Outcome::Possible, &format!("{name} needs an election"));
            }
            return outcomes.end(out);
        }
        if self.unclean {
            let listed: Vec<String> =
                places.iter().map(|(topic, partition)| format!("{topic}/{partition}")).collect();
            let asked = format!("accept the loss of records of {}", listed.join(", "));
            self.question.ask(&asked, "no leader was elected")?;
        }
        let election = if self.unclean { Election::Unclean } else { Election::Preferred };
        for ((topic, partition), elected) in moves::elect(cluster, election, &places)? {
            let name = format!("{topic}/{partition}");
            match elected {
                Ok(true) => {
                    // The controller chooses the leader of an unclean election.
                    let preferred = layout.partitions.get(&(topic, partition));
                    let preferred = preferred.and_then(|placed| placed.replicas.first());
                    let said = match preferred.filter(|_| !self.unclean) {
                        Some(broker) => format!("{name} has a new leader: broker {broker}"),
                        None => format!("{name} has a new leader"),
                    };
                    outcomes.add(("partition", &name), Outcome::Done, &said);
                }
                Ok(false) => {
                    let said = format!("{name} needs no election");
                    outcomes.add(("partition", &name), Outcome::Unchanged, &said);
                }
                Err(failure) => outcomes.fail(("partition", &name), failure),
            }
        }
        outcomes.end(out)
    }

    fn is_needed(&self, placed: &Placed) -> bool {
        if self.unclean { placed.leader.is_none() } else { placed.leader != placed.replicas.first().copied() }
    }
}
