//! `levada group list`: the groups that every broker coordinates.

mod loads;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::io::Write;

use levada_client::Cluster;
use levada_wire::StrBytes;
use levada_wire::messages::ListGroupsRequest;
use serde::Serialize;

use self::loads::Load;
use crate::kafka_error;
use levada_terminal::failure::{Cause, Failure};
use levada_terminal::output::{self, Format, FormatArgs};

/// List groups
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada group list
  levada group list --state stable --type consumer
  levada group list --lag                       members and lag, the largest lag first
  levada group list --output json | jq -r '.[].group'")]
pub(crate) struct List {
    /// Only groups in this state, such as stable or empty; repeatable
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Only groups of this type, such as classic or consumer; repeatable
    #[arg(long = "type", value_name = "TYPE")]
    kind: Vec<String>,
    /// Add the number of members and the lag in records, the largest lag first
    #[arg(long)]
    lag: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// A group as its coordinator lists it.
#[derive(Clone, Debug, Serialize)]
struct ListedGroup {
    group: String,
    #[serde(rename = "type")]
    kind: String,
    protocol_type: String,
    state: String,
    coordinator: i32,
    /// Only with --lag.
    #[serde(flatten)]
    load: Option<Load>,
}

/// States and types as Kafka names them; case does not matter on the command line.
const STATES: [&str; 8] = [
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
];
const TYPES: [&str; 4] = ["classic", "consumer", "share", "streams"];

impl List {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut rows = self.ask(cluster)?;
        rows.sort_by(|one, other| one.group.cmp(&other.group));
        if self.lag {
            let mut loads = loads::ask(cluster, &rows)?;
            for row in &mut rows {
                row.load = loads.remove(&row.group);
            }
            rows.sort_by_key(|row| Reverse(row.load.and_then(|load| load.lag)));
        }
        if self.format.format == Format::Json {
            return output::json(out, &rows);
        }
        let row = |row: ListedGroup| {
            let protocol = output::or_nothing(&row.protocol_type);
            let numbers = row.load.map(|load| {
                let members = load.members.and_then(|members| i64::try_from(members).ok());
                [members, load.lag].map(output::number)
            });
            let names = [row.group, row.kind, protocol, row.state];
            names
                .into_iter()
                .chain(numbers.into_iter().flatten())
                .chain([row.coordinator.to_string()])
                .collect()
        };
        let header: &[&str] = if self.lag {
            &["GROUP", "TYPE", "PROTOCOL", "STATE", "MEMBERS", "LAG", "COORDINATOR"]
        } else {
            &["GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"]
        };
        output::table(out, header, rows.into_iter().map(row).collect())
    }

    fn ask(&self, cluster: &mut Cluster) -> Result<Vec<ListedGroup>, Failure> {
        let mut request = ListGroupsRequest::default();
        request.states_filter = known(&self.state, &STATES, "state")?;
        request.types_filter = known(&self.kind, &TYPES, "type")?;
        list_of_brokers(cluster, &request)
    }
}

/// Requests from every broker the groups that it coordinates. A broker that does not respond has a
/// note, unless none does.
fn list_of_brokers(cluster: &mut Cluster, request: &ListGroupsRequest) -> Result<Vec<ListedGroup>, Failure> {
    let (mut rows, mut silent) = (Vec::new(), Vec::new());
    let brokers = cluster.brokers()?;
    for node in &brokers {
        let node = *node;
        let asked = cluster.broker(node).and_then(|broker| Ok(broker.request(request)?));
        let response = match asked.map_err(Failure::from) {
            Ok(response) => response,
            Err(failure) if failure.cause() == Cause::Connection => {
                silent.push((node, failure));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        kafka_error::check(response.error_code, &format!("list groups of broker {node}"), None)?;
        rows.extend(response.groups.iter().map(|group| ListedGroup {
            group: group.group_id.as_str().to_owned(),
            kind: group.group_type.as_str().to_owned(),
            protocol_type: group.protocol_type.as_str().to_owned(),
            state: group.group_state.as_str().to_owned(),
            coordinator: node,
            load: None,
        }));
    }
    if silent.len() == brokers.len()
        && let Some((_, failure)) = silent.pop()
    {
        return Err(failure);
    }
    for (node, failure) in silent {
        tell!("note: the groups of broker {node} are not known: {}", failure.line());
    }
    Ok(rows)
}

/// Names of all groups.
pub(super) fn names(cluster: &mut Cluster) -> Result<Vec<String>, Failure> {
    let rows = list_of_brokers(cluster, &ListGroupsRequest::default())?;
    Ok(rows.into_iter().map(|row| row.group).collect())
}

/// The type of a group, if there is one.
pub(super) fn kind(cluster: &mut Cluster, id: &str) -> Result<Option<String>, Failure> {
    let rows = list_of_brokers(cluster, &ListGroupsRequest::default())?;
    Ok(rows.into_iter().find(|row| row.group == id).map(|row| row.kind))
}

/// Names for these words; an unknown word is an error, because its list would be empty.
fn known(words: &[String], names: &[&'static str], what: &str) -> Result<Vec<StrBytes>, Failure> {
    let name = |word: &String| {
        let found = names.iter().find(|name| name.eq_ignore_ascii_case(word));
        found.map(|name| StrBytes::from(*name)).ok_or_else(|| {
            Failure::Usage(format!("{word:?} is not a group {what}: expected {}", names.join(", ")))
        })
    };
    words.iter().map(name).collect()
}
