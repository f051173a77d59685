//! `levada cluster quorum describe|add|remove`: the controllers of the cluster.

use std::io::Write;

use clap::Subcommand;
use levada_client::{Cluster, cluster};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::add_raft_voter_request::Listener;
use levada_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use levada_wire::messages::describe_quorum_response::{self, ReplicaState};
use levada_wire::messages::{
    AddRaftVoterRequest, DescribeQuorumRequest, DescribeQuorumResponse, RemoveRaftVoterRequest,
};
use levada_wire::{StrBytes, Uuid};
use serde::Serialize;

use crate::outcomes::Outcomes;
use crate::{kafka_error, layout, question, time};

/// Topic of the metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Time for the controller, in ms.
const TIMEOUT_MS: i32 = 60_000;

/// Show the controllers of the cluster, add and remove controllers
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada cluster quorum describe
  levada cluster quorum add 4 --address c4:9093
  levada cluster quorum remove 1")]
pub(crate) enum Quorum {
    Describe(Describe),
    Add(Add),
    Remove(Remove),
}

/// Show the leader, the voters and the observers of the metadata log, with their lag
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster quorum describe
  levada cluster quorum describe --output json | jq '.nodes[] | select(.lag > 1000) | .id'")]
pub(crate) struct Describe {
    #[command(flatten)]
    format: FormatArgs,
}

/// Make a controller a voter
///
/// The controller runs already, and follows the metadata log as an observer: its directory was
/// formatted with kafka-storage format --no-initial-controllers. Add one at a time, and wait until
/// its lag is small.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster quorum add 4 --address c4:9093
  levada cluster quorum add 4 --address c4:9093 --listener CONTROLLER")]
pub(crate) struct Add {
    /// Node id of the controller
    node: i32,
    /// Address of the controller for the other controllers
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    address: (String, u16),
    /// Name of its listener [default: that of the present leader]
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Remove a controller from the voters
///
/// The controller becomes an observer; stop it afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster quorum remove 1")]
pub(crate) struct Remove {
    /// Node id of the controller
    node: i32,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

/// The quorum in the JSON output.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct State {
    leader: Option<i32>,
    epoch: i32,
    high_watermark: i64,
    nodes: Vec<Member>,
}

/// A controller, or a broker that follows the metadata log.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Member {
    id: i32,
    role: Role,
    /// `None` if the log is of the version before directories.
    directory_id: Option<String>,
    /// Addresses of a voter, by listener; empty before version 2 of DescribeQuorum.
    addresses: Vec<String>,
    end_offset: Option<i64>,
    /// Records that it lacks.
    lag: Option<i64>,
    last_fetch_ms: Option<i64>,
    last_caught_up_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    Leader,
    Voter,
    Observer,
}

fn address(text: &str) -> Result<(String, u16), String> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match parsed {
        Some((host, port)) if !host.is_empty() && port > 0 => {
            Ok((host.trim_matches(['[', ']']).to_owned(), port))
        }
        _ => Err("expected HOST:PORT, such as c4:9093".to_owned()),
    }
}

impl Quorum {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Describe(describe) => {
                let state = State::of(&ask(cluster)?)?;
                match describe.format.format {
                    Format::Json => output::json(out, &state),
                    Format::Table => state.print(out),
                }
            }
            Self::Add(add) => add.run(cluster, out),
            Self::Remove(remove) => remove.run(cluster, out),
        }
    }
}

fn ask(cluster: &mut Cluster) -> Result<DescribeQuorumResponse, Failure> {
    let mut topic = TopicData::default();
    (topic.topic_name, topic.partitions) = (StrBytes::from(METADATA_TOPIC), vec![PartitionData::default()]);
    let mut request = DescribeQuorumRequest::default();
    request.topics = vec![topic];
    let response = cluster.ask(&request)?;
    let doing = "describe the quorum";
    let checked = kafka_error::check(response.error_code, doing, response.error_message.as_deref());
    kafka_error::needing(checked, "describe", "--cluster")?;
    let partition = of_log(&response)?;
    kafka_error::check(partition.error_code, doing, partition.error_message.as_deref())?;
    Ok(response)
}

