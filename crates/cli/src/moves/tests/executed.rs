//! Tests of moves against a fake cluster: brokers 1, 2 and 3 behind one address, with the
//! partition clicks/0.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clap::Parser;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use levada_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use levada_wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, DescribeClusterResponse,
    DescribeConfigsResponse, DescribeLogDirsResponse, ElectLeadersResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, ListPartitionReassignmentsResponse, MetadataResponse,
};
use levada_wire::{ApiKey, StrBytes};

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    moves: MoveArgs,
}

/// The partition, and who else changes it.
#[derive(Debug, Default)]
struct State {
    replicas: Vec<i32>,
    /// Target of the move, and the number of lists until it ends.
    target: Option<(Vec<i32>, usize)>,
    /// Number of connections that end during the move.
    losses: usize,
    /// Broker that is fenced as soon as the move has begun.
    killed: Option<i32>,
    /// Broker that does not respond, and is not fenced, as soon as the move has begun.
    silent: Option<i32>,
    /// Brokers whose settings changed after the begin of the move.
    changed: Vec<i32>,
    /// Changes of the partition that were requested.
    requested: Vec<Option<Vec<i32>>>,
    elections: usize,
}

impl State {
    /// Answers a request; ends the move after some lists.
    fn answer(&mut self, asked: &Asked) -> Option<Bytes> {
        match asked.header.api {
            ApiKey::Metadata => asked.answer(&self.metadata(asked.port())),
            ApiKey::DescribeCluster => asked.answer(&described(asked.port(), self.fenced())),
            ApiKey::IncrementalAlterConfigs => self.alter_configs(asked),
            ApiKey::DescribeConfigs => asked.answer(&DescribeConfigsResponse::default()),
            ApiKey::DescribeLogDirs => asked.answer(&DescribeLogDirsResponse::default()),
            ApiKey::AlterPartitionReassignments => asked.answer(&self.alter(&asked.decoded())),
            ApiKey::ElectLeaders => {
                self.elections += 1;
                asked.answer(&ElectLeadersResponse::default())
            }
            ApiKey::ListPartitionReassignments => self.list(asked),
            other => panic!("no answer to {other:?}"),
        }
    }

    /// Changes settings; closes the connection to a silent broker.
    fn alter_configs(&mut self, asked: &Asked) -> Option<Bytes> {
        let request: IncrementalAlterConfigsRequest = asked.decoded();
        let broker: Option<i32> = request.resources[0].resource_name.as_str().parse().ok();
        if !self.requested.is_empty() {
            if broker.is_some() && broker == self.silent {
                return None;
            }
            self.changed.extend(broker);
        }
        asked.answer(&IncrementalAlterConfigsResponse::default())
    }

    fn fenced(&self) -> Option<i32> {
        self.killed.filter(|_| !self.requested.is_empty())
    }

    fn metadata(&self, port: u16) -> MetadataResponse {
        let broker = |id| {
            let mut broker = MetadataResponseBroker::default();
            (broker.node_id, broker.port) = (id, i32::from(port));
            broker.host = StrBytes::from("127.0.0.1");
            broker
        };
        let mut partition = MetadataResponsePartition::default();
        partition.leader_id = 1;
        (partition.replica_nodes, partition.isr_nodes) = (self.replicas.clone(), self.replicas.clone());
        let mut topic = MetadataResponseTopic::default();
        (topic.name, topic.partitions) = (Some(StrBytes::from("clicks")), vec![partition]);
        let mut response = MetadataResponse::default();
        let serving = (1..=3).filter(|id| Some(*id) != self.fenced());
        (response.brokers, response.topics) = (serving.map(broker).collect(), vec![topic]);
        response
    }

