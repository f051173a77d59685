//! A broker in one process that leads a partition of two replicas. Tests send requests as the other
//! broker and as clients, and play the controllers by publishing images.

use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use levada_base::batch::Builder;
use levada_config::{BrokerConfig, Listener, Protocol, Sources};
use levada_io::Piece;
use levada_metadata::image::{Image, Position};
use levada_metadata::records::{
    Endpoint, PartitionChangeRecord, PartitionRecord, Record, RegisterBrokerRecord, TopicRecord,
};
use levada_process::shutdown::Stop;
use levada_security::Session;
use levada_wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchedPartition};
use levada_wire::messages::{
    AlterPartitionResponse, DeleteRecordsRequest, ListOffsetsRequest, ListOffsetsResponse, StrBytes,
    alter_partition_request, alter_partition_response, delete_records_request, list_offsets_request,
};
use levada_wire::{ApiKey, RequestHeader, Uuid};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::api::connection_info::ConnectionInfo;
use crate::api::{self, Context, Reply, Service, k02_list_offsets, k21_delete_records};
use crate::broker::Broker;
use crate::replica::Partition;

pub(super) const TOPIC: Uuid = Uuid::from_bytes([7; 16]);
/// Node id of the other broker, and its broker epoch.
pub(super) const OTHER: i32 = 9;
pub(super) const OTHER_EPOCH: i64 = 500;

const FETCH_VERSION: i16 = 17;

pub(super) struct Rig {
    pub(super) broker: Arc<Broker>,
    pub(super) node: i32,
    image: Image,
    service: Rc<Service>,
    runtime: Runtime,
    pub(super) home: tempfile::TempDir,
}

/// Registration of the other broker, without listeners.
fn other() -> RegisterBrokerRecord {
    RegisterBrokerRecord {
        broker_id: OTHER,
        broker_epoch: OTHER_EPOCH,
        rack: Some("far".to_owned()),
        ..RegisterBrokerRecord::default()
    }
}

/// The response for the partition of a produced batch.
#[derive(Debug, PartialEq)]
pub(super) struct Produced {
    pub(super) error_code: i16,
    pub(super) base_offset: i64,
    pub(super) log_append_time_ms: i64,
    pub(super) log_start_offset: i64,
}

impl Rig {
    /// A broker that leads partition 0 of topic `t`, with both brokers in sync.
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    /// As [`Rig::start`], with more settings.
    pub(super) fn start_with(settings: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut flags = vec![format!("log.dirs={}", home.path().display())];
        flags.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let config = BrokerConfig::load(&Sources::flags(flags)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entered = runtime.enter();
        let broker = Broker::open(config, &[]).unwrap();
        drop(entered);
        let (image, node) = (Image::clone(&broker.metadata().image()), broker.node_id());
        let requests = broker.stats().recorder();
        let service = Rc::new(Service { broker: broker.clone(), stop: Stop::new(), large: None, requests });
        let mut rig = Self { broker, node, image, service, runtime, home };
        rig.publish(&[other().into()]);
        rig.create(TOPIC, "t");
        rig
    }

    /// Registers the other broker with a listener of this name.
    pub(super) fn let_other_listen_as(&mut self, name: &str) {
        self.let_other_listen_at(name, ("other", 1));
    }

    /// Registers the other broker with a listener of this name at this address.
    pub(super) fn let_other_listen_at(&mut self, name: &str, (host, port): (&str, u16)) {
        let (name, host) = (name.to_owned(), host.to_owned());
        let endpoint = Endpoint { name, host, port, security_protocol: 0 };
        self.publish(&[RegisterBrokerRecord { end_points: vec![endpoint], ..other() }.into()]);
    }

    /// Starts the separate thread that answers large requests, as in a broker.
    pub(super) fn answer_large_requests_elsewhere(&mut self) {
        let (broker, stop) = (self.broker.clone(), self.service.stop.clone());
        let (large, _thread) = api::large::start(broker.clone(), stop.clone()).unwrap();
        let requests = broker.stats().recorder();
        self.service = Rc::new(Service { broker, stop, large: Some(large), requests });
    }

    /// Creates a topic with one partition that this broker leads, with both brokers in sync.
    pub(super) fn create(&mut self, topic_id: Uuid, name: &str) {
        self.create_alone(topic_id, name);
        let change = PartitionChangeRecord {
            replicas: Some(vec![self.node, OTHER]),
            isr: Some(vec![self.node, OTHER]),
            ..change(topic_id)
        };
        self.publish(&[change.into()]);
    }

    /// Creates a topic with one partition, whose only replica this broker has.
    pub(super) fn create_alone(&mut self, topic_id: Uuid, name: &str) {
        let topic = TopicRecord { name: name.to_owned(), topic_id };
        let alone = PartitionRecord {
            topic_id,
            partition_id: 0,
            replicas: vec![self.node],
            isr: vec![self.node],
            leader: self.node,
            ..PartitionRecord::default()
        };
        self.publish(&[topic.into(), alone.into()]);
    }

    pub(super) fn publish(&mut self, records: &[Record]) {
        for record in records {
            let position = Position { offset: self.image.offset() + 1, ..Position::default() };
            self.image.apply(record, position).unwrap();
        }
        let _entered = self.runtime.enter();
        let publisher = self.broker.publisher();
        publisher.finish(publisher.publish_shared(&self.image)).unwrap();
    }

    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        LocalSet::new().block_on(&self.runtime, work)
    }

