//! The Kafka APIs, one file each, named by key. This file lists them and selects the one of a
//! request.
//!
//! To serve another API: write its file and add one line to `serve!`, the source of all lists.

use std::borrow::Cow;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use levada_io::Piece;
use levada_metadata::controller::TOPIC_NAME_BYTES_MAX;
use levada_process::shutdown::Stop;
use levada_process::turns::Turn;
use levada_security::Session;
use levada_wire::api::Api;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{KafkaRequest, KafkaResponse, StrBytes};
use levada_wire::{ApiKey, DecodeError, EncodeError, RequestHeader, Uuid};
use tokio::sync::mpsc;

use crate::api::connection_info::ConnectionInfo;
use crate::api::errors::{AnswerFields, Sentences};
use crate::api::large::{LargeRequest, LargeWork};
use crate::api::meter::Meter;
use crate::broker::Broker;
use crate::quota::{Client, MutationQuota};
use crate::replica::Partition;
use crate::request_memory::{Held, UNCOUNTED_BYTES};
use crate::stats::Recorder;

mod access;
mod changes;
mod commits;
pub(crate) mod connection_info;
mod described;
mod errors;
mod group_order;
mod heartbeats;
pub(crate) mod large;
mod leaders;
mod merged;
pub(crate) mod meter;
mod nodes;
mod records;
mod share_acks;
mod share_state;
mod tokens;
mod voters;

/// Builds a message of the codec crate: its defaults, with these fields set.
macro_rules! message {
    ($type:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let mut message = $type::default();
        $(message.$field = $value;)*
        message
    }};
}

mod configurable;
mod forwarding;

/// Implements the response to one API: decodes the request, calls its function, and encodes the
/// response.
macro_rules! answer_decoded {
    ($context:ident, $body:ident, $file:ident) => {
        // In a box: each connection has room for the largest of the others all the time.
        Box::pin(async move {
            let elsewhere = $body.len() >= LARGE_BYTES && $context.service.large.is_some();
            let request = decode($context, $body, elsewhere).await?;
            encode($context, $file::answer($context, request).await, elsewhere).await
        })
        .await
    };
}

/// Declares the served APIs: hot ones return pieces, the others map a request to a response.
macro_rules! serve {
    (
        hot { $($hot_key:ident => $hot_file:ident,)* }
        plain { $($key:ident => $file:ident,)* }
    ) => {
        $(mod $hot_file;)*
        $(mod $file;)*

        /// APIs of every broker.
        const SERVED: &[ApiKey] = &[$(ApiKey::$hot_key,)* $(ApiKey::$key,)*];

        /// Responds to a request on this thread.
        pub(crate) async fn dispatch(context: &Context, body: BytesMut) -> Result<Reply, RequestError> {
            match context.header.api {
                $(ApiKey::$hot_key => $hot_file::answer(context, body).await,)*
                $(ApiKey::$key => answer_decoded!(context, body, $file),)*
            }
        }
    };
}

