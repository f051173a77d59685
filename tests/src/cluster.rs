//! A cluster under test: controllers and brokers of a real Kafka, and brokers of Levada, each a
//! process with its own directory.
//!
//! A test binary starts one cluster and keeps it: five JVMs take longer to start than most tests
//! to run.

mod directory;
mod leaders;
mod network;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::java_log;
use crate::node::Kind;
use crate::quorum::{self, announced, identify};
use crate::tool::Conversation;
use crate::{Node, Tool, await_some};

pub use self::network::{Cut, Networks};
pub use crate::quorum::QuorumState;

/// Limit for everything that a test waits for; a quiet machine needs a small part of it.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Ids of the controllers begin here.
pub const CONTROLLER: i32 = 1;
/// Ids of the brokers of a real Kafka begin here.
pub const KAFKA: i32 = 11;
/// Ids of the brokers under test begin here: of Levada, or of a real Kafka as the reference.
pub const LEVADA: i32 = 21;

/// Key by which the members find the controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discovery {
    /// `controller.quorum.voters`: a fixed set of voters.
    Voters,
    /// `controller.quorum.bootstrap.servers`: the voters are in the metadata log.
    BootstrapServers,
}

/// Number of members of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of controllers.
    pub controllers: i32,
    /// Number of brokers of a real Kafka.
    pub kafka: i32,
    /// Number of brokers of Levada.
    pub levada: i32,
    /// Configuration by which they find the controllers.
    pub discovery: Discovery,
}

impl Shape {
    /// Ids of the controllers, of Kafka's brokers, and of those under test.
    fn ids(&self) -> [std::ops::Range<i32>; 3] {
        [(CONTROLLER, self.controllers), (KAFKA, self.kafka), (LEVADA, self.levada)]
            .map(|(first, count)| first..first + count)
    }
}

/// The `node.id` of a member, by its id in this module.
type NodeIds = fn(i32) -> i32;

/// The members, by id. Dropping it kills their processes.
pub struct Cluster {
    shape: Shape,
    node_ids: NodeIds,
    nodes: BTreeMap<i32, Node>,
    /// Further errors that a Kafka may log in this test.
    expected: Vec<[&'static str; 2]>,
    /// Networks of the members, if they have separate ones. They end after the members.
    networks: Option<Networks>,
}

/// Difference between the numbers of the directories of a member and of its twin.
const TWIN: i32 = 1_000;
/// Difference between the numbers of the two directories of a broker.
const SECOND: i32 = 2_000;

impl Cluster {
    /// A cluster that is not started yet, with formatted directories.
    pub fn new(shape: Shape) -> Self {
        Self::within(shape, None, |id| id)
    }

    /// One controller, a broker of Kafka and two of Levada, for transactions whose coordinators
    /// move and are killed.
    pub fn of_both_kinds() -> Self {
        let shape = Shape { controllers: 1, kafka: 1, levada: 2, discovery: Discovery::BootstrapServers };
        Self::new(shape)
            .option(CONTROLLER, "broker.session.timeout.ms", "4000")
            .may_refuse_appends_of_moved_leaders()
            // A partition may move on while Kafka's coordinator loads it.
            .may_log(["Failed to load metadata from __consumer_offsets-", "is no longer the leader"])
            // Kafka's coordinator answers EndTxn with an error while it ends the same transaction
            // for another producer.
            .may_log(["RequestHeader(apiKey=END_TXN", "pending state PREPARE_EPOCH_FENCE"])
    }

    /// A cluster for clients that expect brokers with the ids 1, 2, 3 and so on: the `node.id` of
    /// broker 11 or 21 is 1.
    pub fn with_brokers_from_one(shape: Shape) -> Self {
        Self::within(shape, None, |id| if id < KAFKA { 100 + id } else { id % 10 })
    }

    /// A cluster with each member in a separate network, which a test can cut. An error names a
    /// missing capability of this machine.
    pub fn with_networks(shape: Shape) -> Result<Self, String> {
        let ids: Vec<i32> = shape.ids().into_iter().flatten().collect();
        Ok(Self::within(shape, Some(Networks::create(&ids)?), |id| id))
    }

