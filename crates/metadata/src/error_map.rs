//! The map from refusals of changes, and from failures to store them, to Kafka's error codes.

use levada_wire::error_code::{ErrorCode, Failure, sentence};

use crate::controller::{Reason, Refusal};
use crate::store::StoreError;

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.reason {
            Reason::InvalidTopic => ErrorCode::InvalidTopic,
            Reason::TopicExists => ErrorCode::TopicAlreadyExists,
            Reason::InvalidPartitions => ErrorCode::InvalidPartitions,
            Reason::InvalidReplicationFactor => ErrorCode::InvalidReplicationFactor,
            Reason::InvalidReplicaAssignment => ErrorCode::InvalidReplicaAssignment,
            Reason::InvalidConfig => ErrorCode::InvalidConfig,
            Reason::InvalidRequest => ErrorCode::InvalidRequest,
            Reason::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
            Reason::UnknownTopicId => ErrorCode::UnknownTopicId,
            Reason::PolicyViolation => ErrorCode::PolicyViolation,
            Reason::Duplicate => ErrorCode::DuplicateResource,
            Reason::NotFound => ErrorCode::ResourceNotFound,
            Reason::UnacceptableCredential => ErrorCode::UnacceptableCredential,
            Reason::UnknownMechanism => ErrorCode::UnsupportedSaslMechanism,
            Reason::UnsupportedVersion => ErrorCode::UnsupportedVersion,
            Reason::QuotaExceeded => ErrorCode::ThrottlingQuotaExceeded,
            Reason::InvalidUpdateVersion => ErrorCode::InvalidUpdateVersion,
            Reason::UnknownToken => ErrorCode::DelegationTokenNotFound,
            Reason::ExpiredToken => ErrorCode::DelegationTokenExpired,
            Reason::NotTokensOwner => ErrorCode::DelegationTokenOwnerMismatch,
            Reason::UnknownBroker => ErrorCode::BrokerIdNotRegistered,
            Reason::UnknownController => ErrorCode::ControllerIdNotRegistered,
            Reason::ServerError => ErrorCode::UnknownServerError,
        };
        Self { code, message: refusal.message.map(sentence) }
    }
}

/// Kafka's error of a controller for a request with too many records.
const EXCESSIVE: &str = "Unable to perform excessively large batch operation.";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if let StoreError::TooLarge { .. } = error {
            return Self::new(ErrorCode::PolicyViolation, EXCESSIVE);
        }
        Self::new(ErrorCode::KafkaStorageError, error.to_string())
    }
}
