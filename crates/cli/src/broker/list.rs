//! `levada broker list`: the brokers of the cluster, with their leaders, replicas and bytes.

use std::cmp::Reverse;
use std::io::Write;

use clap::ValueEnum;
use levada_client::Cluster;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use serde::Serialize;

use crate::layout::{Directories, Layout};
use crate::sizes;

/// List the brokers: address, rack, state, and the partitions that each of them leads and holds
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada broker list
  levada broker list --sort bytes
  levada broker list --output json | jq '.[] | select(.fenced) | .id'")]
pub(crate) struct List {
    /// Order of the rows; numbers of partitions and bytes in descending order
    #[arg(long, value_name = "COLUMN", default_value = "id")]
    sort: Order,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Id,
    Rack,
    Leaders,
    Replicas,
    OutOfSync,
    Bytes,
}

/// A broker in the JSON output.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) id: i32,
    pub(super) host: String,
    pub(super) port: i32,
    pub(super) rack: Option<String>,
    /// `None` if the broker does not report it: DescribeCluster before version 2.
    pub(super) fenced: Option<bool>,
    /// Number of partitions that it leads.
    pub(super) leaders: usize,
    /// Number of partitions with a replica on the broker.
    pub(super) replicas: usize,
    /// Number of the broker's replicas that are not in sync.
    pub(super) out_of_sync: usize,
    /// Bytes of its replicas; `None` if it does not report them.
    pub(super) bytes: Option<u64>,
    /// Free bytes of its directories.
    pub(super) free_bytes: Option<u64>,
}

impl List {
    pub(crate) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        let directories = Directories::ask(cluster, layout.serving(), None);
        directories.warn();
        let mut rows: Vec<Row> =
            layout.brokers.keys().map(|id| Row::new(*id, &layout, &directories)).collect();
        self.sort.apply(&mut rows);
        match self.format.format {
            Format::Json => output::json(out, &rows),
            Format::Table => {
                let cells = |row: &Row| row.cells(&layout);
                output::table(out, &HEADER, rows.iter().map(cells).collect())
            }
        }
    }
}

const HEADER: [&str; 8] =
    ["BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS", "OUT OF SYNC", "SIZE"];

impl Order {
    fn apply(self, rows: &mut [Row]) {
        rows.sort_by_key(|row| row.id);
        match self {
            Self::Id => {}
            Self::Rack => rows.sort_by(|one, other| one.rack.cmp(&other.rack)),
            Self::Leaders => rows.sort_by_key(|row| Reverse(row.leaders)),
            Self::Replicas => rows.sort_by_key(|row| Reverse(row.replicas)),
            Self::OutOfSync => rows.sort_by_key(|row| Reverse(row.out_of_sync)),
            Self::Bytes => rows.sort_by_key(|row| Reverse(row.bytes)),
        }
    }
}

impl Row {
    pub(super) fn new(id: i32, layout: &Layout, directories: &Directories) -> Self {
        let member = layout.brokers.get(&id).cloned().unwrap_or_default();
        Self {
            id,
            host: member.host,
            port: member.port,
            rack: member.rack,
            fenced: member.fenced,
            leaders: layout.leaders(id),
            replicas: layout.replicas(id),
            out_of_sync: layout.out_of_sync(id),
            bytes: directories.bytes(id),
            free_bytes: directories.free(id),
        }
    }

    pub(super) fn cells(&self, layout: &Layout) -> Vec<String> {
        let member = layout.brokers.get(&self.id);
        vec![
            self.id.to_string(),
            member.map(crate::layout::Member::address).unwrap_or_default(),
            output::or_nothing(self.rack.as_deref().unwrap_or_default()),
            member.map_or(output::NOTHING, crate::layout::Member::state).to_owned(),
            self.leaders.to_string(),
            self.replicas.to_string(),
            self.out_of_sync.to_string(),
            sizes::shown(self.bytes),
        ]
    }
}
