//! A controller on a socket: it leads a quorum of one, has a log of a few records, and answers what
//! a broker asks in the highest version.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use levada_base::batch::Builder;
use levada_cluster::observer::METADATA_TOPIC_ID;
use levada_wire::api::controller::{self, CONTROLLER_APIS, ControllerApi};
use levada_wire::fetch::{FetchResponse, FetchedPartition, FetchedTopic};
use levada_wire::gather::Piece;
use levada_wire::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, ApiVersionsResponse,
    AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, BrokerHeartbeatRequest,
    BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse, EnvelopeRequest,
    EnvelopeResponse, KafkaResponse, api_versions_response, assign_replicas_to_dirs_response,
};
use levada_wire::produce::{LeaderEpoch, NodeEndpoint};
use levada_wire::{StrBytes, decode, encode_response};
use parking_lot::{Condvar, Mutex};

use levada_metadata::records::{self, Record, TopicRecord};

/// Offset of the only record, which makes a topic.
pub(super) const TOPIC_OFFSET: i64 = 0;

/// State of a controller.
#[derive(Default)]
pub(super) struct State {
    pub(super) epoch: i32,
    /// The node that it names as the leader, and its port.
    pub(super) leader: i32,
    pub(super) leader_port: u16,
    /// True if the controller acknowledges reports of directories.
    pub(super) acknowledges: bool,
    /// Error code of the next Envelopes.
    pub(super) envelope_errors: Vec<i16>,
    /// Requests of these APIs are read and never answered.
    pub(super) mute: Vec<i16>,
    /// Requests received, by API.
    pub(super) received: Vec<i16>,
    pub(super) heartbeats: Vec<BrokerHeartbeatRequest>,
    /// Error code of the responses to registrations.
    pub(super) registration_error: i16,
    /// Features that the cluster has finalized, with their levels.
    pub(super) finalized: Vec<(&'static str, i16)>,
    /// Error code of the responses to heartbeats.
    pub(super) heartbeat_error: i16,
    /// The highest version of a heartbeat that it knows, if not that of Levada.
    pub(super) heartbeat_version: Option<i16>,
    /// A voter that its log names besides itself, together with `kraft.version` 1.
    pub(super) voter: Option<i32>,
    next_producer_id: i64,
}

/// A controller that runs until the process ends.
pub(super) struct Controller {
    pub(super) id: i32,
    pub(super) address: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

impl Controller {
    /// A controller of epoch 1, which it leads.
    pub(super) fn start(id: i32) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            epoch: 1,
            leader: id,
            leader_port: address.port(),
            acknowledges: true,
            ..State::default()
        };
        let controller = Arc::new(Self { id, address, state: Mutex::new(state), changed: Condvar::new() });
        let accepting = controller.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = accepting.clone();
                thread::spawn(move || serving.serve(stream.unwrap()));
            }
        });
        controller
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// Waits until the state is as wanted.
    pub(super) fn wait<T>(&self, find: impl Fn(&State) -> Option<T>) -> T {
        let mut state = self.state.lock();
        loop {
            if let Some(found) = find(&state) {
                return found;
            }
            let timeout = self.changed.wait_for(&mut state, std::time::Duration::from_secs(60));
            assert!(!timeout.timed_out(), "not within a minute; received {:?}", state.received);
        }
    }

    /// Answers the requests of one connection until its end.
    fn serve(&self, mut stream: TcpStream) {
        loop {
            let mut size = [0; 4];
            if stream.read_exact(&mut size).is_err() {
                return;
            }
            let mut frame = vec![0; u32::from_be_bytes(size) as usize];
            if stream.read_exact(&mut frame).is_err() {
                return;
            }
            let short = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
            let (key, version) = (short(0), short(2));
            let correlation_id = i32::from_be_bytes(frame[4..8].try_into().unwrap());
            // The client id, and no tags.
            let body = Bytes::copy_from_slice(&frame[11 + short(8).unsigned_abs() as usize..]);
            let is_mute = self.state.lock().mute.contains(&key);
            let answer = (!is_mute).then(|| self.answer((key, version), correlation_id, body));
            self.change(|state| state.received.push(key));
            if answer.is_some_and(|answer| stream.write_all(&answer).is_err()) {
                return;
            }
        }
    }

    fn answer(&self, (key, version): (i16, i16), correlation_id: i32, body: Bytes) -> Vec<u8> {
        let is = |api: ControllerApi| api.key == key;
        if is(controller::FETCH) {
            let at_end = body_offset_is_end(&body);
            if at_end {
                // As a leader without news, which waits; here for a change of the state.
                let mut state = self.state.lock();
                self.changed.wait_for(&mut state, std::time::Duration::from_millis(100));
            }
            return self.fetched(correlation_id, version, at_end);
        }
        if is(controller::BROKER_REGISTRATION) {
            decode::<BrokerRegistrationRequest>(body, version).unwrap();
            let mut response = BrokerRegistrationResponse::default();
            response.broker_epoch = 7;
            response.error_code = self.state.lock().registration_error;
            return encoded(correlation_id, version, &response);
        }
        if is(controller::BROKER_HEARTBEAT) {
            let request = decode::<BrokerHeartbeatRequest>(body, version).unwrap();
            let mut response = BrokerHeartbeatResponse::default();
            response.is_caught_up = request.current_metadata_offset >= TOPIC_OFFSET;
            response.is_fenced = request.want_fence;
            response.should_shut_down = request.want_shut_down;
            response.error_code = self.state.lock().heartbeat_error;
            self.change(|state| state.heartbeats.push(request));
            return encoded(correlation_id, version, &response);
        }
        if is(controller::ALLOCATE_PRODUCER_IDS) {
            decode::<AllocateProducerIdsRequest>(body, version).unwrap();
            let mut response = AllocateProducerIdsResponse::default();
            self.change(|state| {
                response.producer_id_start = state.next_producer_id;
                state.next_producer_id += 3;
            });
            response.producer_id_len = 3;
            return encoded(correlation_id, version, &response);
        }
        if is(controller::ASSIGN_REPLICAS_TO_DIRS) {
            let request = decode::<AssignReplicasToDirsRequest>(body, version).unwrap();
            return encoded(correlation_id, version, &self.assigned(&request));
        }
        if is(controller::ENVELOPE) {
            let request = decode::<EnvelopeRequest>(body, version).unwrap();
            let mut response = EnvelopeResponse::default();
            self.change(|state| response.error_code = state.envelope_errors.pop().unwrap_or(0));
            // The correlation id of the request inside, as a response has it.
            response.response_data = (response.error_code == 0).then(|| request.request_data.slice(4..));
            return encoded(correlation_id, version, &response);
        }
        assert!(is(controller::API_VERSIONS), "API {key}");
        let rows = CONTROLLER_APIS.iter().map(|api| {
            let mut row = api_versions_response::ApiVersion::default();
            (row.api_key, row.min_version, row.max_version) = (api.key, api.min, api.max);
            if api.key == controller::BROKER_HEARTBEAT.key {
                row.max_version = self.state.lock().heartbeat_version.unwrap_or(api.max);
            }
            row
        });
        let mut response = ApiVersionsResponse::default();
        response.api_keys = rows.collect();
        let levels = self.state.lock().finalized.clone();
        let levels = levels.into_iter().map(|(name, level)| {
            let mut feature = api_versions_response::FinalizedFeatureKey::default();
            (feature.name, feature.max_version_level) = (StrBytes::from(name), level);
            feature
        });
        response.finalized_features = levels.collect();
        encoded(correlation_id, version, &response)
    }

    fn assigned(&self, request: &AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse {
        let error_code = if self.state.lock().acknowledges { 0 } else { 77 };
        let mut response = AssignReplicasToDirsResponse::default();
        for directory in &request.directories {
            let mut entry = assign_replicas_to_dirs_response::DirectoryData::default();
            entry.id = directory.id;
            for topic in &directory.topics {
                let mut data = assign_replicas_to_dirs_response::TopicData::default();
                data.topic_id = topic.topic_id;
                for partition in &topic.partitions {
                    let mut result = assign_replicas_to_dirs_response::PartitionData::default();
                    (result.partition_index, result.error_code) = (partition.partition_index, error_code);
                    data.partitions.push(result);
                }
                entry.topics.push(data);
            }
            response.directories.push(entry);
        }
        response
    }

    fn fetched(&self, correlation_id: i32, version: i16, at_end: bool) -> Vec<u8> {
        let state = self.state.lock();
        let mut partition = FetchedPartition::new(0);
        partition.current_leader = Some(LeaderEpoch { leader_id: state.leader, leader_epoch: state.epoch });
        if state.leader == self.id {
            let voters = state.voter.filter(|_| at_end).map(voters);
            partition.high_watermark = TOPIC_OFFSET + 1 + if voters.is_some() { 2 } else { 0 };
            partition.records = if at_end { voters } else { Some(log(1)) };
        } else {
            partition.error_code = 6;
        }
        let name = StrBytes::default();
        let topic = FetchedTopic { name, topic_id: METADATA_TOPIC_ID, partitions: vec![partition] };
        let leader = NodeEndpoint {
            node_id: state.leader,
            host: StrBytes::from("127.0.0.1"),
            port: state.leader_port.into(),
            rack: None,
        };
        let response = FetchResponse {
            throttle_time_ms: 0,
            error_code: 0,
            session_id: 0,
            topics: vec![topic],
            node_endpoints: vec![leader],
        };
        let pieces = response.encode(correlation_id, version).unwrap().into_pieces();
        let bytes = pieces.into_iter().map(|piece| match piece {
            Piece::Bytes(bytes) | Piece::Hole(bytes) => bytes,
        });
        bytes.flatten().collect()
    }
}

