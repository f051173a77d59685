//! `levada cluster info|brokers|health|features|quorum`: an overview of the cluster, its brokers,
//! its problems, the levels of its features, and its controllers.

mod features;
mod quorum;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use indicatif::HumanBytes;
use levada_client::health::FENCED;
use levada_client::{Cluster, ConnectionOptions, ControllersProblem, TopicPartition};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::metadata_response::MetadataResponsePartition;
use levada_wire::messages::{DescribeLogDirsRequest, DescribeQuorumRequest, MetadataResponse};
use serde::Serialize;

use self::features::Features;
use self::quorum::Quorum;
use crate::broker::List;
use crate::cluster::{BrokerArgs, ClusterCommand};
use crate::http::Address;
use crate::kafka_error;
use crate::layout::{describe, is_below_least};
use crate::moves::{self, Ongoing};
use crate::topic::TopicSizes;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Show the cluster, its brokers and its health; show and change its features and controllers
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada cluster info
  levada cluster brokers
  levada cluster health || echo something is wrong
  levada cluster features describe
  levada cluster quorum describe")]
pub(crate) enum Verb {
    Info(Info),
    /// List the brokers, as levada broker list does
    Brokers(List),
    Health(Health),
    #[command(subcommand)]
    Features(Features),
    #[command(subcommand)]
    Quorum(Quorum),
}

/// Show the cluster: its id, brokers, topics and size
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster info
  levada cluster info --output json | jq -r .id")]
pub(crate) struct Info {
    #[command(flatten)]
    format: FormatArgs,
}

/// Check that all brokers and the controllers respond, the directories work and all replicas are in
/// sync; the exit code is 1 otherwise
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster health && systemctl start consumers
  levada cluster health --output json | jq -r '.problems[].what'
  levada cluster health --http 127.0.0.1:9644           one broker: its partitions and directories
  levada cluster health --http 127.0.0.1:9644 --live    its threads alone, for a container")]
pub(crate) struct Health {
    /// List each partition with a problem; otherwise partitions with the same problem are one row
    #[arg(short, long)]
    verbose: bool,
    /// Check /healthz of one broker at its levada.http.listen instead
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["brokers", "command_config"])]
    http: Option<String>,
    /// Check /livez instead of /healthz: its threads respond, even if a directory has failed
    #[arg(long, requires = "http")]
    live: bool,
    /// Check /readyz instead of /healthz: it serves all its partitions
    #[arg(long, requires = "http", conflicts_with = "live")]
    ready: bool,
    /// File with the levada.http.token of that broker [env: LEVADA_HTTP_TOKEN, the token itself]
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// The cluster in the JSON output.
#[derive(Debug, Serialize)]
struct Overview {
    id: String,
    controller: i32,
    brokers: Vec<Broker>,
    topics: usize,
    partitions: usize,
    /// `None` if a broker does not report the size of its replicas.
    bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Broker {
    id: i32,
    host: String,
    port: i32,
    rack: Option<String>,
}

/// The result of a check.
#[derive(Debug, Serialize)]
struct Verdict {
    healthy: bool,
    problems: Vec<Problem>,
}

/// A problem of the cluster, with the number of partitions that have it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Problem {
    broker: Option<i32>,
    topic: Option<String>,
    partition: Option<i32>,
    what: String,
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    if let Verb::Health(Health { http: Some(address), live, ready, http_token_file, format, .. }) = &args.verb
    {
        let path = match (live, ready) {
            (true, _) => "/livez",
            (_, true) => "/readyz",
            (false, false) => "/healthz",
        };
        let address = Address::new(address, http_token_file.as_deref())?;
        return verdict(&address, path)?.tell((format.format, true), out);
    }
    let mut cluster = args.brokers.connect()?;
    match args.verb {
        Verb::Info(info) => info.run(&mut cluster, out),
        Verb::Brokers(brokers) => brokers.run(&mut cluster, out),
        Verb::Health(health) => health.run(&args.brokers, &mut cluster, out),
        Verb::Features(features) => features.run(&mut cluster, out),
        Verb::Quorum(quorum) => quorum.run(&mut cluster, out),
    }
}