    pub(super) fn partition(&self) -> Arc<Partition> {
        self.broker.replicas().partition("t", 0).unwrap()
    }

    /// Commits the change that the broker has asked for, and returns the new replicas in sync.
    pub(super) fn commit_change(&self) -> Vec<i32> {
        let replicas = self.broker.replicas();
        let (number, request) = replicas.replication().request(3).expect("a change is due");
        let asked = &request.topics[0].partitions[0];
        let isr: Vec<i32> = asked.new_isr_with_epochs.iter().map(|member| member.broker_id).collect();
        replicas.isr_answered(number, Some(&committed(request.topics[0].topic_id, asked, &isr)));
        isr
    }

    /// Broker epochs of the members in the change that is due; it stays in flight.
    pub(super) fn change_due(&self) -> Option<Vec<(i32, i64)>> {
        let (_, request) = self.broker.replicas().replication().request(3)?;
        let members = &request.topics[0].partitions[0].new_isr_with_epochs;
        Some(members.iter().map(|member| (member.broker_id, member.broker_epoch)).collect())
    }

    fn context(&self, header: RequestHeader) -> Context {
        let session = Session::anonymous([127, 0, 0, 1].into());
        self.context_by(header, (Protocol::Plaintext, session))
    }

    /// A request of this API and version, by a client of a listener with this protocol.
    pub(super) fn context_of(&self, (api, version): (ApiKey, i16), client: (Protocol, Session)) -> Context {
        self.context_by(RequestHeader { api, version, correlation_id: 1, client_id: None }, client)
    }

    fn context_by(&self, header: RequestHeader, (protocol, session): (Protocol, Session)) -> Context {
        let address: SocketAddr = ([127, 0, 0, 1], 9092).into();
        let listener = Arc::new(Listener { protocol, ..self.broker.config().listeners[0].clone() });
        let info = ConnectionInfo::new(listener, address);
        Context::new(self.service.clone(), header, (Rc::new(info), Rc::new(session), address))
    }

    /// A connection of an anonymous client, which ends when it is dropped.
    pub(super) fn connection(&self) -> Rc<ConnectionInfo> {
        let header = RequestHeader { api: ApiKey::Fetch, version: 4, correlation_id: 1, client_id: None };
        self.context(header).info.clone()
    }

    /// Answers a request frame without its size; returns the response without its size.
    async fn ask(&self, frame: BytesMut) -> Bytes {
        self.ask_over(&self.connection(), frame).await
    }

