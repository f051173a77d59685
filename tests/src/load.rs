//! Producers of librdkafka and Java that produce while a test lasts, each into a separate
//! topic, and write down every acknowledgement; at the end, the journals are compared with the logs
//! of all replicas.

use std::path::PathBuf;
use std::time::Duration;

use crate::cluster::{Cluster, LIMIT, Tools};
use crate::gaps::{Gap, Gaps};
use crate::tool::Conversation;
use crate::{Tool, journal, replicas};

/// Number of partitions of each producer's topic: of three brokers, each leads one of them.
pub const PARTITIONS: u32 = 3;

/// Sizes of the topics' segments: small, and rolled soon.
const CONFIGS: &str =
    "--config min.insync.replicas=2 --config segment.bytes=1048576 --config segment.ms=4000";

/// A producer, with a topic of its name.
struct Load {
    name: String,
    acknowledged: PathBuf,
    conversation: Conversation,
}

impl Load {
    fn start(cluster: &Cluster, name: &str, rate: u32) -> Self {
        let (client, kind) = name.split_once('-').expect("CLIENT-KIND");
        let acknowledged = cluster.node(cluster.brokers()[0]).scratch().join(name);
        let mut tool = if client == "java" { Tool::own_java("Load") } else { Tool::python("load.py") };
        tool.args([&cluster.bootstrap(), name, &PARTITIONS.to_string()]);
        tool.args([&acknowledged.display().to_string(), kind, &rate.to_string()]);
        Self { name: name.to_owned(), acknowledged, conversation: tool.spawn() }
    }

    /// Differences between the acknowledgements and the log.
    fn complaints(&self, bootstrap: &str) -> Vec<String> {
        let (acknowledged, log) = journal::collect(bootstrap, (&self.name, PARTITIONS), &self.acknowledged);
        // A plain producer sends a record again that may be there.
        let complaints = if self.name.ends_with("-plain") {
            journal::lost(&acknowledged, &log)
        } else {
            journal::complaints(&acknowledged, &log)
        };
        println!("{}: {} acknowledged, {} in the log", self.name, acknowledged.len(), log.len());
        complaints.into_iter().map(|complaint| format!("{}: {complaint}", self.name)).collect()
    }
}

/// Several producers, and the gaps between the acknowledgements of each partition.
pub struct Loads {
    loads: Vec<Load>,
    gaps: Gaps,
}

impl Loads {
    /// Creates the topics and starts the producers, by names such as `java-transactional`. The
    /// `rate` is the number of records of each in a second.
    pub fn start(cluster: &Cluster, tools: &mut Tools, names: &[&str], rate: u32) -> Self {
        let mut loads = Vec::new();
        for name in names {
            let shape = format!("--partitions {PARTITIONS} --replication-factor 3");
            tools.run(&format!("TopicCommand --create --topic {name} {shape} {CONFIGS}"));
            loads.push(Load::start(cluster, name, rate));
        }
        let journals: Vec<_> =
            loads.iter().map(|load| (load.name.clone(), load.acknowledged.clone())).collect();
        let gaps = Gaps::follow(&journals, PARTITIONS);
        Self { loads, gaps }
    }

    /// Names of the topics.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.loads.iter().map(|load| load.name.as_str())
    }

    /// The gaps since [`Gaps::begin`].
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// The longest gap of each producer.
    pub fn longest(&self) -> Vec<Gap> {
        self.gaps.longest()
    }

    /// Waits until each partition gets an acknowledgement. Names the partitions that get none
    /// within `limit`.
    pub fn await_acknowledgements(&mut self, limit: Duration) -> Vec<String> {
        let silent = self.gaps.await_all(limit);
        for load in &mut self.loads {
            while let Some(line) = load.conversation.line_now() {
                assert!(line.parse::<u64>().is_ok(), "{}: {line}", load.name);
            }
        }
        silent
    }

    /// Ends the producers, compares the acknowledgements with the log, stops the brokers, and
    /// compares the replicas with each other. Returns what differs.
    pub fn judge(mut self, cluster: &mut Cluster) -> Vec<String> {
        for load in &mut self.loads {
            load.conversation.say("stop");
        }
        for load in &mut self.loads {
            load.conversation.await_end(LIMIT);
        }
        let bootstrap = cluster.bootstrap();
        let mut complaints: Vec<String> =
            self.loads.iter().flat_map(|load| load.complaints(&bootstrap)).collect();
        for id in cluster.brokers() {
            cluster.node_mut(id).stop();
        }
        for (topic, partition) in
            self.topics().flat_map(|topic| (0..PARTITIONS).map(move |partition| (topic, partition)))
        {
            let name = format!("{topic}-{partition}");
            let directory = |id: i32| (id, cluster.node(id).data().join(&name));
            let directories: Vec<_> = cluster.brokers().into_iter().map(directory).collect();
            let paths: Vec<_> = directories.iter().map(|(id, path)| (*id, path.as_path())).collect();
            let differences = replicas::differences_since(0, &paths).into_iter();
            complaints.extend(differences.map(|difference| format!("{name}, {difference}")));
        }
        complaints
    }
}