impl Info {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let described = describe(cluster)?;
        let topics = cluster.metadata(None, false)?.topics;
        let sizes = TopicSizes::ask(cluster, &topics)?;
        let brokers = described.brokers.iter().filter(|broker| !broker.is_fenced).map(|broker| Broker {
            id: broker.broker_id,
            host: broker.host.as_str().to_owned(),
            port: broker.port,
            rack: broker.rack.as_deref().map(str::to_owned),
        });
        let overview = Overview {
            id: described.cluster_id.as_str().to_owned(),
            controller: quorum::leader(cluster).unwrap_or(described.controller_id),
            brokers: brokers.collect(),
            topics: topics.len(),
            partitions: topics.iter().map(|topic| topic.partitions.len()).sum(),
            bytes: sizes.total(),
        };
        match self.format.format {
            Format::Json => output::json(out, &overview),
            Format::Table => overview.print(out),
        }
    }
}

impl Overview {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let size =
            self.bytes.map_or_else(|| output::NOTHING.to_owned(), |bytes| HumanBytes(bytes).to_string());
        writeln!(out, "Cluster     {}", self.id)?;
        writeln!(out, "Controller  {}", self.controller)?;
        writeln!(out, "Topics      {}", self.topics)?;
        writeln!(out, "Partitions  {}", self.partitions)?;
        writeln!(out, "Size        {size}\n")?;
        let row = |broker: &Broker| {
            let rack = output::or_nothing(broker.rack.as_deref().unwrap_or_default());
            vec![broker.id.to_string(), broker.host.clone(), broker.port.to_string(), rack]
        };
        output::table(out, &["BROKER", "HOST", "PORT", "RACK"], self.brokers.iter().map(row).collect())
    }
}

impl Health {
    fn run(&self, brokers: &BrokerArgs, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let described = describe(cluster)?;
        let problem = |what: String| Problem { broker: None, topic: None, partition: None, what };
        let mut problems: Vec<Problem> = controllers_problem(brokers).map(problem).into_iter().collect();
        let has_controllers = problems.is_empty();
        let mut refused = None;
        for broker in &described.brokers {
            if broker.is_fenced {
                problems.push(fenced(broker.broker_id));
                continue;
            }
            match broker_problems(cluster, broker.broker_id) {
                Ok(found) => problems.extend(found),
                // All brokers refuse a user without permission.
                Err(failure) if refused.is_none() => {
                    problems.push(problem(failure.line().to_owned()));
                    refused = Some(failure);
                }
                Err(_) => {}
            }
        }
        let metadata = cluster.metadata(None, false)?;
        let context = Context::ask(cluster, &metadata, has_controllers);
        problems.extend(partition_problems(&metadata, &context));
        let verdict = Verdict { healthy: problems.is_empty(), problems };
        let told = verdict.tell((self.format.format, self.verbose), out);
        if let Some(failure) = refused {
            failure.tell_next();
        }
        told
    }
}

/// The verdict of a broker's `/healthz`, `/livez` or `/readyz`. It needs neither a Kafka listener
/// nor a login.
fn verdict(address: &Address<'_>, path: &str) -> Result<Verdict, Failure> {
    let answer = address.get(path)?;
    if answer.status == 200 {
        return Ok(Verdict { healthy: true, problems: Vec::new() });
    }
    let what = format!("{path} returned {}: {}", answer.status, answer.text.trim());
    Ok(Verdict {
        healthy: false,
        problems: vec![Problem { broker: None, topic: None, partition: None, what }],
    })
}

impl Verdict {
    /// Prints the verdict; fails if there is a problem.
    fn tell(&self, (format, verbose): (Format, bool), out: &mut dyn Write) -> Result<(), Failure> {
        let printed = match format {
            Format::Json => output::json(out, self),
            Format::Table => self.print(verbose, out),
        };
        let printed = printed.and_then(|()| Ok(out.flush()?));
        if self.healthy { printed } else { Err(Failure::Told) }
    }