    /// As [`Rig::ask`], over this connection.
    pub(super) async fn ask_over(&self, connection: &Rc<ConnectionInfo>, mut frame: BytesMut) -> Bytes {
        let header = RequestHeader::decode(&mut frame).unwrap();
        let session = Rc::new(Session::anonymous([127, 0, 0, 1].into()));
        let of = (connection.clone(), session, connection.peer);
        let context = Context::new(self.service.clone(), header, of);
        let reply = api::answer(&context, frame).await.unwrap();
        let (Reply::Send(pieces) | Reply::SendOld(pieces)) = reply else { panic!("there is an answer") };
        let mut bytes = BytesMut::new();
        for piece in pieces {
            match piece {
                Piece::Bytes(piece) => bytes.extend_from_slice(&piece),
                Piece::Extent(extent) | Piece::Volatile(extent) => {
                    let mut records = vec![0; usize::try_from(extent.len).unwrap()];
                    extent.file.read_exact_at(&mut records, extent.offset).unwrap();
                    bytes.extend_from_slice(&records);
                }
            }
        }
        bytes.freeze().slice(4..)
    }

    /// Produces one record; the error code and the offset.
    pub(super) async fn produce(&self, acks: i16, timeout_ms: i32) -> (i16, i64) {
        let mut batch = Builder::new();
        batch.push(0, None, Some(b"value"));
        let produced = self.produce_bytes((acks, timeout_ms), &batch.build().unwrap()).await;
        (produced.error_code, produced.base_offset)
    }

    /// Produces these bytes.
    pub(super) async fn produce_bytes(&self, acks: (i16, i32), records: &[u8]) -> Produced {
        self.produce_in(("t", None), acks, records).await
    }

    /// Produces these bytes to partition 0 of a topic, in a transaction if there is an id.
    pub(super) async fn produce_in(
        &self,
        (topic, transactional_id): (&str, Option<&str>),
        (acks, timeout_ms): (i16, i32),
        records: &[u8],
    ) -> Produced {
        let mut frame = BytesMut::new();
        let length = |text: &str| i16::try_from(text.len()).unwrap();
        // Key, version, no correlation id, no client id.
        [0, 7, 0, 0, -1].into_iter().for_each(|field| frame.put_i16(field));
        frame.put_i16(transactional_id.map_or(-1, length));
        frame.put_slice(transactional_id.unwrap_or_default().as_bytes());
        frame.put_i16(acks);
        frame.put_i32(timeout_ms);
        // One topic with its name, one partition with its index.
        frame.put_i32(1);
        frame.put_i16(length(topic));
        frame.put_slice(topic.as_bytes());
        frame.put_slice(b"\0\0\0\x01\0\0\0\0");
        frame.put_i32(i32::try_from(records.len()).unwrap());
        frame.put_slice(records);
        let mut answer = self.ask(frame).await;
        // Correlation id, one topic with its name, one partition with its index.
        answer.advance(4 + 4 + 2 + topic.len() + 4 + 4);
        Produced {
            error_code: answer.get_i16(),
            base_offset: answer.get_i64(),
            log_append_time_ms: answer.get_i64(),
            log_start_offset: answer.get_i64(),
        }
    }

    /// A fetch of the other broker from this offset, in the present leader epoch.
    pub(super) async fn follow(&self, offset: i64) -> FetchedPartition<Bytes> {
        self.fetch(self.fetch_of(OTHER, offset)).await
    }

    /// As [`Rig::follow`], in partition 0 of another topic.
    pub(super) async fn follow_in(&self, topic_id: Uuid, offset: i64) -> FetchedPartition<Bytes> {
        let mut request = self.fetch_of(OTHER, offset);
        request.topics[0].topic_id = topic_id;
        request.topics[0].partitions[0].current_leader_epoch = -1;
        self.fetch(request).await
    }

    /// A fetch of a consumer that waits for nothing.
    pub(super) async fn consume(&self, offset: i64) -> FetchedPartition<Bytes> {
        self.fetch(self.fetch_of(-1, offset)).await
    }

