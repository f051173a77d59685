//! A broker for unit tests, also those of crates that use this one (feature `testing`): its closure
//! responds to each request.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::frame::FrameBuffer;
use levada_wire::messages::api_versions_response::ApiVersion;
use levada_wire::messages::find_coordinator_response::Coordinator;
use levada_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use levada_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use levada_wire::messages::{
    ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdResponse,
    KafkaMessage, KafkaResponse, MetadataResponse, ProduceRequest, ProduceResponse,
};
use levada_wire::{ApiKey, RequestHeader, StrBytes, Uuid, decode, encode_response};

/// APIs of the fake broker with the newest version. Topics have names in all of them, except in
/// Fetch.
const OFFERED: [(ApiKey, i16); 34] = [
    (ApiKey::Produce, 12),
    (ApiKey::Fetch, 13),
    (ApiKey::ListOffsets, 7),
    (ApiKey::Metadata, 12),
    (ApiKey::OffsetCommit, 9),
    (ApiKey::OffsetFetch, 9),
    (ApiKey::FindCoordinator, 4),
    (ApiKey::LeaveGroup, 5),
    (ApiKey::DeleteRecords, 2),
    (ApiKey::InitProducerId, 4),
    (ApiKey::CreatePartitions, 3),
    (ApiKey::IncrementalAlterConfigs, 1),
    (ApiKey::ConsumerGroupHeartbeat, 1),
    (ApiKey::ConsumerGroupDescribe, 0),
    (ApiKey::DescribeGroups, 5),
    (ApiKey::CreateTopics, 7),
    (ApiKey::DeleteAcls, 3),
    (ApiKey::DescribeCluster, 2),
    (ApiKey::DescribeConfigs, 4),
    (ApiKey::AlterPartitionReassignments, 0),
    (ApiKey::ListPartitionReassignments, 0),
    (ApiKey::ElectLeaders, 2),
    (ApiKey::DescribeQuorum, 2),
    (ApiKey::UnregisterBroker, 0),
    (ApiKey::DescribeDelegationToken, 3),
    (ApiKey::DescribeLogDirs, 4),
    (ApiKey::ListGroups, 5),
    (ApiKey::ShareGroupHeartbeat, 1),
    (ApiKey::ShareGroupDescribe, 1),
    (ApiKey::ShareFetch, 2),
    (ApiKey::ShareAcknowledge, 2),
    (ApiKey::DescribeShareGroupOffsets, 1),
    (ApiKey::AlterShareGroupOffsets, 0),
    (ApiKey::DeleteShareGroupOffsets, 0),
];
const FRAME_BYTES: u32 = 64 << 20;

/// Id of a broker in the fake broker's metadata whose address refuses connections.
pub const DEAD: i32 = 99;
/// Port of that broker.
const DEAD_PORT: i32 = 1;

/// A listener with one thread for each connection.
#[derive(Debug)]
pub struct FakeBroker {
    address: String,
    closed: Arc<AtomicUsize>,
}

/// A request to the fake broker.
#[derive(Debug)]
pub struct Asked {
    /// Header of the request.
    pub header: RequestHeader,
    body: Bytes,
    port: u16,
    is_last: Cell<bool>,
}

/// A topic of the fake broker's metadata: its name, its id, and the leader of each partition, or
/// -1.
pub type FakeTopic<'a> = (&'a str, u128, &'a [i32]);

impl FakeBroker {
    /// Serves until the end of the process. `answer` returns the frame of the response, or `None`
    /// to close the connection.
    pub fn start(answer: impl FnMut(&Asked) -> Option<Bytes> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let answer = Arc::new(Mutex::new(answer));
        let closed = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&closed);
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (answer, counter, socket) =
                    (Arc::clone(&answer), Arc::clone(&counter), socket.expect("a connection"));
                thread::spawn(move || {
                    let mut answer =
                        |asked: &Asked| answer.lock().unwrap_or_else(PoisonError::into_inner)(asked);
                    // The client may end at any time.
                    let _ = serve(socket, port, &mut answer);
                    counter.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address: format!("127.0.0.1:{port}"), closed }
    }

    /// A broker with a topic `clicks`, which passes each batch to `take`, with its partition; the
    /// result is the error code of the response.
    pub fn storing(
        leaders: &'static [i32],
        mut take: impl FnMut(&Asked, i32, Bytes) -> i16 + Send + 'static,
    ) -> Self {
        Self::start(move |asked| match asked.header.api {
            ApiKey::Metadata => asked.metadata(&[("clicks", 1, leaders)]),
            ApiKey::InitProducerId => asked.answer(&InitProducerIdResponse::default()),
            _ => asked.produced(|partition, batch| take(asked, partition, batch)),
        })
    }