/// The active controller; `None` if it is not known, or if the user may not see it.
pub(super) fn leader(cluster: &mut Cluster) -> Option<i32> {
    checked_leader(cluster).ok()?
}

/// The active controller; `None` if there is none.
pub(super) fn checked_leader(cluster: &mut Cluster) -> Result<Option<i32>, Failure> {
    Ok(State::of(&ask(cluster)?)?.leader)
}

fn of_log(response: &DescribeQuorumResponse) -> Result<&describe_quorum_response::PartitionData, Failure> {
    let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.next().ok_or_else(|| Failure::new("describe the quorum: the broker did not respond"))
}

impl State {
    fn of(response: &DescribeQuorumResponse) -> Result<Self, Failure> {
        let log = of_log(response)?;
        let leader = Some(log.leader_id).filter(|id| *id >= 0);
        let end = log.current_voters.iter().find(|one| Some(one.replica_id) == leader);
        let end = end.map(|one| one.log_end_offset);
        let voters = log.current_voters.iter().map(|one| {
            let role = if Some(one.replica_id) == leader { Role::Leader } else { Role::Voter };
            Member::of(response, (one, role), end)
        });
        let observers = log.observers.iter().map(|one| Member::of(response, (one, Role::Observer), end));
        let mut nodes: Vec<Member> = voters.chain(observers).collect();
        nodes.sort_by_key(|one| (one.role, one.id));
        Ok(Self { leader, epoch: log.leader_epoch, high_watermark: log.high_watermark, nodes })
    }

    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "Leader          {}", output::number(self.leader.map(i64::from)))?;
        writeln!(out, "Epoch           {}", self.epoch)?;
        writeln!(out, "High watermark  {}\n", self.high_watermark)?;
        let now = time::now_ms();
        let row = |one: &Member| {
            let role = match one.role {
                Role::Leader => "leader",
                Role::Voter => "voter",
                Role::Observer => "observer",
            };
            let caught_up =
                one.last_caught_up_ms.map(|at| format!("{} ago", time::shown_duration((now - at).max(0))));
            vec![
                one.id.to_string(),
                role.to_owned(),
                output::number(one.lag),
                caught_up.unwrap_or_else(|| output::NOTHING.to_owned()),
                output::or_nothing(&one.addresses.join(" ")),
            ]
        };
        let header = ["NODE", "ROLE", "LAG", "CAUGHT UP", "ADDRESSES"];
        output::table(out, &header, self.nodes.iter().map(row).collect())
    }
}

impl Member {
    fn of(response: &DescribeQuorumResponse, (one, role): (&ReplicaState, Role), end: Option<i64>) -> Self {
        let known = |number: i64| Some(number).filter(|number| *number >= 0);
        let node = response.nodes.iter().find(|node| node.node_id == one.replica_id);
        let listeners = node.iter().flat_map(|node| &node.listeners);
        let shown = listeners.map(|one| {
            format!("{}://{}", one.name.as_str(), cluster::address(&one.host, i32::from(one.port)))
        });
        let end_offset = known(one.log_end_offset);
        Self {
            id: one.replica_id,
            role,
            directory_id: Some(one.replica_directory_id)
                .filter(|id| *id != Uuid::default())
                .map(|id| levada_base::id_text(id.to_bytes())),
            addresses: if role == Role::Observer { Vec::new() } else { shown.collect() },
            end_offset,
            lag: end.zip(end_offset).map(|(end, own)| (end - own).max(0)),
            last_fetch_ms: known(one.last_fetch_timestamp),
            last_caught_up_ms: known(one.last_caught_up_timestamp),
        }
    }
}