    fn print(&self, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
        if self.healthy {
            writeln!(out, "healthy")?;
            return Ok(());
        }
        let rows = if verbose { self.problems.iter().map(Problem::cells).collect() } else { self.grouped() };
        output::table(out, &["BROKER", "TOPIC", "PARTITION", "PROBLEM"], rows)?;
        if !verbose && self.problems.iter().filter(|one| one.partition.is_some()).count() > 1 {
            out.flush()?;
            tell!("note: --verbose lists each partition");
        }
        Ok(())
    }

    /// Rows of brokers, then of partitions without a leader, then of other partitions. Partitions
    /// with the same problem are one row.
    fn grouped(&self) -> Vec<Vec<String>> {
        let of_partitions = self.problems.iter().filter_map(|one| Some((one, one.partition?)));
        let mut groups: BTreeMap<(bool, &str), BTreeMap<&str, Vec<i32>>> = BTreeMap::new();
        for (one, partition) in of_partitions {
            let topics = groups.entry((one.what != NO_LEADER, one.what.as_str())).or_default();
            topics.entry(one.topic.as_deref().unwrap_or_default()).or_default().push(partition);
        }
        let row = |((_, what), topics): ((bool, &str), BTreeMap<&str, Vec<i32>>)| {
            let count: usize = topics.values().map(Vec::len).sum();
            let (topic, partitions) = match topics.first_key_value() {
                Some((topic, partitions)) if topics.len() == 1 && count <= LISTED => {
                    (output::or_nothing(topic), crate::layout::listed(partitions.iter().copied()))
                }
                Some((topic, _)) if topics.len() == 1 => {
                    (output::or_nothing(topic), counted_partitions(count))
                }
                _ => (format!("{} topics", topics.len()), counted_partitions(count)),
            };
            vec![output::NOTHING.to_owned(), topic, partitions, what.to_owned()]
        };
        let others = self.problems.iter().filter(|one| one.partition.is_none()).map(Problem::cells);
        others.chain(groups.into_iter().map(row)).collect()
    }
}

/// Number of partitions that a row lists.
const LISTED: usize = 8;

/// Problem of a partition that no client can read or write.
const NO_LEADER: &str = "no leader";

fn counted_partitions(count: usize) -> String {
    output::counted(count as u64, "partition", "partitions")
}

impl Problem {
    fn cells(&self) -> Vec<String> {
        let number = |number: Option<i32>| output::number(number.map(i64::from));
        let topic = output::or_nothing(self.topic.as_deref().unwrap_or_default());
        vec![number(self.broker), topic, number(self.partition), self.what.clone()]
    }
}

/// Problems of one broker: it does not respond, or one of its directories failed.
///
/// # Errors
/// The broker refuses the user.
fn broker_problems(cluster: &mut Cluster, node: i32) -> Result<Vec<Problem>, Failure> {
    let problem = |what: String| Problem { broker: Some(node), topic: None, partition: None, what };
    let mut request = DescribeLogDirsRequest::default();
    request.topics = Some(Vec::new());
    let asked = cluster.broker(node).and_then(|client| Ok(client.request(&request)?));
    let response = match asked {
        Ok(response) => response,
        Err(error) => return Ok(vec![problem(Failure::from(error).line().to_owned())]),
    };
    let checked = kafka_error::check(response.error_code, "describe directories", None);
    match kafka_error::needing(checked, "describe", "--cluster") {
        Ok(()) => {}
        Err(failure) if kafka_error::is_refusal(&failure) => return Err(failure),
        Err(failure) => return Ok(vec![problem(failure.line().to_owned())]),
    }
    let failed = response.results.iter().filter(|directory| directory.error_code != 0);
    let failed = failed.map(|directory| {
        problem(format!("{}: {}", directory.log_dir.as_str(), kafka_error::name(directory.error_code)))
    });
    Ok(failed.collect())
}

/// A broker that the metadata does not show to clients, so that its address is unknown.
fn fenced(node: i32) -> Problem {
    Problem { broker: Some(node), topic: None, partition: None, what: FENCED.to_owned() }
}

/// Time in which the controllers describe their quorum; they need milliseconds.
const CONTROLLERS_LIMIT: Duration = Duration::from_secs(5);