    fn alter(&mut self, request: &AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse {
        let asked = request.topics[0].partitions[0].replicas.clone();
        self.target = asked.clone().map(|target| (target, 3));
        self.requested.push(asked);
        let mut topic = ReassignableTopicResponse::default();
        topic.name = StrBytes::from("clicks");
        topic.partitions = vec![ReassignablePartitionResponse::default()];
        let mut response = AlterPartitionReassignmentsResponse::default();
        response.responses = vec![topic];
        response
    }

    fn list(&mut self, asked: &Asked) -> Option<Bytes> {
        let mut response = ListPartitionReassignmentsResponse::default();
        let Some((target, left)) = &mut self.target else { return asked.answer(&response) };
        if self.losses > 0 {
            self.losses -= 1;
            return None;
        }
        *left -= 1;
        if *left == 0 {
            self.replicas.clone_from(target);
            self.target = None;
            return asked.answer(&response);
        }
        let mut one = OngoingPartitionReassignment::default();
        one.adding_replicas = target.iter().copied().filter(|id| !self.replicas.contains(id)).collect();
        one.removing_replicas = self.replicas.iter().copied().filter(|id| !target.contains(id)).collect();
        one.replicas = target.iter().chain(&one.removing_replicas).copied().collect();
        let mut topic = OngoingTopicReassignment::default();
        (topic.name, topic.partitions) = (StrBytes::from("clicks"), vec![one]);
        response.topics = vec![topic];
        asked.answer(&response)
    }
}

fn described(port: u16, fenced: Option<i32>) -> DescribeClusterResponse {
    let broker = |id| {
        let mut broker = DescribeClusterBroker::default();
        (broker.broker_id, broker.port) = (id, i32::from(port));
        broker.host = StrBytes::from("127.0.0.1");
        broker.is_fenced = Some(id) == fenced;
        broker
    };
    let mut response = DescribeClusterResponse::default();
    response.brokers = (1..=3).map(broker).collect();
    response
}

/// Moves clicks/0 from brokers 1 and 2 to 1 and 3 with these options; the result, what was printed
/// and the state afterwards.
fn moved(mut state: State, options: &[&str]) -> (Result<(), Failure>, serde_json::Value, State) {
    state.replicas = vec![1, 2];
    let state = Arc::new(Mutex::new(state));
    let shared = Arc::clone(&state);
    let broker = FakeBroker::start(move |asked| shared.lock().unwrap().answer(asked));
    let words = [&["move", "--output", "json", "-b", broker.address()], options].concat();
    let line = Line::try_parse_from(words).unwrap();
    let mut cluster = line.brokers.connect().unwrap();
    let layout = Layout::ask(&mut cluster).unwrap();
    let planned = [one(("clicks", 0), &[1, 2], &[1, 3])];
    let mut out = Vec::new();
    let ended = line.moves.carry_out(&mut cluster, (&layout, &planned), &mut out);
    let printed = serde_json::from_slice(&out).unwrap_or_default();
    let state = std::mem::take(&mut *state.lock().unwrap());
    (ended, printed, state)
}

#[test]
fn move_plan_without_execute_sends_nothing() {
    let (ended, printed, state) = moved(State::default(), &[]);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!((&printed["executed"], &printed["complete"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(state.requested, []);
}

#[test]
fn a_move_ends_when_the_replicas_are_there() {
    let (ended, printed, state) = moved(State::default(), &["--execute"]);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!((&printed["executed"], &printed["complete"]), (&true.into(), &true.into()));
    assert_eq!((state.requested, state.elections), (vec![Some(vec![1, 3])], 0), "broker 1 leads already");
}

#[test]
fn a_lost_connection_does_not_end_the_wait() {
    let (ended, printed, state) = moved(State { losses: 2, ..State::default() }, &["--execute"]);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!((&printed["complete"], state.requested.len()), (&true.into(), 1));
}

#[test]
fn dead_broker_does_not_fail_throttled_move() {
    let killed = State { killed: Some(2), ..State::default() };
    let (ended, printed, state) = moved(killed, &["--execute", "--throttle", "1MiB"]);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!((&printed["complete"], state.replicas), (&true.into(), vec![1, 3]));
}

/// The session of a dead broker ends some seconds after its death.
#[test]
fn unfenced_dead_broker_keeps_its_throttle() {
    let silent = State { silent: Some(1), ..State::default() };
    let (ended, printed, state) = moved(silent, &["--execute", "--throttle", "1MiB"]);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!((&printed["complete"], state.changed), (&true.into(), vec![2, 3]));
}

#[test]
fn foreign_reassignment_is_not_replaced() {
    let other = || State { target: Some((vec![1, 2, 3], 5)), ..State::default() };
    let (ended, _, state) = moved(other(), &["--execute"]);
    assert!(format!("{ended:?}").contains("clicks/0 is already moving to 1,2,3"), "{ended:?}");
    assert_eq!(state.requested, []);
    let (ended, _, state) = moved(other(), &["--execute", "--overwrite"]);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(state.replicas, [1, 3]);
}

#[test]
fn undo_file_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("back.json");
    let path = file.to_str().unwrap();
    let (ended, _, _) = moved(State::default(), &["--execute", "--undo", path]);
    assert!(ended.is_ok(), "{ended:?}");
    let back = std::fs::read_to_string(&file).unwrap();
    assert_eq!(back, r#"{"version":1,"partitions":[{"topic":"clicks","partition":0,"replicas":[1,2]}]}"#);
    let (ended, _, state) = moved(State::default(), &["--execute", "--undo", path]);
    assert!(format!("{ended:?}").contains("nothing was moved"), "{ended:?}");
    assert_eq!(state.requested, []);
    let early = plan::check_way_back(Some(&file));
    assert!(early.is_err_and(|failure| failure.line().contains("nothing was moved")), "before the plan");
    assert!(plan::check_way_back(Some(&dir.path().join("other.json"))).is_ok());
}

#[test]
fn a_move_without_waiting_is_not_complete() {
    let (ended, printed, state) = moved(State::default(), &["--execute", "--no-wait"]);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!((&printed["complete"], state.requested.len()), (&serde_json::Value::Null, 1));
}

#[test]
fn a_cancelled_move_is_a_failure() {
    let place = one(("clicks", 0), &[1, 2], &[1, 3]);
    let mut layout = super::layout();
    assert!(progress::arrived(std::slice::from_ref(&place), &layout).is_err_and(|failures| {
        failures[0].line().contains("has replicas 1,2 and not 1,3: its move was cancelled")
    }));
    layout.partitions.get_mut(&place.place()).unwrap().replicas = vec![1, 3];
    assert!(progress::arrived(&[place], &layout).is_ok());
}