serve! {
    hot {
        Produce => k00_produce,
        Fetch => k01_fetch,
        ShareFetch => k78_share_fetch,
    }
    plain {
        ListOffsets => k02_list_offsets,
        Metadata => k03_metadata,
        OffsetCommit => k08_offset_commit,
        OffsetFetch => k09_offset_fetch,
        FindCoordinator => k10_find_coordinator,
        JoinGroup => k11_join_group,
        Heartbeat => k12_heartbeat,
        LeaveGroup => k13_leave_group,
        SyncGroup => k14_sync_group,
        DescribeGroups => k15_describe_groups,
        ListGroups => k16_list_groups,
        SaslHandshake => k17_sasl_handshake,
        ApiVersions => k18_api_versions,
        CreateTopics => k19_create_topics,
        DeleteTopics => k20_delete_topics,
        DeleteRecords => k21_delete_records,
        InitProducerId => k22_init_producer_id,
        OffsetForLeaderEpoch => k23_offset_for_leader_epoch,
        AddPartitionsToTxn => k24_add_partitions_to_txn,
        AddOffsetsToTxn => k25_add_offsets_to_txn,
        EndTxn => k26_end_txn,
        WriteTxnMarkers => k27_write_txn_markers,
        TxnOffsetCommit => k28_txn_offset_commit,
        DescribeAcls => k29_describe_acls,
        CreateAcls => k30_create_acls,
        DeleteAcls => k31_delete_acls,
        DescribeConfigs => k32_describe_configs,
        AlterConfigs => k33_alter_configs,
        AlterReplicaLogDirs => k34_alter_replica_log_dirs,
        DescribeLogDirs => k35_describe_log_dirs,
        SaslAuthenticate => k36_sasl_authenticate,
        CreatePartitions => k37_create_partitions,
        CreateDelegationToken => k38_create_delegation_token,
        RenewDelegationToken => k39_renew_delegation_token,
        ExpireDelegationToken => k40_expire_delegation_token,
        DescribeDelegationToken => k41_describe_delegation_token,
        DeleteGroups => k42_delete_groups,
        ElectLeaders => k43_elect_leaders,
        IncrementalAlterConfigs => k44_incremental_alter_configs,
        AlterPartitionReassignments => k45_alter_partition_reassignments,
        ListPartitionReassignments => k46_list_partition_reassignments,
        OffsetDelete => k47_offset_delete,
        DescribeClientQuotas => k48_describe_client_quotas,
        AlterClientQuotas => k49_alter_client_quotas,
        DescribeUserScramCredentials => k50_describe_user_scram_credentials,
        AlterUserScramCredentials => k51_alter_user_scram_credentials,
        DescribeQuorum => k55_describe_quorum,
        UpdateFeatures => k57_update_features,
        DescribeCluster => k60_describe_cluster,
        DescribeProducers => k61_describe_producers,
        UnregisterBroker => k64_unregister_broker,
        DescribeTransactions => k65_describe_transactions,
        ListTransactions => k66_list_transactions,
        ConsumerGroupHeartbeat => k68_consumer_group_heartbeat,
        ConsumerGroupDescribe => k69_consumer_group_describe,
        GetTelemetrySubscriptions => k71_get_telemetry_subscriptions,
        PushTelemetry => k72_push_telemetry,
        ListConfigResources => k74_list_config_resources,
        DescribeTopicPartitions => k75_describe_topic_partitions,
        ShareGroupHeartbeat => k76_share_group_heartbeat,
        ShareGroupDescribe => k77_share_group_describe,
        ShareAcknowledge => k79_share_acknowledge,
        AddRaftVoter => k80_add_raft_voter,
        RemoveRaftVoter => k81_remove_raft_voter,
        InitializeShareGroupState => k83_initialize_share_group_state,
        ReadShareGroupState => k84_read_share_group_state,
        WriteShareGroupState => k85_write_share_group_state,
        DeleteShareGroupState => k86_delete_share_group_state,
        ReadShareGroupStateSummary => k87_read_share_group_state_summary,
        StreamsGroupHeartbeat => k88_streams_group_heartbeat,
        StreamsGroupDescribe => k89_streams_group_describe,
        DescribeShareGroupOffsets => k90_describe_share_group_offsets,
        AlterShareGroupOffsets => k91_alter_share_group_offsets,
        DeleteShareGroupOffsets => k92_delete_share_group_offsets,
        StreamsGroupTopologyDescriptionUpdate => k93_streams_group_topology_description_update,
        UnregisterController => k94_unregister_controller,
    }
}

/// The APIs that this broker answers or forwards, for ApiVersions.
pub(crate) fn served() -> impl Iterator<Item = &'static Api> {
    let mut keys = SERVED.to_vec();
    keys.sort_unstable();
    keys.into_iter().map(ApiKey::api)
}

/// The broker and the signal of its stop, shared by all requests of one shard.
pub(crate) struct Service {
    pub(crate) broker: Arc<Broker>,
    pub(crate) stop: Stop,
    /// Inbox of the thread for large requests; none on that thread itself.
    pub(crate) large: Option<mpsc::Sender<LargeRequest>>,
    /// Counts and times of the requests that this thread processes.
    pub(crate) requests: Recorder,
}

/// Client, connection and version of a request.
pub(crate) struct Context {
    service: Rc<Service>,
    pub(crate) header: RequestHeader,
    /// Origin of the connection.
    pub(crate) info: Rc<ConnectionInfo>,
    /// Client of the request.
    session: Rc<Session>,
    /// Address to which the client connected; responses name it if none is advertised.
    local: SocketAddr,
    /// The time that the request takes.
    pub(crate) meter: Meter,
    /// True once the request waits for other clients.
    waits: Cell<bool>,
    /// The request's share of the memory for requests, if it is large enough to count.
    held: Cell<Option<Held>>,
    /// The place of a large request among those in progress.
    turn: Cell<Option<Turn>>,
}

