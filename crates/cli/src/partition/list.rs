//! `levada partition list`: partitions with leaders, replicas and sizes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write;

use clap::ValueEnum;
use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use serde::Serialize;

use crate::layout::{Directories, Layout, Placed, listed};
use crate::moves;
use crate::selection::{self, Selection};
use crate::sizes;

/// List partitions with their leaders, replicas and sizes
///
/// The first replica is the preferred leader. The size is that of the largest replica.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada partition list                         all topics but internal ones
  levada partition list 'logs-*' --sort size
  levada partition list --all --under-replicated
  levada partition list --all --under-min-isr
  levada partition list --all --offline
  levada partition list --all --leader 3
  levada partition list clicks:0,2 --output json | jq '.[].in_sync'")]
pub(crate) struct List {
    /// Topics, partitions or patterns [default: all topics but internal ones]
    #[arg(value_name = "TOPIC[:N,N…]")]
    topics: Vec<Selection>,
    /// Include internal topics
    #[arg(short, long)]
    all: bool,
    /// Only partitions with a replica that is not in sync; new replicas of a move do not count
    #[arg(long)]
    under_replicated: bool,
    /// Only partitions that refuse acks=all: without a leader, or with fewer replicas in sync than
    /// min.insync.replicas
    #[arg(long)]
    under_min_isr: bool,
    /// Only partitions without a leader
    #[arg(long)]
    offline: bool,
    /// Only partitions that are led by another broker than their first replica
    #[arg(long)]
    not_preferred: bool,
    /// Only partitions that this broker leads
    #[arg(long, value_name = "BROKER")]
    leader: Option<i32>,
    /// Only partitions with a replica on this broker
    #[arg(long, value_name = "BROKER")]
    replica: Option<i32>,
    /// Order of the rows; sizes in descending order, offline and lagging partitions first
    #[arg(long, value_name = "COLUMN", default_value = "topic")]
    sort: Order,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Topic,
    Leader,
    Size,
    InSync,
}

/// A partition as programs read it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    topic: String,
    partition: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    in_sync: Vec<i32>,
    offline_replicas: Vec<i32>,
    internal: bool,
    /// Bytes of the largest replica; `None` if none is known.
    bytes: Option<u64>,
}

impl List {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        let chosen = selection::chosen(&self.topics, layout.partitions.keys())?;
        let mut chosen: Vec<&TopicPartition> =
            chosen.into_iter().filter(|place| self.wants(&layout.partitions[*place])).collect();
        if self.under_replicated {
            retain_under_replicated(cluster, &layout, &mut chosen);
        }
        if self.under_min_isr {
            retain_under_min_isr(cluster, &layout, &mut chosen)?;
        }
        let directories = Directories::ask(cluster, layout.serving(), Some(&chosen));
        directories.warn();
        let sizes = directories.sizes();
        let row = |place: &&TopicPartition| {
            let placed = &layout.partitions[*place];
            let of = |broker: &i32| sizes.get(&((*place).clone(), *broker)).copied();
            Row::new(place, placed, placed.replicas.iter().filter_map(of).max())
        };
        let mut rows: Vec<Row> = chosen.iter().map(row).collect();
        self.sort.apply(&mut rows);
        match self.format.format {
            Format::Json => output::json(out, &rows),
            Format::Table => output::table(out, &HEADER, rows.iter().map(Row::cells).collect()),
        }
    }

    fn wants(&self, placed: &Placed) -> bool {
        (self.all || !self.topics.is_empty() || !placed.is_internal)
            && (!self.offline || placed.leader.is_none())
            && (!self.not_preferred || placed.leader != placed.replicas.first().copied())
            && self.leader.is_none_or(|broker| placed.leader == Some(broker))
            && self.replica.is_none_or(|broker| placed.replicas.contains(&broker))
    }
}

/// Asks for the moves in progress only if a replica is not in sync. To users who may not see the
/// moves, new replicas count as others.
fn retain_under_replicated(cluster: &mut Cluster, layout: &Layout, chosen: &mut Vec<&TopicPartition>) {
    chosen.retain(|place| layout.partitions[*place].is_under_replicated(&[]));
    if chosen.is_empty() {
        return;
    }
    let moving = moves::ongoing(cluster).unwrap_or_default();
    chosen.retain(|place| {
        let adding = moving.get(*place).map(|one| one.adding.as_slice()).unwrap_or_default();
        layout.partitions[*place].is_under_replicated(adding)
    });
}

/// Asks only for the settings of topics where a replica is not in sync.
fn retain_under_min_isr(
    cluster: &mut Cluster,
    layout: &Layout,
    chosen: &mut Vec<&TopicPartition>,
) -> Result<(), Failure> {
    // A partition with all replicas in sync has enough for each value of the setting.
    chosen.retain(|place| layout.partitions[*place].refuses_acks_all(usize::MAX));
    let topics: BTreeSet<&str> = chosen.iter().map(|place| place.0.as_str()).collect();
    let least = moves::least_in_sync(cluster, &topics)?;
    let of = |topic: &str| least.get(topic).copied().unwrap_or(1);
    chosen.retain(|place| layout.partitions[*place].refuses_acks_all(of(&place.0)));
    Ok(())
}

const HEADER: [&str; 6] = ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "IN SYNC", "SIZE"];

impl Order {
    /// Sorts rows that are in the order of topics.
    fn apply(self, rows: &mut [Row]) {
        match self {
            Self::Topic => {}
            Self::Leader => rows.sort_by_key(|row| row.leader),
            Self::Size => rows.sort_by_key(|row| Reverse(row.bytes)),
            Self::InSync => rows.sort_by_key(|row| {
                (row.leader.is_some(), Reverse(row.replicas.len().saturating_sub(row.in_sync.len())))
            }),
        }
    }
}

impl Row {
    fn new((topic, partition): &TopicPartition, placed: &Placed, bytes: Option<u64>) -> Self {
        Self {
            topic: topic.clone(),
            partition: *partition,
            leader: placed.leader,
            leader_epoch: placed.leader_epoch,
            replicas: placed.replicas.clone(),
            in_sync: placed.in_sync.clone(),
            offline_replicas: placed.offline.clone(),
            internal: placed.is_internal,
            bytes,
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.topic.clone(),
            self.partition.to_string(),
            output::number(self.leader.map(i64::from)),
            listed(self.replicas.iter().copied()),
            listed(self.in_sync.iter().copied()),
            sizes::shown(self.bytes),
        ]
    }
}

#[cfg(test)]
mod tests;
