//! `levada partition balance`: a plan that evens replicas, bytes and leaders over brokers.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format};

use crate::kafka_error;
use crate::layout::{Directories, Layout};
use crate::moves::MoveArgs;
use crate::planner::{Load, Planner};
use crate::selection::{self, Selection};
use crate::sizes;

/// Even replicas, bytes and leaders over brokers and racks, with few bytes to copy
///
/// Prints the load of each broker before and after, and the plan; --execute carries it out. Then
/// the numbers of replicas and of preferred leaders differ by at most one, and bytes by about 10 %
/// from the mean, as far as racks and the sizes of partitions allow. Each partition keeps its
/// number of replicas, and has replicas in as many racks as before or more. Fenced brokers get
/// nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada partition balance                      shows the plan
  levada partition balance --execute --throttle 50MiB --undo back.json
  levada partition balance --leaders            changes the order of replicas alone: no copies
  levada partition balance 'logs-*'             moves replicas of these topics alone")]
pub(crate) struct Balance {
    /// Topics, partitions or patterns that may move; the others count as load [default: all]
    #[arg(value_name = "TOPIC[:N,N…]")]
    topics: Vec<Selection>,
    /// Even the leaders alone: no replica moves
    #[arg(long)]
    leaders: bool,
    #[command(flatten)]
    pub(super) moves: MoveArgs,
}

impl Balance {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        let mut directories = Directories::ask(cluster, layout.serving(), None);
        if let Some((broker, failure)) = directories.unknown.pop_first() {
            let is_refusal = kafka_error::is_refusal(&failure);
            let failure = failure.within(&format!("the sizes on broker {broker} are not known"));
            let next = "retry when the broker responds; levada broker list";
            return Err(if is_refusal { failure } else { failure.try_next(next) });
        }
        selection::chosen(&self.topics, layout.partitions.keys())?;
        let may_move = |place: &TopicPartition| {
            self.topics.is_empty() || self.topics.iter().any(|one| one.contains(place))
        };
        let mut planner = Planner::of_cluster(&layout, &directories, &layout.serving(), may_move);
        let before = planner.loads().clone();
        if self.leaders {
            planner.even_leaders()
        } else {
            planner.balance()
        }
        let moves = planner.moves();
        if self.moves.format.format == Format::Table {
            print(out, &before, planner.loads())?;
            writeln!(out)?;
            out.flush()?;
        }
        self.moves.carry_out(cluster, (&layout, &moves), out)
    }
}

/// Prints the load of each broker before and after the plan.
fn print(
    out: &mut dyn Write,
    before: &BTreeMap<i32, Load>,
    after: &BTreeMap<i32, Load>,
) -> Result<(), Failure> {
    let row = |(id, old): (&i32, &Load)| {
        let new = after.get(id).copied().unwrap_or_default();
        let numbers = [(old.leaders, new.leaders), (old.replicas, new.replicas)];
        let numbers = numbers.map(|(old, new)| change(&old.to_string(), &new.to_string()));
        let bytes = [old.bytes, new.bytes].map(|bytes| sizes::shown(Some(bytes)));
        let bytes = change(&bytes[0], &bytes[1]);
        [id.to_string()].into_iter().chain(numbers).chain([bytes]).collect()
    };
    output::table(out, &["BROKER", "LEADERS", "REPLICAS", "SIZE"], before.iter().map(row).collect())
}

fn change(old: &str, new: &str) -> String {
    if old == new { old.to_owned() } else { format!("{old} to {new}") }
}