/// Body of a request that counts against the memory of requests: its share is released with the
/// last reference to the body.
struct Counted {
    body: BytesMut,
    _held: Held,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Context {
    /// A request with this header by `session`, received just now on the connection `info`, to the
    /// address `local`.
    pub(crate) fn new(
        service: Rc<Service>,
        header: RequestHeader,
        (info, session, local): (Rc<ConnectionInfo>, Rc<Session>, SocketAddr),
    ) -> Self {
        let meter = Meter::new(Instant::now());
        let (waits, held, turn) = Default::default();
        Self { service, header, info, session, local, meter, waits, held, turn }
    }

    /// Attaches the request's share of the memory for requests. It is released when the body is
    /// dropped, or when the response exists.
    pub(crate) fn holding(self, held: Option<Held>) -> Self {
        self.held.set(held);
        self
    }

    /// The body; it holds the request's share, if there is one, until it is dropped.
    fn counted(&self, body: BytesMut) -> Bytes {
        match self.held.take() {
            None => body.freeze(),
            Some(held) => Bytes::from_owner(Counted { body, _held: held }),
        }
    }

    /// Host and port in responses to the client: those that its listener advertises, otherwise the
    /// address to which it connected.
    fn advertised(&self) -> (String, u16) {
        let (local, port) = (self.local.ip().to_canonical(), self.local.port());
        self.info.listener.told(port).unwrap_or_else(|| (local.to_string(), port))
    }

    /// Quota of the client for partitions that it creates and deletes. From request version
    /// `strict_version_min` on, a request over the quota is refused with an error.
    fn mutation_quota(&self, strict_version_min: i16) -> MutationQuota {
        MutationQuota::of(self.broker().quotas(), self.client(), self.version() >= strict_version_min)
    }

    /// Client of the request.
    fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.service.broker
    }

    /// The signal that ends long polls when the broker stops.
    pub(crate) fn stop(&self) -> &Stop {
        &self.service.stop
    }

    pub(crate) fn version(&self) -> i16 {
        self.header.version
    }

    /// Counts an error code of the response, 0 included.
    fn count_error(&self, code: i16) {
        self.service.requests.error(self.header.api, code);
    }

    /// User and client id, for quotas.
    pub(crate) fn client(&self) -> Client<'_> {
        Client { user: self.session.user(), client_id: self.client_id() }
    }

    pub(crate) fn client_id(&self) -> &str {
        self.header.client_id.as_ref().map_or("", |id| id.as_str())
    }

    /// A topic's name, from its id if that is how the request names it; none for an unknown id.
    fn topic_name(&self, by_id: bool, name: &StrBytes, topic_id: Uuid) -> Option<String> {
        if !by_id {
            return Some(name.as_str().to_owned());
        }
        Some(self.broker().metadata().image().topic_by_id(topic_id)?.name().to_string())
    }

    /// A topic's id; zero if there is no such topic.
    fn topic_id(&self, name: &str) -> Uuid {
        self.broker().metadata().image().topic(name).map_or(Uuid::ZERO, |topic| topic.id())
    }

    /// The partition that a hot request names: by topic id from version 13 on, before that by name.
    fn partition(
        &self,
        (name, topic_id): (&StrBytes, Uuid),
        index: i32,
    ) -> Result<Arc<Partition>, ErrorCode> {
        if self.version() < TOPIC_ID_VERSION_MIN {
            if name.len() > TOPIC_NAME_BYTES_MAX {
                // The time of the check is linear in the text.
                return Err(ErrorCode::UnknownTopicOrPartition);
            }
            self.broker().replicas().partition(name.as_str(), index)
        } else {
            self.broker().replicas().partition_by_id(topic_id, index)
        }
    }
}

/// The version from which Produce and Fetch name topics by id.
const TOPIC_ID_VERSION_MIN: i16 = 13;

/// Response to the client.
pub(crate) enum Reply {
    /// A whole response, size and header included.
    Send(Vec<Piece>),
    /// A whole response with old records: data that is read from the disk for it does not stay in
    /// the page cache.
    SendOld(Vec<Piece>),
    /// No response: Produce with acks=0.
    Silent,
}

impl Reply {
    /// Bytes of the response, with its size.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Send(pieces) | Self::SendOld(pieces) => pieces.iter().map(Piece::len).sum(),
            Self::Silent => 0,
        }
    }
}

/// The request has no valid response: the connection is closed, as in Kafka.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("malformed request: {0}")]
    Malformed(#[from] DecodeError),
    #[error("{api:?} is not supported")]
    NotServed { api: ApiKey },
    #[error(
        "the response to {api} would take {bytes} bytes, more than the limit of {limit}; request fewer resources at a time"
    )]
    TooLarge { api: ApiKey, bytes: usize, limit: usize },
    #[error(
        "the controller cannot read version {version} of {api}; the connection is closed so that the client requests the versions again"
    )]
    NotRead { api: ApiKey, version: i16 },
    #[error("cannot encode the response: {0}")]
    Encode(#[from] EncodeError),
    #[error(
        "batch with acks=0 refused (error {error_code}, {}); the connection is closed because acks=0 has no response",
        ErrorCode::of_code(*error_code).map_or("unknown", ErrorCode::name)
    )]
    SilentProduce { error_code: i16 },
}