    pub(super) fn fetch_of(&self, replica_id: i32, fetch_offset: i64) -> FetchRequest {
        let partition = FetchPartition {
            index: 0,
            current_leader_epoch: self.partition().leadership().leader_epoch(),
            fetch_offset,
            last_fetched_epoch: -1,
            log_start_offset: 0,
            max_bytes: 1 << 20,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
        };
        let topic = FetchTopic { name: StrBytes::default(), topic_id: TOPIC, partitions: vec![partition] };
        FetchRequest {
            cluster_id: None,
            replica_id,
            replica_epoch: if replica_id == OTHER { OTHER_EPOCH } else { -1 },
            max_wait_ms: 0,
            min_bytes: 1,
            max_bytes: 10 << 20,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: vec![topic],
            forgotten: Vec::new(),
            rack_id: StrBytes::default(),
        }
    }

    pub(super) async fn fetch(&self, request: FetchRequest) -> FetchedPartition<Bytes> {
        let mut response = self.fetch_all(request).await;
        assert_eq!(response.error_code, 0);
        response.topics.remove(0).partitions.remove(0)
    }

    /// As [`Rig::fetch`], the whole answer.
    pub(super) async fn fetch_all(&self, request: FetchRequest) -> FetchResponse<Bytes> {
        let frame = request.encode(1, "test", FETCH_VERSION).unwrap();
        let answer = self.ask(BytesMut::from(&frame[4..])).await;
        FetchResponse::decode(answer, FETCH_VERSION).unwrap().1
    }

    /// Deletes the records before this offset: error code and low watermark.
    pub(super) async fn delete(&self, offset: i64, timeout_ms: i32) -> (i16, i64) {
        let mut partition = delete_records_request::DeleteRecordsPartition::default();
        partition.offset = offset;
        let mut topic = delete_records_request::DeleteRecordsTopic::default();
        (topic.name, topic.partitions) = ("t".into(), vec![partition]);
        let mut request = DeleteRecordsRequest::default();
        (request.timeout_ms, request.topics) = (timeout_ms, vec![topic]);
        let header = RequestHeader {
            api: levada_wire::ApiKey::DeleteRecords,
            version: 2,
            correlation_id: 1,
            client_id: None,
        };
        let response = k21_delete_records::answer(&self.context(header), request).await;
        let found = &response.topics[0].partitions[0];
        (found.error_code, found.low_watermark)
    }

    /// The offset of a special timestamp: error code and offset.
    pub(super) async fn list(&self, replica_id: i32, timestamp: i64) -> (i16, i64) {
        let mut partition = list_offsets_request::ListOffsetsPartition::default();
        (partition.timestamp, partition.current_leader_epoch) = (timestamp, -1);
        let mut topic = list_offsets_request::ListOffsetsTopic::default();
        (topic.name, topic.partitions) = ("t".into(), vec![partition]);
        let mut request = ListOffsetsRequest::default();
        (request.replica_id, request.topics) = (replica_id, vec![topic]);
        let header = RequestHeader {
            api: levada_wire::ApiKey::ListOffsets,
            version: 7,
            correlation_id: 1,
            client_id: None,
        };
        let response: ListOffsetsResponse = k02_list_offsets::answer(&self.context(header), request).await;
        let found = &response.topics[0].partitions[0];
        (found.error_code, found.offset)
    }
}

/// A change of partition 0 that changes nothing yet.
pub(super) fn change(topic_id: Uuid) -> PartitionChangeRecord {
    PartitionChangeRecord { topic_id, partition_id: 0, ..PartitionChangeRecord::default() }
}

fn committed(
    topic_id: Uuid,
    asked: &alter_partition_request::PartitionData,
    isr: &[i32],
) -> AlterPartitionResponse {
    let mut partition = alter_partition_response::PartitionData::default();
    partition.partition_index = asked.partition_index;
    partition.leader_epoch = asked.leader_epoch;
    partition.partition_epoch = asked.partition_epoch + 1;
    partition.isr = isr.to_vec();
    let mut topic = alter_partition_response::TopicData::default();
    (topic.topic_id, topic.partitions) = (topic_id, vec![partition]);
    let mut response = AlterPartitionResponse::default();
    response.topics = vec![topic];
    response
}