/// A log with one record.
fn log(epoch: i32) -> Bytes {
    let record =
        Record::Topic(TopicRecord { name: "t".to_owned(), topic_id: levada_wire::Uuid::from_bytes([9; 16]) });
    let mut batch = Builder::new().base_offset(TOPIC_OFFSET).leader_epoch(epoch);
    batch.push(0, None, Some(&records::encode(&record).unwrap()));
    batch.build().unwrap().freeze()
}

/// A control batch after the only record, which finalizes `kraft.version` 1 and names this voter.
fn voters(id: i32) -> Bytes {
    // Version 0, and an array of one voter: its id, no directory, and an array of one endpoint.
    let mut value = vec![0, 0, 2];
    value.extend_from_slice(&id.to_be_bytes());
    value.extend_from_slice(&[0; 16]);
    value.extend_from_slice(b"\x02\x0bCONTROLLER\x0a127.0.0.1");
    // The port, tags, the range of kraft.version with its tags, and the tags of voter and record.
    value.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 0, 0, 0]);
    let mut batch = Builder::new().base_offset(TOPIC_OFFSET + 1).leader_epoch(1).control();
    batch.push(0, Some(&[0, 0, 0, 5]), Some(&[0, 0, 0, 1, 0]));
    batch.push(0, Some(&[0, 0, 0, 6]), Some(&value));
    batch.build().unwrap().freeze()
}

/// True if a Fetch asks after the only record.
fn body_offset_is_end(body: &Bytes) -> bool {
    levada_wire::decode::<levada_wire::messages::FetchRequest>(body.clone(), 18).unwrap().topics[0].partitions
        [0]
    .fetch_offset
        > TOPIC_OFFSET
}

fn encoded<R: KafkaResponse>(correlation_id: i32, version: i16, response: &R) -> Vec<u8> {
    encode_response(correlation_id, version, response).unwrap().to_vec()
}
