//! `levada partition move`: replicas to other brokers; the moves that take place, and their end.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format};
use serde::Serialize;

use crate::interrupt;
use crate::layout::{Directories, Layout, listed};
use crate::moves::{self, Move, MoveArgs, Ongoing};
use crate::outcomes::Outcomes;
use crate::selection::{self, Selection};
use crate::sizes;

/// Move replicas of partitions to other brokers
///
/// Prints the plan; --execute carries it out and waits until the new replicas are in sync. Without
/// topics and options, lists the partitions that move now. Each partition of a topic gets the same
/// brokers, in a rotated order, so that all of them lead; a partition that is listed gets the order
/// as given. The first broker becomes the leader.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada partition move                         partitions that move now
  levada partition move clicks --to 1,2,3       shows the plan
  levada partition move clicks:0 --to 3,1 --execute --throttle 50MiB --undo back.json
  levada partition move --plan plan.json --execute     also a plan of kafka-reassign-partitions
  levada partition move --follow                waits for the end of all moves
  levada partition move 'logs-*' --cancel       new replicas go again")]
pub(crate) struct Relocate {
    /// Topics, partitions or patterns
    #[arg(value_name = "TOPIC[:N,N…]")]
    topics: Vec<Selection>,
    /// Brokers of each partition, the preferred leader first
    #[arg(
        long,
        value_name = "BROKER,…",
        value_delimiter = ',',
        requires = "topics",
        conflicts_with = "plan"
    )]
    to: Vec<i32>,
    /// File with a plan in JSON; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "topics")]
    plan: Option<PathBuf>,
    /// Wait until all moves have ended, and remove the throttle of interrupted commands
    #[arg(long, conflicts_with_all = ["topics", "to", "plan", "execute"])]
    follow: bool,
    /// Cancel moves of these topics, or of all with --all
    #[arg(long, conflicts_with_all = ["to", "plan", "follow", "execute"])]
    cancel: bool,
    /// Every partition that moves
    #[arg(long, requires = "cancel", conflicts_with = "topics")]
    all: bool,
    #[command(flatten)]
    moves: MoveArgs,
}

/// A partition that moves, as programs read it.
#[derive(Debug, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
    adding: Vec<i32>,
    removing: Vec<i32>,
}

impl Relocate {
    /// Handles signals from now on, if the command waits for moves.
    pub(super) fn catch_signals(&self) -> Result<(), Failure> {
        if self.follow { interrupt::catch() } else { self.moves.catch_signals() }
    }

    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        if self.cancel {
            return self.cancel(cluster, out);
        }
        if self.topics.is_empty() && self.plan.is_none() {
            return self.show(cluster, out);
        }
        if self.plan.is_none() && self.to.is_empty() {
            let what = "--to BROKER,… names the new brokers of these partitions".to_owned();
            return Err(Failure::Usage(what));
        }
        let layout = Layout::ask(cluster)?;
        let mut planned = match &self.plan {
            Some(path) => moves::read_plan(path, &layout)?,
            None => self.planned(&layout)?,
        };
        add_sizes(cluster, &layout, &mut planned);
        self.moves.carry_out(cluster, (&layout, &planned), out)
    }

    pub(super) fn planned(&self, layout: &Layout) -> Result<Vec<Move>, Failure> {
        let chosen = selection::chosen(&self.topics, layout.partitions.keys())?;
        let one = |place: &TopicPartition| {
            let is_listed = self.topics.iter().any(|one| one.lists_partitions() && one.contains(place));
            let mut to = self.to.clone();
            if !is_listed {
                to.rotate_left(usize::try_from(place.1).unwrap_or(0) % self.to.len());
            }
            let from = layout.partitions[place].replicas.clone();
            Move { topic: place.0.clone(), partition: place.1, from, to, bytes: None }
        };
        Ok(chosen.into_iter().map(one).filter(|one| one.from != one.to).collect())
    }

    /// Lists the partitions that move, and waits for them with `--follow`.
    fn show(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let ongoing = moves::ongoing(cluster)?;
        let row = |(place, one): (&TopicPartition, &Ongoing)| Row {
            topic: place.0.clone(),
            partition: place.1,
            replicas: one.target(),
            adding: one.adding.clone(),
            removing: one.removing.clone(),
        };
        let rows: Vec<Row> = ongoing.iter().map(row).collect();
        match self.moves.format.format {
            Format::Json => output::json(out, &rows)?,
            Format::Table if rows.is_empty() => tell!("no partition moves"),
            Format::Table => output::table(out, &HEADER, rows.iter().map(Row::cells).collect())?,
        }
        out.flush()?;
        let watched = moves::of_ongoing(&ongoing);
        if !self.follow {
            if !watched.is_empty()
                && let Some(left) = moves::left_bytes(cluster, &watched)?
            {
                tell!("{} left to copy; --follow shows the progress", sizes::shown(Some(left)));
            }
            return Ok(());
        }
        let ended = if watched.is_empty() { Ok(()) } else { moves::watch(cluster, &watched) };
        if matches!(ended, Err(Failure::Interrupted)) {
            return ended;
        }
        let layout = Layout::ask(cluster)?;
        moves::remove_leftovers(cluster, &layout).and(ended)
    }

    fn cancel(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        if self.topics.is_empty() && !self.all {
            let what = "--cancel needs topics, or --all for every partition that moves".to_owned();
            return Err(Failure::Usage(what));
        }
        let ongoing: BTreeMap<TopicPartition, Ongoing> = moves::ongoing(cluster)?;
        let mut outcomes = Outcomes::new(self.moves.format);
        let is_meant =
            |place: &&TopicPartition| self.all || self.topics.iter().any(|one| one.contains(place));
        let places: Vec<TopicPartition> = ongoing.keys().filter(is_meant).cloned().collect();
        if places.is_empty() {
            tell!("no such partition moves");
        }
        for (place, done) in places.iter().zip(moves::cancel(cluster, &places)) {
            let name = format!("{}/{}", place.0, place.1);
            let mut back = ongoing[place].origin();
            back.sort_unstable();
            let back = listed(back);
            outcomes.note(("partition", &name), done, &format!("cancelled: {name} stays on brokers {back}"));
        }
        if !places.is_empty() {
            tell!(
                "note: the replicas may have another order than before the move, and so another preferred leader; \
                 the plan of --undo restores it"
            );
        }
        let layout = Layout::ask(cluster)?;
        let removed = moves::remove_leftovers(cluster, &layout);
        outcomes.end(out).and(removed)
    }
}

const HEADER: [&str; 5] = ["TOPIC", "PARTITION", "MOVES TO", "ADDING", "REMOVING"];

impl Row {
    fn cells(&self) -> Vec<String> {
        let lists = [&self.replicas, &self.adding, &self.removing].map(|list| listed(list.iter().copied()));
        [self.topic.clone(), self.partition.to_string()].into_iter().chain(lists).collect()
    }
}

/// Stores the size of the largest replica in each move.
fn add_sizes(cluster: &mut Cluster, layout: &Layout, planned: &mut [Move]) {
    let places: Vec<TopicPartition> = planned.iter().map(Move::place).collect();
    let asked: Vec<&TopicPartition> = places.iter().collect();
    let directories = Directories::ask(cluster, layout.serving(), Some(&asked));
    directories.warn();
    let known = directories.sizes();
    for one in planned {
        let place = one.place();
        one.bytes = one.from.iter().filter_map(|id| known.get(&(place.clone(), *id)).copied()).max();
    }
}