    fn within(shape: Shape, networks: Option<Networks>, node_ids: NodeIds) -> Self {
        let [controllers, kafka, levada] = shape.ids();
        let mut nodes = BTreeMap::new();
        nodes.extend(controllers.map(|id| (id, Node::of(Kind::Kafka).sized(160, "INFO"))));
        nodes.extend(kafka.map(|id| (id, Node::of(Kind::Kafka).sized(256, "INFO"))));
        nodes.extend(levada.map(|id| (id, Node::new().sized(256, "INFO"))));
        if let Some(networks) = &networks {
            for (id, node) in &mut nodes {
                node.live_at(networks.member(*id).address());
                node.enter(networks.member(*id).namespace());
            }
        }
        let mut cluster = Self { shape, node_ids, nodes, expected: Vec::new(), networks };
        let found_by = cluster.discovery();
        for (id, node) in std::mem::take(&mut cluster.nodes) {
            cluster.nodes.insert(id, cluster.configured(id, node, &found_by));
        }
        cluster
    }

    /// Sets a configuration key of the members whose ids begin at this one: `CONTROLLER`, `KAFKA`
    /// or `LEVADA`.
    pub fn option(mut self, first: i32, key: &str, value: &str) -> Self {
        for (id, node) in std::mem::take(&mut self.nodes) {
            let node = if (first..first + 10).contains(&id) { node.option(key, value) } else { node };
            self.nodes.insert(id, node);
        }
        self
    }

