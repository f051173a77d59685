//! Kafka's error codes, and a failure as clients see it: a code and a sentence. The map from our errors to these codes
//! is `error_map.rs`.
//!
//! Catalogue: one entry per code. Source: Kafka's `Errors` enumeration.

use std::borrow::Cow;

/// An error as a Kafka client sees it: a code on the wire, a name in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum ErrorCode {
    /// `UNKNOWN_SERVER_ERROR`
    UnknownServerError = -1,
    /// `NONE`
    None = 0,
    /// `OFFSET_OUT_OF_RANGE`
    OffsetOutOfRange = 1,
    /// `CORRUPT_MESSAGE`
    CorruptMessage = 2,
    /// `UNKNOWN_TOPIC_OR_PARTITION`
    UnknownTopicOrPartition = 3,
    /// `INVALID_FETCH_SIZE`
    InvalidFetchSize = 4,
    /// `LEADER_NOT_AVAILABLE`
    LeaderNotAvailable = 5,
    /// `NOT_LEADER_OR_FOLLOWER`
    NotLeaderOrFollower = 6,
    /// `REQUEST_TIMED_OUT`
    RequestTimedOut = 7,
    /// `BROKER_NOT_AVAILABLE`
    BrokerNotAvailable = 8,
    /// `MESSAGE_TOO_LARGE`
    MessageTooLarge = 10,
    /// `OFFSET_METADATA_TOO_LARGE`
    OffsetMetadataTooLarge = 12,
    /// `COORDINATOR_LOAD_IN_PROGRESS`
    CoordinatorLoadInProgress = 14,
    /// `COORDINATOR_NOT_AVAILABLE`
    CoordinatorNotAvailable = 15,
    /// `NOT_COORDINATOR`
    NotCoordinator = 16,
    /// `INVALID_TOPIC_EXCEPTION`
    InvalidTopic = 17,
    /// `RECORD_LIST_TOO_LARGE`
    RecordListTooLarge = 18,
    /// `NOT_ENOUGH_REPLICAS`
    NotEnoughReplicas = 19,
    /// `INVALID_REQUIRED_ACKS`
    InvalidRequiredAcks = 21,
    /// `ILLEGAL_GENERATION`
    IllegalGeneration = 22,
    /// `INCONSISTENT_GROUP_PROTOCOL`
    InconsistentGroupProtocol = 23,
    /// `INVALID_GROUP_ID`
    InvalidGroupId = 24,
    /// `UNKNOWN_MEMBER_ID`
    UnknownMemberId = 25,
    /// `INVALID_SESSION_TIMEOUT`
    InvalidSessionTimeout = 26,
    /// `REBALANCE_IN_PROGRESS`
    RebalanceInProgress = 27,
    /// `INVALID_COMMIT_OFFSET_SIZE`
    InvalidCommitOffsetSize = 28,
    /// `TOPIC_AUTHORIZATION_FAILED`
    TopicAuthorizationFailed = 29,
    /// `GROUP_AUTHORIZATION_FAILED`
    GroupAuthorizationFailed = 30,
    /// `CLUSTER_AUTHORIZATION_FAILED`
    ClusterAuthorizationFailed = 31,
    /// `INVALID_TIMESTAMP`
    InvalidTimestamp = 32,
    /// `UNSUPPORTED_SASL_MECHANISM`
    UnsupportedSaslMechanism = 33,
    /// `ILLEGAL_SASL_STATE`
    IllegalSaslState = 34,
    /// `UNSUPPORTED_VERSION`
    UnsupportedVersion = 35,
    /// `TOPIC_ALREADY_EXISTS`
    TopicAlreadyExists = 36,
    /// `INVALID_PARTITIONS`
    InvalidPartitions = 37,
    /// `INVALID_REPLICATION_FACTOR`
    InvalidReplicationFactor = 38,
    /// `INVALID_REPLICA_ASSIGNMENT`
    InvalidReplicaAssignment = 39,
    /// `INVALID_CONFIG`
    InvalidConfig = 40,
    /// `NOT_CONTROLLER`
    NotController = 41,
    /// `INVALID_REQUEST`
    InvalidRequest = 42,
    /// `UNSUPPORTED_FOR_MESSAGE_FORMAT`
    UnsupportedForMessageFormat = 43,
    /// `POLICY_VIOLATION`
    PolicyViolation = 44,
    /// `OUT_OF_ORDER_SEQUENCE_NUMBER`
    OutOfOrderSequenceNumber = 45,
    /// `DUPLICATE_SEQUENCE_NUMBER`
    DuplicateSequenceNumber = 46,
    /// `INVALID_PRODUCER_EPOCH`
    InvalidProducerEpoch = 47,
    /// `INVALID_TXN_STATE`
    InvalidTxnState = 48,
    /// `INVALID_PRODUCER_ID_MAPPING`
    InvalidProducerIdMapping = 49,
    /// `INVALID_TRANSACTION_TIMEOUT`
    InvalidTransactionTimeout = 50,
    /// `CONCURRENT_TRANSACTIONS`
    ConcurrentTransactions = 51,
    /// `TRANSACTION_COORDINATOR_FENCED`
    TransactionCoordinatorFenced = 52,
    /// `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`
    TransactionalIdAuthorizationFailed = 53,
    /// `SECURITY_DISABLED`
    SecurityDisabled = 54,
    /// `OPERATION_NOT_ATTEMPTED`
    OperationNotAttempted = 55,
    /// `KAFKA_STORAGE_ERROR`
    KafkaStorageError = 56,
    /// `LOG_DIR_NOT_FOUND`
    LogDirNotFound = 57,
    /// `SASL_AUTHENTICATION_FAILED`
    SaslAuthenticationFailed = 58,
    /// `UNKNOWN_PRODUCER_ID`
    UnknownProducerId = 59,
    /// `REASSIGNMENT_IN_PROGRESS`
    ReassignmentInProgress = 60,
    /// `LISTENER_NOT_FOUND`
    ListenerNotFound = 72,
    /// `NON_EMPTY_GROUP`
    NonEmptyGroup = 68,
    /// `GROUP_ID_NOT_FOUND`
    GroupIdNotFound = 69,
    /// `FETCH_SESSION_ID_NOT_FOUND`
    FetchSessionIdNotFound = 70,
    /// `INVALID_FETCH_SESSION_EPOCH`
    InvalidFetchSessionEpoch = 71,
    /// `TOPIC_DELETION_DISABLED`
    TopicDeletionDisabled = 73,
    /// `FENCED_LEADER_EPOCH`
    FencedLeaderEpoch = 74,
    /// `UNKNOWN_LEADER_EPOCH`
    UnknownLeaderEpoch = 75,
    /// `UNSUPPORTED_COMPRESSION_TYPE`
    UnsupportedCompressionType = 76,
    /// `OFFSET_NOT_AVAILABLE`
    OffsetNotAvailable = 78,
    /// `MEMBER_ID_REQUIRED`
    MemberIdRequired = 79,
    /// `PREFERRED_LEADER_NOT_AVAILABLE`
    PreferredLeaderNotAvailable = 80,
    /// `GROUP_MAX_SIZE_REACHED`
    GroupMaxSizeReached = 81,
    /// `FENCED_INSTANCE_ID`
    FencedInstanceId = 82,
    /// `ELIGIBLE_LEADERS_NOT_AVAILABLE`
    EligibleLeadersNotAvailable = 83,
    /// `ELECTION_NOT_NEEDED`
    ElectionNotNeeded = 84,
    /// `NO_REASSIGNMENT_IN_PROGRESS`
    NoReassignmentInProgress = 85,
    /// `GROUP_SUBSCRIBED_TO_TOPIC`
    GroupSubscribedToTopic = 86,
    /// `INVALID_RECORD`
    InvalidRecord = 87,
    /// `UNSTABLE_OFFSET_COMMIT`
    UnstableOffsetCommit = 88,
    /// `THROTTLING_QUOTA_EXCEEDED`
    ThrottlingQuotaExceeded = 89,
    /// `PRODUCER_FENCED`
    ProducerFenced = 90,
    /// `RESOURCE_NOT_FOUND`
    ResourceNotFound = 91,
    /// `DUPLICATE_RESOURCE`
    DuplicateResource = 92,
    /// `UNACCEPTABLE_CREDENTIAL`
    UnacceptableCredential = 93,
    /// `INCONSISTENT_VOTER_SET`
    InconsistentVoterSet = 94,
    /// `INVALID_UPDATE_VERSION`
    InvalidUpdateVersion = 95,
    /// `FEATURE_UPDATE_FAILED`
    FeatureUpdateFailed = 96,
    /// `UNKNOWN_TOPIC_ID`
    UnknownTopicId = 100,
    /// `INCONSISTENT_TOPIC_ID`
    InconsistentTopicId = 103,
    /// `TRANSACTIONAL_ID_NOT_FOUND`
    TransactionalIdNotFound = 105,
    /// `FETCH_SESSION_TOPIC_ID_ERROR`
    FetchSessionTopicIdError = 106,
    /// `FENCED_MEMBER_EPOCH`
    FencedMemberEpoch = 110,
    /// `UNRELEASED_INSTANCE_ID`
    UnreleasedInstanceId = 111,
    /// `UNSUPPORTED_ASSIGNOR`
    UnsupportedAssignor = 112,
    /// `STALE_MEMBER_EPOCH`
    StaleMemberEpoch = 113,
    /// `MISMATCHED_ENDPOINT_TYPE`
    MismatchedEndpointType = 114,
    /// `UNSUPPORTED_ENDPOINT_TYPE`
    UnsupportedEndpointType = 115,
    /// `TRANSACTION_ABORTABLE`
    TransactionAbortable = 120,
    /// `INVALID_REGULAR_EXPRESSION`
    InvalidRegularExpression = 128,
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Kafka's constant for this error, as its tools print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownServerError => "UNKNOWN_SERVER_ERROR",
            Self::None => "NONE",
            Self::OffsetOutOfRange => "OFFSET_OUT_OF_RANGE",
            Self::CorruptMessage => "CORRUPT_MESSAGE",
            Self::UnknownTopicOrPartition => "UNKNOWN_TOPIC_OR_PARTITION",
            Self::InvalidFetchSize => "INVALID_FETCH_SIZE",
            Self::LeaderNotAvailable => "LEADER_NOT_AVAILABLE",
            Self::NotLeaderOrFollower => "NOT_LEADER_OR_FOLLOWER",
            Self::RequestTimedOut => "REQUEST_TIMED_OUT",
            Self::BrokerNotAvailable => "BROKER_NOT_AVAILABLE",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::OffsetMetadataTooLarge => "OFFSET_METADATA_TOO_LARGE",
            Self::CoordinatorLoadInProgress => "COORDINATOR_LOAD_IN_PROGRESS",
            Self::CoordinatorNotAvailable => "COORDINATOR_NOT_AVAILABLE",
            Self::NotCoordinator => "NOT_COORDINATOR",
            Self::InvalidTopic => "INVALID_TOPIC_EXCEPTION",
            Self::RecordListTooLarge => "RECORD_LIST_TOO_LARGE",
            Self::NotEnoughReplicas => "NOT_ENOUGH_REPLICAS",
            Self::InvalidRequiredAcks => "INVALID_REQUIRED_ACKS",
            Self::IllegalGeneration => "ILLEGAL_GENERATION",
            Self::InconsistentGroupProtocol => "INCONSISTENT_GROUP_PROTOCOL",
            Self::InvalidGroupId => "INVALID_GROUP_ID",
            Self::UnknownMemberId => "UNKNOWN_MEMBER_ID",
            Self::InvalidSessionTimeout => "INVALID_SESSION_TIMEOUT",
            Self::RebalanceInProgress => "REBALANCE_IN_PROGRESS",
            Self::InvalidCommitOffsetSize => "INVALID_COMMIT_OFFSET_SIZE",
            Self::TopicAuthorizationFailed => "TOPIC_AUTHORIZATION_FAILED",
            Self::GroupAuthorizationFailed => "GROUP_AUTHORIZATION_FAILED",
            Self::ClusterAuthorizationFailed => "CLUSTER_AUTHORIZATION_FAILED",
            Self::InvalidTimestamp => "INVALID_TIMESTAMP",
            Self::UnsupportedSaslMechanism => "UNSUPPORTED_SASL_MECHANISM",
            Self::IllegalSaslState => "ILLEGAL_SASL_STATE",
            Self::UnsupportedVersion => "UNSUPPORTED_VERSION",
            Self::TopicAlreadyExists => "TOPIC_ALREADY_EXISTS",
            Self::InvalidPartitions => "INVALID_PARTITIONS",
            Self::InvalidReplicationFactor => "INVALID_REPLICATION_FACTOR",
            Self::InvalidReplicaAssignment => "INVALID_REPLICA_ASSIGNMENT",
            Self::InvalidConfig => "INVALID_CONFIG",
            Self::NotController => "NOT_CONTROLLER",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::UnsupportedForMessageFormat => "UNSUPPORTED_FOR_MESSAGE_FORMAT",
            Self::PolicyViolation => "POLICY_VIOLATION",
            Self::OutOfOrderSequenceNumber => "OUT_OF_ORDER_SEQUENCE_NUMBER",
            Self::DuplicateSequenceNumber => "DUPLICATE_SEQUENCE_NUMBER",
            Self::InvalidProducerEpoch => "INVALID_PRODUCER_EPOCH",
            Self::InvalidTxnState => "INVALID_TXN_STATE",
            Self::InvalidProducerIdMapping => "INVALID_PRODUCER_ID_MAPPING",
            Self::InvalidTransactionTimeout => "INVALID_TRANSACTION_TIMEOUT",
            Self::ConcurrentTransactions => "CONCURRENT_TRANSACTIONS",
            Self::TransactionCoordinatorFenced => "TRANSACTION_COORDINATOR_FENCED",
            Self::TransactionalIdAuthorizationFailed => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            Self::SecurityDisabled => "SECURITY_DISABLED",
            Self::OperationNotAttempted => "OPERATION_NOT_ATTEMPTED",
            Self::KafkaStorageError => "KAFKA_STORAGE_ERROR",
            Self::LogDirNotFound => "LOG_DIR_NOT_FOUND",
            Self::SaslAuthenticationFailed => "SASL_AUTHENTICATION_FAILED",
            Self::UnknownProducerId => "UNKNOWN_PRODUCER_ID",
            Self::ReassignmentInProgress => "REASSIGNMENT_IN_PROGRESS",
            Self::ListenerNotFound => "LISTENER_NOT_FOUND",
            Self::NonEmptyGroup => "NON_EMPTY_GROUP",
            Self::GroupIdNotFound => "GROUP_ID_NOT_FOUND",
            Self::FetchSessionIdNotFound => "FETCH_SESSION_ID_NOT_FOUND",
            Self::InvalidFetchSessionEpoch => "INVALID_FETCH_SESSION_EPOCH",
            Self::TopicDeletionDisabled => "TOPIC_DELETION_DISABLED",
            Self::FencedLeaderEpoch => "FENCED_LEADER_EPOCH",
            Self::UnknownLeaderEpoch => "UNKNOWN_LEADER_EPOCH",
            Self::UnsupportedCompressionType => "UNSUPPORTED_COMPRESSION_TYPE",
            Self::OffsetNotAvailable => "OFFSET_NOT_AVAILABLE",
            Self::MemberIdRequired => "MEMBER_ID_REQUIRED",
            Self::PreferredLeaderNotAvailable => "PREFERRED_LEADER_NOT_AVAILABLE",
            Self::GroupMaxSizeReached => "GROUP_MAX_SIZE_REACHED",
            Self::FencedInstanceId => "FENCED_INSTANCE_ID",
            Self::EligibleLeadersNotAvailable => "ELIGIBLE_LEADERS_NOT_AVAILABLE",
            Self::ElectionNotNeeded => "ELECTION_NOT_NEEDED",
            Self::NoReassignmentInProgress => "NO_REASSIGNMENT_IN_PROGRESS",
            Self::GroupSubscribedToTopic => "GROUP_SUBSCRIBED_TO_TOPIC",
            Self::InvalidRecord => "INVALID_RECORD",
            Self::UnstableOffsetCommit => "UNSTABLE_OFFSET_COMMIT",
            Self::ThrottlingQuotaExceeded => "THROTTLING_QUOTA_EXCEEDED",
            Self::ProducerFenced => "PRODUCER_FENCED",
            Self::ResourceNotFound => "RESOURCE_NOT_FOUND",
            Self::DuplicateResource => "DUPLICATE_RESOURCE",
            Self::UnacceptableCredential => "UNACCEPTABLE_CREDENTIAL",
            Self::InconsistentVoterSet => "INCONSISTENT_VOTER_SET",
            Self::InvalidUpdateVersion => "INVALID_UPDATE_VERSION",
            Self::FeatureUpdateFailed => "FEATURE_UPDATE_FAILED",
            Self::UnknownTopicId => "UNKNOWN_TOPIC_ID",
            Self::InconsistentTopicId => "INCONSISTENT_TOPIC_ID",
            Self::TransactionalIdNotFound => "TRANSACTIONAL_ID_NOT_FOUND",
            Self::FetchSessionTopicIdError => "FETCH_SESSION_TOPIC_ID_ERROR",
            Self::FencedMemberEpoch => "FENCED_MEMBER_EPOCH",
            Self::UnreleasedInstanceId => "UNRELEASED_INSTANCE_ID",
            Self::UnsupportedAssignor => "UNSUPPORTED_ASSIGNOR",
            Self::StaleMemberEpoch => "STALE_MEMBER_EPOCH",
            Self::MismatchedEndpointType => "MISMATCHED_ENDPOINT_TYPE",
            Self::UnsupportedEndpointType => "UNSUPPORTED_ENDPOINT_TYPE",
            Self::TransactionAbortable => "TRANSACTION_ABORTABLE",
            Self::InvalidRegularExpression => "INVALID_REGULAR_EXPRESSION",
        }
    }
}

/// An error code with the sentence that goes with it where the protocol has room for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the client acts on.
    pub code: ErrorCode,
    /// What its user reads. Most sentences are the same for each of many entries, and take no memory for each.
    pub message: Option<Cow<'static, str>>,
}

impl Failure {
    /// A failure with a sentence for people.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: Some(sentence(message)) }
    }
}

/// Most bytes of a sentence for people: it may repeat a name of 32 767 bytes, and clients take no longer string.
const SENTENCE_BYTES_MAX: usize = 1000;

/// A sentence for people, cut if it is too long to be read.
pub(crate) fn sentence(message: impl Into<Cow<'static, str>>) -> Cow<'static, str> {
    let mut message = message.into();
    if message.len() > SENTENCE_BYTES_MAX {
        let end = (0..=SENTENCE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end));
        let cut = message.to_mut();
        cut.truncate(end.unwrap_or(0));
        cut.push('…');
    }
    message
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// The code that goes with an optional error: 0 for none.
pub(crate) fn error_code<E: Into<ErrorCode>>(error: Option<E>) -> i16 {
    error.map_or(ErrorCode::None, Into::into).code()
}