impl Add {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let described = ask(cluster)?;
        let log = of_log(&described)?;
        let found = log.observers.iter().find(|one| one.replica_id == self.node).ok_or_else(|| {
            let is_voter = log.current_voters.iter().any(|one| one.replica_id == self.node);
            let what = if is_voter { "is a voter already" } else { "does not follow the metadata log" };
            Failure::with_next(
                format!("node {} {what}", self.node),
                "start a controller with this id; levada cluster quorum describe lists observers",
            )
        })?;
        let brokers = layout::describe(cluster)?;
        if brokers.brokers.iter().any(|broker| broker.broker_id == self.node) {
            return Err(Failure::with_next(
                format!("node {} is a broker; only a controller can be a voter", self.node),
                "levada cluster quorum describe lists observers, brokers among them",
            ));
        }
        let mut listener = Listener::default();
        let name = self.listener.clone().or_else(|| leaders_listener(&described, log.leader_id));
        listener.name = StrBytes::from(name.as_deref().unwrap_or("CONTROLLER"));
        (listener.host, listener.port) = (StrBytes::from(self.address.0.as_str()), self.address.1);
        let mut request = AddRaftVoterRequest::default();
        request.cluster_id = Some(brokers.cluster_id);
        (request.timeout_ms, request.voter_id) = (TIMEOUT_MS, self.node);
        request.voter_directory_id = found.replica_directory_id;
        request.listeners = vec![listener];
        let response = cluster.ask(&request)?;
        let doing = format!("add controller {}", self.node);
        let checked = kafka_error::check(response.error_code, &doing, response.error_message.as_deref());
        ended(checked, self.format, (self.node, "added controller"), out)
    }
}

impl Remove {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let described = ask(cluster)?;
        let log = of_log(&described)?;
        let found = log.current_voters.iter().find(|one| one.replica_id == self.node).ok_or_else(|| {
            Failure::with_next(
                format!("node {} is not a voter of the quorum", self.node),
                "levada cluster quorum describe lists the voters",
            )
        })?;
        let left = log.current_voters.len() - 1;
        if left == 0 {
            return Err(Failure::with_next(
                format!(
                    "controller {} is the only voter: without it the cluster has no controller",
                    self.node
                ),
                "levada cluster quorum add adds another controller first",
            ));
        }
        let asked = format!("remove controller {} from the voters, of which {left} remain", self.node);
        self.question.ask(&asked, "no controller was removed")?;
        let mut request = RemoveRaftVoterRequest::default();
        request.cluster_id = Some(layout::describe(cluster)?.cluster_id);
        request.voter_id = self.node;
        request.voter_directory_id = found.replica_directory_id;
        let response = cluster.ask(&request)?;
        let doing = format!("remove controller {}", self.node);
        let checked = kafka_error::check(response.error_code, &doing, response.error_message.as_deref());
        ended(checked, self.format, (self.node, "removed controller"), out)
    }
}

/// Listener of the controllers: the first one of the leader.
fn leaders_listener(described: &DescribeQuorumResponse, leader: i32) -> Option<String> {
    let node = described.nodes.iter().find(|node| node.node_id == leader)?;
    Some(node.listeners.first()?.name.as_str().to_owned())
}

/// Prints the result of a change of the voters.
fn ended(
    checked: Result<(), Failure>,
    format: FormatArgs,
    (node, said): (i32, &str),
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let done = kafka_error::needing(checked, "alter", "--cluster").map_err(|failure| {
        match failure.cause().code() {
            Some(ErrorCode::UnsupportedVersion) => failure.try_next(
                "levada cluster features upgrade kraft.version=1; a quorum by controller.quorum.voters is fixed",
            ),
            _ => failure,
        }
    });
    let mut outcomes = Outcomes::new(format);
    outcomes.note(("controller", &node.to_string()), done, &format!("{said} {node}"));
    outcomes.end(out)
}

#[cfg(test)]
mod tests;