    /// Lets a Kafka log an error with these parts of the line and its cause.
    pub fn may_log(mut self, parts: [&'static str; 2]) -> Self {
        self.expected.push(parts);
        self
    }

    /// Brokers of Kafka may log two refusals of appends that belong to moved leaders. A producer
    /// with several requests in flight may reach a new leader with a later one first, and repeats
    /// it. A coordinator that has lost its partition, and does not know it yet, may write a marker
    /// once more.
    pub fn may_refuse_appends_of_moved_leaders(self) -> Self {
        let append = "Error processing append operation on partition";
        self.may_log([append, "OutOfOrderSequenceException"])
            .may_log([append, "TransactionCoordinatorFencedException"])
    }

    /// Opens another listener of every broker; its addresses by broker.
    pub fn listen(&mut self, name: &str, protocol: &str) -> BTreeMap<i32, SocketAddr> {
        let brokers = self.nodes.iter_mut().filter(|(id, _)| **id >= KAFKA);
        brokers.map(|(id, node)| (*id, node.listen(name, protocol))).collect()
    }

    /// Sets a configuration key of one member.
    pub fn member_option(mut self, id: i32, key: &str, value: &str) -> Self {
        let node = self.nodes.remove(&id).unwrap_or_else(|| panic!("the cluster has no member {id}"));
        self.nodes.insert(id, node.option(key, value));
        self
    }

    /// Gives every broker a second data directory.
    pub fn widened(mut self) -> Self {
        for id in self.brokers() {
            let [first, second] = self.dirs(id);
            std::fs::create_dir_all(&second).expect("a directory");
            identify(((self.node_ids)(id), id + SECOND), &second);
            let both = format!("{},{}", first.display(), second.display());
            self = self.member_option(id, "log.dirs", &both);
        }
        self
    }

    /// Data directories of a broker, of which the second one is in use if the cluster is
    /// [`widened`](Self::widened).
    pub fn dirs(&self, broker: i32) -> [PathBuf; 2] {
        let node = self.node(broker);
        [node.data(), node.scratch().join("more")]
    }

    /// Formats the directories, starts all members, and returns when the brokers are in service.
    pub fn start(&mut self) {
        self.start_except(&[]);
    }

    /// Like [`Cluster::start`], without the members `left_out`, which stay stopped.
    pub fn start_except(&mut self, left_out: &[i32]) {
        directory::format(&self.shape, &self.nodes, self.node_ids);
        let mut started: Vec<&mut Node> =
            self.nodes.iter_mut().filter(|(id, _)| !left_out.contains(id)).map(|(_, node)| node).collect();
        started.iter_mut().for_each(|node| node.launch());
        started.iter_mut().for_each(|node| node.await_start());
        let brokers: Vec<i32> = self.brokers().into_iter().filter(|id| !left_out.contains(id)).collect();
        self.await_brokers(&brokers);
    }

    /// A member by its node id.
    pub fn node(&self, id: i32) -> &Node {
        self.nodes.get(&id).unwrap_or_else(|| panic!("the cluster has no member {id}"))
    }

    /// A member, to be started or stopped.
    pub fn node_mut(&mut self, id: i32) -> &mut Node {
        self.nodes.get_mut(&id).unwrap_or_else(|| panic!("the cluster has no member {id}"))
    }

    /// Another broker under test with the id of this one, and a separate directory. It is not a
    /// member until the test starts it.
    pub fn twin(&self, id: i32) -> Node {
        let node = self.configured(id, Node::new().sized(256, "INFO"), &self.discovery());
        node.configure();
        std::fs::create_dir_all(node.data()).expect("a directory");
        identify(((self.node_ids)(id), id + TWIN), &node.data());
        node
    }

    /// The networks of the members, which have separate ones.
    pub fn networks(&self) -> &Networks {
        self.networks.as_ref().expect("the members have separate networks")
    }

    /// Ids of the controllers.
    pub fn controllers(&self) -> Vec<i32> {
        self.nodes.keys().copied().filter(|id| *id < KAFKA).collect()
    }

    /// Ids of the brokers.
    pub fn brokers(&self) -> Vec<i32> {
        self.nodes.keys().copied().filter(|id| *id >= KAFKA).collect()
    }

    /// Addresses of all controllers, for `--bootstrap-controller`.
    pub fn bootstrap_controllers(&self) -> String {
        let addresses =
            self.controllers().into_iter().map(|id| self.node(id).controller_address().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Key and value by which the members find the controllers.
    pub fn discovery(&self) -> (&'static str, String) {
        match self.shape.discovery {
            Discovery::BootstrapServers => {
                ("controller.quorum.bootstrap.servers", self.bootstrap_controllers())
            }
            Discovery::Voters => {
                let ids = self.controllers().into_iter();
                let voters =
                    ids.map(|id| format!("{}@{}", (self.node_ids)(id), self.node(id).controller_address()));
                ("controller.quorum.voters", voters.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// State of the quorum as its leader describes it; waits for a leader.
    pub fn quorum(&self) -> QuorumState {
        await_some("a leader of the quorum", LIMIT, || self.quorum_of(&self.controllers()))
    }

    /// State of the quorum as these controllers describe it; `None` if no running one of them
    /// leads.
    pub fn quorum_of(&self, controllers: &[i32]) -> Option<QuorumState> {
        let running = controllers.iter().filter(|id| self.node(**id).is_running());
        running.into_iter().find_map(|id| quorum::describe(self.node(*id).controller_address()))
    }

    /// Kafka's own tools in one JVM, with this broker as their bootstrap server.
    pub fn tools(&self, broker: i32) -> Tools {
        let node = self.node(broker);
        Tools::of(&node.bootstrap(), node.scratch())
    }

    /// Kafka's own tools in one JVM, which find the cluster as long as one broker runs.
    pub fn tools_of_any(&self) -> Tools {
        Tools::of(&self.bootstrap(), self.node(CONTROLLER).scratch())
    }

    /// Addresses of all brokers.
    pub fn bootstrap(&self) -> String {
        let addresses = self.brokers().into_iter().map(|id| self.node(id).bootstrap());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Waits until every running broker lists exactly these brokers for its clients.
    pub fn await_brokers(&self, ids: &[i32]) {
        let node_ids: Vec<i32> = ids.iter().map(|id| (self.node_ids)(*id)).collect();
        for id in ids {
            let address = self.node(*id).address();
            await_some(&format!("brokers {node_ids:?} in the metadata of {id}"), LIMIT, || {
                (announced(address)? == node_ids).then_some(())
            });
        }
    }

    /// True if all replicas of a topic are in sync in the metadata of every broker. The broker that
    /// was without the controllers last may not know yet that it has left them.
    pub fn are_in_sync(&self, topic: &str, replicas: i32) -> bool {
        let of = |id: i32| quorum::in_sync(self.node(id).address(), topic);
        let full = |sets: Vec<Vec<i32>>| {
            !sets.is_empty() && sets.iter().all(|set| i32::try_from(set.len()) == Ok(replicas))
        };
        self.brokers().into_iter().all(|id| of(id).is_some_and(full))
    }

    /// True if this replica is in sync in all partitions of a topic, in the metadata of a broker.
    pub fn is_in_sync(&self, topic: &str, replica: i32, broker: i32) -> bool {
        let sets = quorum::in_sync(self.node(broker).address(), topic).unwrap_or_default();
        !sets.is_empty() && sets.iter().all(|set| set.contains(&(self.node_ids)(replica)))
    }

    /// Fails if a Kafka has logged an error that has no reason in the list, or if a Levada has
    /// panicked.
    pub fn assert_no_errors(&self) {
        let mut found = Vec::new();
        for (id, node) in &self.nodes {
            let history = node.history();
            let errors = match node.kind() {
                Kind::Kafka => java_log::errors(&history, &self.expected),
                Kind::Levada => {
                    history.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect()
                }
            };
            found.extend(errors.into_iter().map(|error| format!("{id}: {error}")));
        }
        assert!(found.is_empty(), "{} errors in the logs:\n{}", found.len(), found.join("\n"));
    }

    /// The node with the configuration of its role.
    fn configured(&self, id: i32, node: Node, (key, controllers): &(&'static str, String)) -> Node {
        let node = node
            .option("node.id", &(self.node_ids)(id).to_string())
            .option("controller.listener.names", "CONTROLLER");
        // A key without its default, so that the unused one is empty.
        let node = match node.kind() {
            Kind::Kafka => node.option("controller.quorum.voters", ""),
            Kind::Levada => node,
        };
        let node = node.option(key, controllers);
        if id < KAFKA {
            let listener = format!("CONTROLLER://{}", node.controller_address());
            return node.option("process.roles", "controller").option("listeners", &listener);
        }
        let node = node.option("process.roles", "broker");
        let own = [
            ("offsets.topic.replication.factor", "1"),
            ("offsets.topic.num.partitions", "6"),
            // A broker of Kafka allocates another buffer when settings change: two of the usual
            // size are more than its heap.
            ("log.cleaner.dedupe.buffer.size", "4194304"),
            ("transaction.state.log.replication.factor", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("transaction.state.log.num.partitions", "6"),
            ("group.initial.rebalance.delay.ms", "0"),
        ];
        own.into_iter().fold(node, |node, (key, value)| node.option(key, value))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (id, node) in &self.nodes {
                let (kind, address) = (node.kind(), node.address());
                eprintln!("member {id} ({kind:?}, {address}): running {}", node.is_running());
            }
        }
    }
}

/// Kafka's command-line tools, one after the other in one JVM.
pub struct Tools(Conversation);

impl Tools {
    /// Tools that find the brokers by these addresses, with a directory for files.
    pub fn of(bootstrap: &str, scratch: &Path) -> Self {
        Self(Tool::own_java("Tools").args([bootstrap, &scratch.display().to_string()]).spawn())
    }

    /// The same for the client that uses ids, times and other parts of the output that change from
    /// run to run.
    pub fn verbatim(bootstrap: &str, scratch: &Path) -> Self {
        let scratch = scratch.display().to_string();
        Self(Tool::own_java("Tools").args([bootstrap, &scratch, "verbatim"]).spawn())
    }

    /// Runs a tool, which must succeed; its output.
    pub fn run(&mut self, line: &str) -> String {
        let (code, said) = self.outcome(line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    }

    /// Runs a tool; its exit code and output.
    pub fn outcome(&mut self, line: &str) -> (i32, String) {
        self.0.say(line);
        let mut said = String::new();
        loop {
            let next = self.0.line(LIMIT);
            match next.strip_prefix("=== ") {
                Some(code) => return (code.parse().expect("an exit code"), said),
                None => said += &(next + "\n"),
            }
        }
    }
}