    /// Waits until this number of connections has ended.
    pub fn await_closed(&self, count: usize) {
        let started = Instant::now();
        while self.closed.load(Ordering::SeqCst) < count {
            assert!(started.elapsed() < Duration::from_secs(60), "no connection has ended");
            thread::yield_now();
        }
    }

    /// Address of the broker, `host:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

fn serve(
    mut socket: TcpStream,
    port: u16,
    answer: &mut dyn FnMut(&Asked) -> Option<Bytes>,
) -> io::Result<()> {
    let mut frames = FrameBuffer::new(FRAME_BYTES);
    let mut chunk = [0; 65536];
    loop {
        while let Some(mut frame) = frames.next_frame().expect("a frame") {
            let header = RequestHeader::decode(&mut frame).expect("a header");
            let asked = Asked { header, body: frame.freeze(), port, is_last: Cell::new(false) };
            let response = match asked.header.api {
                ApiKey::ApiVersions => asked.answer(&versions()),
                _ => answer(&asked),
            };
            let Some(response) = response else { return Ok(()) };
            socket.write_all(&response)?;
            if asked.is_last.get() {
                return Ok(());
            }
        }
        let count = socket.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        frames.spare().extend_from_slice(&chunk[..count]);
    }
}

fn versions() -> ApiVersionsResponse {
    let mut response = ApiVersionsResponse::default();
    for (key, max) in OFFERED {
        let mut api = ApiVersion::default();
        (api.api_key, api.max_version) = (key.wire(), max);
        response.api_keys.push(api);
    }
    response
}

impl Asked {
    /// The body of the request.
    pub fn decoded<R: KafkaMessage>(&self) -> R {
        decode(self.body.clone(), self.header.version).expect("a request")
    }

    /// Port of the broker.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Closes the connection after the response.
    pub fn close(&self) {
        self.is_last.set(true);
    }

    /// The frame of a response.
    pub fn answer<R: KafkaResponse>(&self, response: &R) -> Option<Bytes> {
        Some(encode_response(self.header.correlation_id, self.header.version, response).expect("a response"))
    }

    /// The frame of the response to a produce request with one batch, which `take` gets with its
    /// partition; the result is the error code.
    pub fn produced(&self, take: impl FnOnce(i32, Bytes) -> i16) -> Option<Bytes> {
        let request = self.decoded::<ProduceRequest>();
        let asked = &request.topic_data[0];
        let index = asked.partition_data[0].index;
        let batch = asked.partition_data[0].records.clone().expect("a batch");
        let mut partition = PartitionProduceResponse::default();
        (partition.index, partition.error_code) = (index, take(index, batch));
        let mut topic = TopicProduceResponse::default();
        topic.name = asked.name.clone();
        topic.partition_responses = vec![partition];
        let mut response = ProduceResponse::default();
        response.responses = vec![topic];
        if request.acks == 0 { Some(Bytes::new()) } else { self.answer(&response) }
    }

    /// The frame of a response that names this broker as the coordinator.
    #[must_use]
    pub fn coordinator(&self) -> Option<Bytes> {
        let mut coordinator = Coordinator::default();
        coordinator.key = self.decoded::<FindCoordinatorRequest>().coordinator_keys[0].clone();
        (coordinator.node_id, coordinator.port) = (1, i32::from(self.port));
        coordinator.host = StrBytes::from("127.0.0.1");
        let mut response = FindCoordinatorResponse::default();
        response.coordinators = vec![coordinator];
        self.answer(&response)
    }

    /// The frame of a metadata response: this broker is each of the leaders but [`DEAD`], and the
    /// controller.
    #[must_use]
    pub fn metadata(&self, topics: &[FakeTopic<'_>]) -> Option<Bytes> {
        let mut response = MetadataResponse::default();
        response.controller_id = 1;
        for node in topics.iter().flat_map(|topic| topic.2).chain([&1]).filter(|node| **node >= 0) {
            let mut broker = MetadataResponseBroker::default();
            broker.node_id = *node;
            broker.port = if *node == DEAD { DEAD_PORT } else { i32::from(self.port) };
            broker.host = StrBytes::from("127.0.0.1");
            response.brokers.push(broker);
        }
        for (name, id, leaders) in topics {
            let mut topic = MetadataResponseTopic::default();
            (topic.name, topic.topic_id) = (Some(StrBytes::from(*name)), Uuid::from_bytes(id.to_be_bytes()));
            for (index, leader) in (0..).zip(*leaders) {
                let mut partition = MetadataResponsePartition::default();
                (partition.partition_index, partition.leader_id) = (index, *leader);
                partition.error_code = if *leader < 0 { ErrorCode::LeaderNotAvailable.code() } else { 0 };
                topic.partitions.push(partition);
            }
            response.topics.push(topic);
        }
        self.answer(&response)
    }
}
