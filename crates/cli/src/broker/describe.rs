//! `levada broker describe`: one broker with its directories and its replicas out of sync.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{Cluster, TopicPartition};
use levada_metadata::features::METADATA_VERSION;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, FormatArgs};
use levada_wire::messages::ApiVersionsResponse;
use serde::Serialize;

use super::list::Row;
use crate::layout::{self, Directories, Layout};
use crate::{logdirs, sizes};

/// Show a broker: state, versions, directories, and its replicas that are not in sync
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada broker describe 3
  levada broker describe 3 --output json | jq '.[0].directories[] | select(.error)'")]
pub(crate) struct Describe {
    /// Ids of brokers
    #[arg(value_name = "BROKER", required = true)]
    ids: Vec<i32>,
    #[command(flatten)]
    format: FormatArgs,
}

/// A broker in the JSON output.
#[derive(Debug, Serialize)]
struct Description {
    #[serde(flatten)]
    row: Row,
    /// Lowest and highest level of metadata.version that the broker supports; `None` if it does not
    /// respond.
    metadata_version: Option<(i16, i16)>,
    /// Number of APIs that it serves.
    apis: Option<usize>,
    directories: Vec<logdirs::Row>,
    lagging: Vec<Lagging>,
}

/// A replica that is not in sync.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Lagging {
    topic: String,
    partition: i32,
    leader: Option<i32>,
    /// Bytes that the replica lacks; `None` if a size is not known.
    behind_bytes: Option<u64>,
}

impl Describe {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        let directories = Directories::ask(cluster, layout.serving(), None);
        directories.warn();
        let asked = self.ids.iter().map(|id| {
            layout.member(*id)?;
            let serves = layout.serving().contains(id);
            let version = serves.then(|| layout::version(cluster, *id).ok()).flatten();
            Ok(Description::new(*id, &layout, (&directories, version.as_ref())))
        });
        let asked: Vec<Result<Description, Failure>> = asked.collect();
        output::descriptions(
            out,
            self.format.format,
            asked.into_iter(),
            |out, all| output::json(out, &all),
            |one, out| one.print(out),
        )
    }
}

impl Description {
    fn new(
        id: i32,
        layout: &Layout,
        (directories, version): (&Directories, Option<&ApiVersionsResponse>),
    ) -> Self {
        let levels = |version: &ApiVersionsResponse| {
            let mut features = version.supported_features.iter();
            let found = features.find(|feature| feature.name.as_str() == METADATA_VERSION)?;
            Some((found.min_version, found.max_version))
        };
        let own = directories.known.iter().filter(|directory| directory.broker == id);
        Self {
            row: Row::new(id, layout, directories),
            metadata_version: version.and_then(levels),
            apis: version.map(|version| version.api_keys.len()),
            directories: own.map(logdirs::Row::of).collect(),
            lagging: lagging(id, layout, &directories.sizes()),
        }
    }

    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Self { row, .. } = self;
        let state = match row.fenced {
            Some(true) => "fenced",
            Some(false) => "active",
            None => output::NOTHING,
        };
        let levels = self.metadata_version.map(|(lowest, highest)| format!("{lowest} to {highest}"));
        writeln!(out, "Broker            {}", row.id)?;
        writeln!(out, "Address           {}", levada_client::cluster::address(&row.host, row.port))?;
        writeln!(out, "Rack              {}", output::or_nothing(row.rack.as_deref().unwrap_or_default()))?;
        writeln!(out, "State             {state}")?;
        writeln!(out, "metadata.version  {}", levels.as_deref().unwrap_or(output::NOTHING))?;
        writeln!(out, "Leaders           {}", row.leaders)?;
        writeln!(out, "Replicas          {}", row.replicas)?;
        writeln!(out, "Out of sync       {}", row.out_of_sync)?;
        writeln!(out, "Size              {}", sizes::shown(row.bytes))?;
        if !self.directories.is_empty() {
            writeln!(out)?;
            let cells = self.directories.iter().map(|one| one.cells()[1..].to_vec());
            output::table(out, &logdirs::HEADER[1..], cells.collect())?;
        }
        if !self.lagging.is_empty() {
            writeln!(out)?;
            let cells = self.lagging.iter().map(|one| {
                let leader = output::number(one.leader.map(i64::from));
                vec![one.topic.clone(), one.partition.to_string(), leader, sizes::shown(one.behind_bytes)]
            });
            output::table(out, &["OUT OF SYNC", "PARTITION", "LEADER", "BEHIND"], cells.collect())?;
        }
        Ok(())
    }
}

/// Replicas of a broker that are not in sync.
fn lagging(id: i32, layout: &Layout, sizes: &BTreeMap<(TopicPartition, i32), u64>) -> Vec<Lagging> {
    let lags = layout
        .partitions
        .iter()
        .filter(|(_, placed)| placed.replicas.contains(&id) && !placed.in_sync.contains(&id));
    let row = |(place, placed): (&TopicPartition, &layout::Placed)| {
        let size = |broker: i32| sizes.get(&(place.clone(), broker)).copied();
        let ahead = placed.leader.and_then(size);
        Lagging {
            topic: place.0.clone(),
            partition: place.1,
            leader: placed.leader,
            behind_bytes: ahead.zip(size(id)).map(|(ahead, own)| ahead.saturating_sub(own)),
        }
    };
    lags.map(row).collect()
}
