//! Kafka's error codes for users: the meaning for the command, and the next step.
//!
//! Catalogue: one row for each code that the responses to our requests carry.

use std::sync::OnceLock;

use levada_client::Cause;
use levada_wire::error_code::ErrorCode;

use crate::failure::Failure;

/// A code with its meaning and remedy.
struct Row(ErrorCode, &'static str, Option<&'static str>);

/// Codes in responses to requests of the command line. A catalogue.
const ROWS: &[Row] = &[
    Row(ErrorCode::OffsetOutOfRange, "the log does not hold this offset", Some("consume with -o earliest")),
    Row(
        ErrorCode::CorruptMessage,
        "a batch is damaged",
        Some("levada log dump on the segment file shows where"),
    ),
    Row(
        ErrorCode::UnknownTopicOrPartition,
        "there is no such topic or partition",
        Some("levada topic list shows all topics, levada topic create creates one"),
    ),
    Row(
        ErrorCode::LeaderNotAvailable,
        "the partition has no leader",
        Some("retry in a moment; levada cluster health lists partitions without a leader"),
    ),
    Row(ErrorCode::NotLeaderOrFollower, "another broker leads the partition", Some("retry in a moment")),
    Row(
        ErrorCode::RequestTimedOut,
        "the broker did not finish in time",
        Some(
            "levada cluster health shows if brokers and controllers respond; the request may still take effect",
        ),
    ),
    Row(
        ErrorCode::MessageTooLarge,
        "a batch is larger than the topic allows",
        Some(
            "a larger max.message.bytes on the topic, or a smaller --batch-bytes if there are several records",
        ),
    ),
    Row(ErrorCode::OffsetMetadataTooLarge, "the metadata text of an offset is too long", None),
    Row(
        ErrorCode::CoordinatorLoadInProgress,
        "the coordinator is still loading its state",
        Some("retry in a moment"),
    ),
    Row(ErrorCode::CoordinatorNotAvailable, "there is no coordinator yet", Some("retry in a moment")),
    Row(ErrorCode::NotCoordinator, "another broker is the coordinator", Some("retry in a moment")),
    Row(
        ErrorCode::InvalidTopic,
        "the topic's name is not allowed",
        Some("1 to 249 of the characters a-z A-Z 0-9 . _ -"),
    ),
    Row(ErrorCode::RecordListTooLarge, "a batch is larger than a segment", Some("a smaller --batch-bytes")),
    Row(ErrorCode::NotEnoughReplicas, "too few replicas are in sync", None),
    Row(
        ErrorCode::IllegalGeneration,
        "the group has members",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(ErrorCode::InvalidGroupId, "the group's name is not allowed", None),
    Row(
        ErrorCode::UnknownMemberId,
        "the group has members",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(ErrorCode::RebalanceInProgress, "the group is rebalancing", Some("retry in a moment")),
    Row(ErrorCode::TopicAuthorizationFailed, "access to the topic is not allowed", None),
    Row(ErrorCode::GroupAuthorizationFailed, "access to the group is not allowed", None),
    Row(ErrorCode::ClusterAuthorizationFailed, "access to the cluster is not allowed", None),
    Row(ErrorCode::InvalidTimestamp, "a timestamp is too far from the broker's clock", None),
    Row(
        ErrorCode::UnsupportedSaslMechanism,
        "the broker does not offer this SASL mechanism",
        Some("another sasl.mechanism, with its sasl.jaas.config, in the file of --command-config"),
    ),
    Row(
        ErrorCode::IllegalSaslState,
        "the listener has no SASL",
        Some(
            "security.protocol=PLAINTEXT (or SSL) in the file of --command-config, or the address of a listener with SASL",
        ),
    ),
    Row(
        ErrorCode::UnsupportedVersion,
        "the broker supports no version of this request that levada can send",
        None,
    ),
    Row(
        ErrorCode::TopicAlreadyExists,
        "the topic exists",
        Some("levada topic describe shows it, --if-not-exists accepts it"),
    ),
    Row(ErrorCode::InvalidPartitions, "the number of partitions is not allowed", None),
    Row(
        ErrorCode::InvalidReplicationFactor,
        "there are fewer brokers than requested replicas",
        Some("--replicas 1 on a single broker"),
    ),
    Row(ErrorCode::InvalidConfig, "a setting is not allowed", None),
    Row(ErrorCode::NotController, "the broker is not the controller", None),
    Row(
        ErrorCode::OutOfOrderSequenceNumber,
        "the broker has lost records that it had acknowledged, or received batches out of order",
        Some(
            "levada offsets shows the end of the log; the count above is the number of acknowledged records",
        ),
    ),
    Row(ErrorCode::DuplicateSequenceNumber, "the broker already has this batch and newer batches", None),
    Row(ErrorCode::InvalidRequest, "the broker refuses the request as malformed", None),
    Row(ErrorCode::PolicyViolation, "the topic's policy forbids it", None),
    Row(
        ErrorCode::InvalidProducerEpoch,
        "a newer transaction of the producer has begun",
        Some("levada transaction hanging shows open transactions"),
    ),
    Row(ErrorCode::InvalidTxnState, "the transaction's state does not allow it", None),
    Row(ErrorCode::ConcurrentTransactions, "the transaction is being ended", Some("retry in a moment")),
    Row(ErrorCode::TransactionCoordinatorFenced, "the coordinator has changed since", None),
    Row(ErrorCode::TransactionalIdAuthorizationFailed, "access to the transactional id is not allowed", None),
    Row(
        ErrorCode::SecurityDisabled,
        "the broker runs without access control",
        Some("authorizer.class.name in its configuration; see docs/operating/authorization.md"),
    ),
    Row(
        ErrorCode::KafkaStorageError,
        "the broker's disk is full or failed",
        Some("free space on the broker's disk if it is full; the broker's log names the error"),
    ),
    Row(
        ErrorCode::SaslAuthenticationFailed,
        "the broker does not accept the user name or the password",
        Some(
            "see sasl.jaas.config in the file of --command-config; levada user list shows the users of SCRAM",
        ),
    ),
    Row(
        ErrorCode::NonEmptyGroup,
        "the group has members",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(ErrorCode::GroupIdNotFound, "there is no such group", Some("levada group list shows all groups")),
    Row(
        ErrorCode::OffsetNotAvailable,
        "the leader does not know the high watermark yet: since its election too few replicas were in sync",
        Some("retry when more replicas are in sync; levada cluster health shows them"),
    ),
    Row(ErrorCode::TopicDeletionDisabled, "the broker runs with delete.topic.enable=false", None),
    Row(ErrorCode::UnsupportedCompressionType, "the broker does not take this codec", None),
    Row(
        ErrorCode::GroupSubscribedToTopic,
        "members of the group subscribe to the topic",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(
        ErrorCode::InvalidRecord,
        "a record is not allowed in this topic",
        Some("a compacted topic needs keys: --key-separator"),
    ),
    Row(
        ErrorCode::UnstableOffsetCommit,
        "a transaction that commits offsets is open",
        Some("retry in a moment"),
    ),
    Row(ErrorCode::ResourceNotFound, "it does not exist", None),
    Row(ErrorCode::DuplicateResource, "it is named twice", None),
    Row(ErrorCode::UnacceptableCredential, "the broker does not accept such a credential", None),
    Row(
        ErrorCode::InvalidUpdateVersion,
        "the feature cannot have this level",
        Some(
            "levada cluster features describe shows the levels that the brokers support; controllers of an earlier release support fewer",
        ),
    ),
    Row(ErrorCode::FeatureUpdateFailed, "the controller has not changed the level", None),
    Row(ErrorCode::UnknownTopicId, "the topic was deleted", None),
    Row(
        ErrorCode::TransactionalIdNotFound,
        "there is no such transactional id",
        Some("levada transaction list shows all transactional ids"),
    ),
    Row(
        ErrorCode::FencedMemberEpoch,
        "the member's epoch is outdated: the group has rebalanced without it",
        None,
    ),
    Row(ErrorCode::UnreleasedInstanceId, "another member of the group has this instance id", None),
    Row(ErrorCode::UnsupportedAssignor, "the coordinator has no such assignor", None),
    Row(ErrorCode::StaleMemberEpoch, "the member has a newer epoch", Some("retry in a moment")),
    Row(
        ErrorCode::InvalidRecordState,
        "the lock of the record has ended",
        Some("a longer share.record.lock.duration.ms: levada config set group NAME"),
    ),
    Row(ErrorCode::ShareSessionNotFound, "the broker does not know the share session", None),
    Row(ErrorCode::InvalidShareSessionEpoch, "the share session has another epoch", None),
    Row(
        ErrorCode::InvalidRegularExpression,
        "the pattern is not a regular expression",
        Some("a pattern such as ^logs-.*"),
    ),
    Row(ErrorCode::StreamsInvalidTopology, "the topology of the streams application is not valid", None),
    Row(
        ErrorCode::ShareSessionLimitReached,
        "the broker has as many share sessions as it may have",
        Some("a larger group.share.max.share.sessions on the broker"),
    ),
    Row(
        ErrorCode::ReplicaNotAvailable,
        "the broker has no such replica",
        Some("levada partition list shows the replicas of each partition"),
    ),
    Row(
        ErrorCode::InvalidReplicaAssignment,
        "the list of brokers is not allowed",
        Some("levada broker list shows the brokers"),
    ),
    Row(
        ErrorCode::ReassignmentInProgress,
        "the partition moves already",
        Some("levada partition move --follow waits for its end"),
    ),
    Row(
        ErrorCode::NoReassignmentInProgress,
        "the partition does not move",
        Some("levada partition move lists the partitions that move"),
    ),
    Row(
        ErrorCode::PreferredLeaderNotAvailable,
        "the first replica is not in sync",
        Some("levada partition list shows the replicas in sync; levada broker list the state of each broker"),
    ),
    Row(
        ErrorCode::EligibleLeadersNotAvailable,
        "no replica can lead",
        Some("start a broker with a replica; levada partition list shows them"),
    ),
    Row(ErrorCode::ElectionNotNeeded, "the partition needs no election", None),
    Row(
        ErrorCode::BrokerIdNotRegistered,
        "the cluster has no such broker",
        Some("levada broker list shows the brokers"),
    ),
    Row(ErrorCode::DuplicateVoter, "the controller is a voter already", None),
    Row(
        ErrorCode::VoterNotFound,
        "the controller is not a voter",
        Some("levada cluster quorum describe lists the voters"),
    ),
    Row(
        ErrorCode::DelegationTokenAuthDisabled,
        "the brokers have no delegation tokens",
        Some("delegation.token.secret.key in the configuration of the brokers and controllers"),
    ),
    Row(
        ErrorCode::DelegationTokenNotFound,
        "there is no such token",
        Some("levada token list shows the tokens that you may see"),
    ),
    Row(
        ErrorCode::DelegationTokenOwnerMismatch,
        "only the owner and the renewers of the token may do this",
        Some("log in as one of them; levada token list shows them"),
    ),
    Row(
        ErrorCode::DelegationTokenRequestNotAllowed,
        "requests about tokens need a login by SASL or a client certificate, and not by a token",
        Some("sasl.jaas.config of a user in the file of --command-config"),
    ),
    Row(
        ErrorCode::DelegationTokenAuthorizationFailed,
        "the user may not create tokens for this owner",
        Some(
            "kafka-acls --add --operation CreateTokens --user-principal OWNER, as a user who may change access",
        ),
    ),
    Row(
        ErrorCode::DelegationTokenExpired,
        "the token has expired",
        Some("levada token create makes another"),
    ),
];

fn row(code: i16) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.0.code() == code)
}

/// Kafka's name of a code; the number of a code that Kafka 4.3 does not have.
#[must_use]
pub fn name(code: i16) -> String {
    ErrorCode::of_code(code).map_or_else(|| format!("error code {code}"), |code| code.name().to_owned())
}

/// Checks a code of a response; `doing` is the operation, `said` the broker's message, if any.
///
/// # Errors
/// The code is not 0.
pub fn check(code: i16, doing: &str, said: Option<&str>) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    let row = row(code);
    let meaning =
        said.filter(|said| !said.is_empty()).or(row.map(|row| row.1)).unwrap_or("the broker refuses");
    let what = format!("{doing}: {} ({})", without_class(meaning), name(code));
    let failure = match next(&what, row) {
        Some(next) => Failure::with_next(what, next),
        None => Failure::new(what),
    };
    Err(failure.because(Cause::Code(code)))
}

/// The text without the name of a Java exception, with which some texts of brokers begin and which
/// helps no user.
fn without_class(text: &str) -> String {
    let Some(start) = text.find("org.apache.kafka.") else { return text.to_owned() };
    match text[start..].split_once(": ") {
        Some((class, rest)) if class.ends_with("Exception") && !class.contains(' ') => {
            format!("{}{rest}", &text[..start])
        }
        _ => text.to_owned(),
    }
}

/// The next step for a code; for some codes it depends on the broker's message.
fn next(what: &str, row: Option<&Row>) -> Option<String> {
    let Row(code, _, next) = row?;
    if *code == ErrorCode::InvalidTopic && what.contains("collide") {
        return Some(
            "another name: names of metrics have _ in place of ., so that a.b and a_b exclude each other"
                .to_owned(),
        );
    }
    if *code == ErrorCode::InvalidTopic && what.contains("internal topic") {
        return Some("another topic: only the broker itself writes to an internal topic".to_owned());
    }
    next.map(str::to_owned)
}

/// User of this process's requests, if the command line has the name.
static PRINCIPAL: OnceLock<Option<String>> = OnceLock::new();

/// Stores the user of the requests; `None` if only the broker has it, as with certificates and
/// tokens.
pub fn ask_as(user: Option<String>) {
    PRINCIPAL.get_or_init(|| user);
}

/// Errors of a user without a permission.
const REFUSALS: [ErrorCode; 4] = [
    ErrorCode::TopicAuthorizationFailed,
    ErrorCode::GroupAuthorizationFailed,
    ErrorCode::ClusterAuthorizationFailed,
    ErrorCode::TransactionalIdAuthorizationFailed,
];

/// True if the user lacks a permission.
#[must_use]
pub fn is_refusal(failure: &Failure) -> bool {
    failure.cause().code().is_some_and(|code| REFUSALS.contains(&code))
}

/// Adds to a refusal who lacks which permission, and the line that grants it. `resource` is the
/// option of `levada acl` that names the resource, such as `--topic clicks`.
///
/// # Errors
/// That of `done`.
pub fn needing<T, E: Into<Failure>>(
    done: Result<T, E>,
    operation: &str,
    resource: &str,
) -> Result<T, Failure> {
    done.map_err(|error| {
        let failure = error.into();
        let Some(code) = failure.cause().code().filter(|code| REFUSALS.contains(code)) else {
            return failure;
        };
        let (who, _) = asker();
        let words = match resource.trim_start_matches("--").split_once(' ') {
            Some((kind, name)) => format!("{} {name}", kind.replace('-', " ")),
            None => "the cluster".to_owned(),
        };
        let what = format!("{}: {who} may not {operation} {words} ({})", doing(failure.line()), code.name());
        Failure::with_next(what, grant(operation, resource)).because(failure.cause())
    })
}

/// Replaces the next step of a refusal of a topic or a group by the line that grants all that the
/// command needs. `resources` are options of `levada acl`.
///
/// # Errors
/// That of `done`.
pub fn needing_all<T>(done: Result<T, Failure>, operation: &str, resources: &str) -> Result<T, Failure> {
    done.map_err(|failure| match (failure.cause().code(), failure) {
        (
            Some(ErrorCode::TopicAuthorizationFailed | ErrorCode::GroupAuthorizationFailed),
            Failure::Failed { what, cause, .. },
        ) => Failure::with_next(what, grant(operation, resources)).because(cause),
        (_, other) => other,
    })
}

/// The user of the requests, as a sentence and as `levada acl` name it.
fn asker() -> (String, String) {
    match PRINCIPAL.get().cloned().unwrap_or_else(|| Some("ANONYMOUS".to_owned())) {
        Some(user) => (format!("User:{user}"), user),
        None => ("the user of the certificate or token".to_owned(), "USER".to_owned()),
    }
}

/// The line that grants an operation on resources to the user of the requests.
fn grant(operation: &str, resources: &str) -> String {
    let (_, user) = asker();
    format!("levada acl add '{user}' --allow {operation} {resources}, as a user who may change access")
}

/// The operation before a failure's meaning.
fn doing(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(doing, _)| doing)
}

#[cfg(test)]
mod tests;