/// The problem of the controllers, if they have one. Brokers serve without them, so that no other
/// check finds it. A user who may not see the quorum gets none.
fn controllers_problem(brokers: &BrokerArgs) -> Option<String> {
    let options = ConnectionOptions { timeout: CONTROLLERS_LIMIT, ..ConnectionOptions::default() };
    // The brokers have their own check.
    let mut cluster = brokers.connect_with(options).ok()?;
    cluster.version::<DescribeQuorumRequest>().ok()?;
    match quorum::checked_leader(&mut cluster) {
        Ok(leader) => ControllersProblem::of_leader(leader.unwrap_or(-1)).map(|problem| problem.to_string()),
        Err(failure) => match ControllersProblem::of_failure(failure.cause(), CONTROLLERS_LIMIT) {
            Some(problem) => Some(problem.to_string()),
            None => (!is_hidden(&failure)).then(|| failure.line().to_owned()),
        },
    }
}

/// True if the user may not see the quorum, or the cluster does not show it.
fn is_hidden(failure: &Failure) -> bool {
    use ErrorCode::{ClusterAuthorizationFailed, UnsupportedVersion};
    matches!(failure.cause().code(), Some(ClusterAuthorizationFailed | UnsupportedVersion))
}

/// Facts about partitions that the metadata does not have.
#[derive(Debug, Default)]
struct Context {
    moving: BTreeMap<TopicPartition, Ongoing>,
    /// `min.insync.replicas` by topic.
    least: BTreeMap<String, usize>,
}

impl Context {
    /// Asks only if a partition lacks a replica in sync. Refused facts are missing.
    fn ask(cluster: &mut Cluster, metadata: &MetadataResponse, has_controllers: bool) -> Self {
        let lags = |one: &MetadataResponsePartition| one.isr_nodes.len() < one.replica_nodes.len();
        let lagging = metadata.topics.iter().filter(|topic| topic.partitions.iter().any(lags));
        let lagging: BTreeSet<&str> =
            lagging.map(|topic| topic.name.as_deref().unwrap_or_default()).collect();
        if lagging.is_empty() {
            return Self::default();
        }
        let moving =
            if has_controllers { moves::ongoing(cluster).unwrap_or_default() } else { BTreeMap::new() };
        Self { moving, least: moves::least_in_sync(cluster, &lagging).unwrap_or_default() }
    }

    fn problem(&self, topic: &str, partition: &MetadataResponsePartition) -> Option<String> {
        let moving = self.moving.get(&(topic.to_owned(), partition.partition_index));
        partition_problem(partition, moving, self.least.get(topic).copied().unwrap_or(1))
    }
}

fn partition_problems(metadata: &MetadataResponse, context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    for topic in &metadata.topics {
        let name = topic.name.as_deref().unwrap_or_default();
        for partition in &topic.partitions {
            problems.extend(context.problem(name, partition).map(|what| Problem {
                broker: None,
                topic: Some(name.to_owned()),
                partition: Some(partition.partition_index),
                what,
            }));
        }
    }
    problems
}

/// A new replica of a move is not in sync before it has copied the log: that is no problem.
fn partition_problem(
    partition: &MetadataResponsePartition,
    moving: Option<&Ongoing>,
    least: usize,
) -> Option<String> {
    if partition.leader_id < 0 {
        return Some(NO_LEADER.to_owned());
    }
    let is_refusing = is_below_least(partition.isr_nodes.len(), partition.replica_nodes.len(), least);
    let refusal = if is_refusing {
        format!("; acks=all is refused: min.insync.replicas={least}")
    } else {
        String::new()
    };
    if !partition.offline_replicas.is_empty() {
        let mut offline = partition.offline_replicas.clone();
        offline.sort_unstable();
        return Some(format!("replicas are offline: {offline:?}{refusal}"));
    }
    let adding = moving.map(|one| one.adding.as_slice()).unwrap_or_default();
    let count = |nodes: &[i32]| nodes.iter().filter(|id| !adding.contains(id)).count();
    let (in_sync, all) = (count(&partition.isr_nodes), count(&partition.replica_nodes));
    (in_sync < all || is_refusing).then(|| format!("{in_sync} of {all} replicas are in sync{refusal}"))
}

#[cfg(test)]
mod tests;