/// Responds to one request, whose header has been removed from `body`.
pub(crate) async fn answer(context: &Context, body: BytesMut) -> Result<Reply, RequestError> {
    let header = &context.header;
    if header.api == ApiKey::ApiVersions && !header.api.serves(header.version) {
        let unsupported = k18_api_versions::unsupported();
        unsupported.each(|code| context.count_error(code));
        let bytes = levada_wire::encode_response(header.correlation_id, 0, &unsupported)?;
        return Ok(Reply::Send(vec![Piece::Bytes(bytes)]));
    }
    if context.broker().controller().is_remote() && forwarding::is_forwarded(header.api) {
        let decided = forwarding::forward(context, body).await?;
        return match &context.service.large {
            // No turn is held while the controller decides.
            Some(large) if decided.size() >= LARGE_BYTES => {
                large::answer_elsewhere(context, LargeWork::Pass(decided), large).await
            }
            // In a box: each connection has room for the largest of the others all the time.
            _ => Box::pin(forwarding::reply(context, decided)).await,
        };
    }
    match &context.service.large {
        Some(large) if body.len() >= LARGE_BYTES && !large::stays(header.api) => {
            large::answer_elsewhere(context, LargeWork::Answer(body), large).await
        }
        _ => dispatch(context, body).await,
    }
}

/// Requests of at least this number of bytes are processed on a thread that no connection waits
/// for: a megabyte of small entries takes tens of milliseconds.
const LARGE_BYTES: usize = 128 << 10;
const _: () = assert!(LARGE_BYTES > UNCOUNTED_BYTES, "a large request counts against the limit");

/// A decoded request: in the codec's form, or in a smaller one where the codec's would be large.
trait Decoded: Sized + Send + 'static {
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError>;
}

impl<R: KafkaRequest + Send + 'static> Decoded for R {
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        levada_wire::decode(body, version)
    }
}

async fn decode<R: Decoded>(context: &Context, body: BytesMut, elsewhere: bool) -> Result<R, RequestError> {
    let (body, version) = (context.counted(body), context.version());
    if !elsewhere {
        return Ok(R::decode(body, version)?);
    }
    Ok(context.off_shard(move || R::decode(body, version)).await?)
}

/// Largest response that is built in memory, in bytes; equal to the default limit of a request.
/// Requests of up to a hundred thousand partitions stay far below it; only a request whose response
/// is many times as large exceeds it.
const ANSWER_BYTES_MAX: usize = 100 << 20;

async fn encode<R: KafkaResponse + AnswerFields + Send + 'static>(
    context: &Context,
    mut response: R,
    elsewhere: bool,
) -> Result<Reply, RequestError> {
    response.each(|code| context.count_error(code));
    let uncounted = response.uncounted();
    if uncounted > 0 {
        context.service.requests.errors(context.header.api, 0, uncounted);
    }
    if let Some(throttle_time_ms) = response.throttle_time_ms() {
        *throttle_time_ms = context.throttle_ms().max(*throttle_time_ms);
    }
    if !elsewhere {
        return encode_now(&context.header, &response);
    }
    let header = context.header.clone();
    context.off_shard(move || encode_now(&header, &response)).await
}

/// Encodes a response. A response above the limit is not encoded: the broker closes the connection.
fn encode_now<R: KafkaResponse>(header: &RequestHeader, response: &R) -> Result<Reply, RequestError> {
    let bytes = levada_wire::response_bytes(header.version, response)?;
    if bytes > ANSWER_BYTES_MAX {
        return Err(RequestError::TooLarge { api: header.api, bytes, limit: ANSWER_BYTES_MAX });
    }
    let bytes = levada_wire::encode_response(header.correlation_id, header.version, response)?;
    Ok(Reply::Send(vec![Piece::Bytes(bytes)]))
}

/// Converts a text to a string of a message, without a copy.
fn text(string: impl Into<Cow<'static, str>>) -> StrBytes {
    match string.into() {
        Cow::Borrowed(text) => {
            StrBytes::try_from(Bytes::from_static(text.as_bytes())).expect("a string is UTF-8")
        }
        // Without room for more, it needs no second allocation to be shared.
        Cow::Owned(text) => text.into_boxed_str().into_string().into(),
    }
}

/// A copy of a request's bytes that may be kept: the original would keep the whole frame in memory.
fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests;
