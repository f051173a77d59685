//! Kafka's error codes for users: Kafka's name, the meaning for the command, and the next step.
//!
//! Catalogue: one row for each code that the answers to our requests carry.

use std::sync::OnceLock;

use levada_config::TOPIC_KEYS;
use levada_terminal::failure::{Cause, Failure};

use crate::hints;

/// The code of a topic or partition that does not exist.
pub(crate) const UNKNOWN_TOPIC: i16 = 3;
/// The code of a version that the broker does not support.
pub(crate) const UNSUPPORTED_VERSION: i16 = 35;
/// The code of a change that only the controller makes.
pub(crate) const NOT_CONTROLLER: i16 = 41;
/// The code of a topic that exists already.
pub(crate) const TOPIC_ALREADY_EXISTS: i16 = 36;
/// The code of an offset outside the log.
pub(crate) const OFFSET_OUT_OF_RANGE: i16 = 1;
/// The code of a record that its topic does not take, such as one without a key.
pub(crate) const INVALID_RECORD: i16 = 87;
/// The code of a topic to which access is refused.
pub(crate) const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
/// The code of a group that does not exist.
pub(crate) const GROUP_ID_NOT_FOUND: i16 = 69;
/// No topic has this id.
pub(crate) const UNKNOWN_TOPIC_ID: i16 = 100;
/// The group has an offset of the partition in an open transaction.
pub(crate) const UNSTABLE_OFFSET_COMMIT: i16 = 88;

/// A code with its name, meaning and remedy.
struct Row(i16, &'static str, &'static str, Option<&'static str>);

/// Codes that answers to the command line's requests carry. A catalogue.
const ROWS: &[Row] = &[
    Row(1, "OFFSET_OUT_OF_RANGE", "the log does not hold this offset", Some("consume with -o earliest")),
    Row(2, "CORRUPT_MESSAGE", "a batch is damaged", Some("levada log dump on the segment file shows where")),
    Row(
        3,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "there is no such topic or partition",
        Some("levada topic list shows all topics, levada topic create creates one"),
    ),
    Row(
        5,
        "LEADER_NOT_AVAILABLE",
        "the partition has no leader",
        Some("retry in a moment; levada cluster health lists partitions without a leader"),
    ),
    Row(6, "NOT_LEADER_OR_FOLLOWER", "another broker leads the partition", Some("retry in a moment")),
    Row(7, "REQUEST_TIMED_OUT", "the broker did not finish in time", None),
    Row(
        10,
        "MESSAGE_TOO_LARGE",
        "a batch is larger than the topic allows",
        Some(
            "a larger max.message.bytes on the topic, or a smaller --batch-bytes if there are several records",
        ),
    ),
    Row(12, "OFFSET_METADATA_TOO_LARGE", "the metadata text of an offset is too long", None),
    Row(
        14,
        "COORDINATOR_LOAD_IN_PROGRESS",
        "the coordinator is still loading its state",
        Some("retry in a moment"),
    ),
    Row(15, "COORDINATOR_NOT_AVAILABLE", "there is no coordinator yet", Some("retry in a moment")),
    Row(16, "NOT_COORDINATOR", "another broker is the coordinator", Some("retry in a moment")),
    Row(
        17,
        "INVALID_TOPIC_EXCEPTION",
        "the topic's name is not allowed",
        Some("1 to 249 of the characters a-z A-Z 0-9 . _ -"),
    ),
    Row(18, "RECORD_LIST_TOO_LARGE", "a batch is larger than a segment", Some("a smaller --batch-bytes")),
    Row(19, "NOT_ENOUGH_REPLICAS", "too few replicas are in sync", None),
    Row(
        22,
        "ILLEGAL_GENERATION",
        "the group has members",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(24, "INVALID_GROUP_ID", "the group's name is not allowed", None),
    Row(
        25,
        "UNKNOWN_MEMBER_ID",
        "the group has members",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(27, "REBALANCE_IN_PROGRESS", "the group is rebalancing", Some("retry in a moment")),
    Row(29, "TOPIC_AUTHORIZATION_FAILED", "access to the topic is not allowed", None),
    Row(30, "GROUP_AUTHORIZATION_FAILED", "access to the group is not allowed", None),
    Row(31, "CLUSTER_AUTHORIZATION_FAILED", "access to the cluster is not allowed", None),
    Row(32, "INVALID_TIMESTAMP", "a timestamp is too far from the broker's clock", None),
    Row(
        33,
        "UNSUPPORTED_SASL_MECHANISM",
        "the broker does not offer this SASL mechanism",
        Some("another sasl.mechanism, with its sasl.jaas.config, in the file of --command-config"),
    ),
    Row(
        34,
        "ILLEGAL_SASL_STATE",
        "the listener has no SASL",
        Some(
            "security.protocol=PLAINTEXT (or SSL) in the file of --command-config, or the address of a listener with SASL",
        ),
    ),
    Row(
        35,
        "UNSUPPORTED_VERSION",
        "the broker supports no version of this request that levada can send",
        None,
    ),
    Row(
        36,
        "TOPIC_ALREADY_EXISTS",
        "the topic exists",
        Some("levada topic describe shows it, --if-not-exists accepts it"),
    ),
    Row(37, "INVALID_PARTITIONS", "the number of partitions is not allowed", None),
    Row(
        38,
        "INVALID_REPLICATION_FACTOR",
        "there are fewer brokers than requested replicas",
        Some("--replicas 1 on a single broker"),
    ),
    Row(40, "INVALID_CONFIG", "a setting is not allowed", None),
    Row(41, "NOT_CONTROLLER", "the broker is not the controller", None),
    Row(
        45,
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "the broker has lost records that it had acknowledged, or received batches out of order",
        Some(
            "levada offsets shows the end of the log; the count above is the number of acknowledged records",
        ),
    ),
    Row(46, "DUPLICATE_SEQUENCE_NUMBER", "the broker already has this batch and newer batches", None),
    Row(42, "INVALID_REQUEST", "the broker refuses the request as malformed", None),
    Row(44, "POLICY_VIOLATION", "the topic's policy forbids it", None),
    Row(
        47,
        "INVALID_PRODUCER_EPOCH",
        "a newer transaction of the producer has begun",
        Some("levada transaction hanging shows open transactions"),
    ),
    Row(48, "INVALID_TXN_STATE", "the transaction's state does not allow it", None),
    Row(51, "CONCURRENT_TRANSACTIONS", "the transaction is being ended", Some("retry in a moment")),
    Row(52, "TRANSACTION_COORDINATOR_FENCED", "the coordinator has changed since", None),
    Row(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "access to the transactional id is not allowed", None),
    Row(
        54,
        "SECURITY_DISABLED",
        "the broker runs without access control",
        Some("authorizer.class.name in its configuration; see docs/operating/authorization.md"),
    ),
    Row(56, "KAFKA_STORAGE_ERROR", "the broker's disk failed", Some("see the broker's log")),
    Row(
        58,
        "SASL_AUTHENTICATION_FAILED",
        "the broker does not accept the user name or the password",
        Some(
            "see sasl.jaas.config in the file of --command-config; levada user list shows the users of SCRAM",
        ),
    ),
    Row(
        68,
        "NON_EMPTY_GROUP",
        "the group has members",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(69, "GROUP_ID_NOT_FOUND", "there is no such group", Some("levada group list shows all groups")),
    Row(73, "TOPIC_DELETION_DISABLED", "the broker runs with delete.topic.enable=false", None),
    Row(76, "UNSUPPORTED_COMPRESSION_TYPE", "the broker does not take this codec", None),
    Row(
        86,
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "members of the group subscribe to the topic",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(
        87,
        "INVALID_RECORD",
        "a record is not allowed in this topic",
        Some("a compacted topic needs keys: --key-separator"),
    ),
    Row(
        88,
        "UNSTABLE_OFFSET_COMMIT",
        "a transaction that commits offsets is open",
        Some("retry in a moment"),
    ),
    Row(91, "RESOURCE_NOT_FOUND", "it does not exist", None),
    Row(92, "DUPLICATE_RESOURCE", "it is named twice", None),
    Row(93, "UNACCEPTABLE_CREDENTIAL", "the broker does not accept such a credential", None),
    Row(100, "UNKNOWN_TOPIC_ID", "the topic was deleted", None),
    Row(
        105,
        "TRANSACTIONAL_ID_NOT_FOUND",
        "there is no such transactional id",
        Some("levada transaction list shows all transactional ids"),
    ),
    Row(
        110,
        "FENCED_MEMBER_EPOCH",
        "the member's epoch is outdated: the group has rebalanced without it",
        None,
    ),
    Row(111, "UNRELEASED_INSTANCE_ID", "another member of the group has this instance id", None),
    Row(112, "UNSUPPORTED_ASSIGNOR", "the coordinator has no such assignor", None),
    Row(113, "STALE_MEMBER_EPOCH", "the member has a newer epoch", Some("retry in a moment")),
    Row(
        128,
        "INVALID_REGULAR_EXPRESSION",
        "the pattern is not a regular expression",
        Some("a pattern such as ^logs-.*"),
    ),
];

/// Codes that a moment heals: a coordinator that is starting, loading or moving.
pub(crate) fn is_passing(code: i16) -> bool {
    [14, 15, 16].contains(&code)
}

/// True for codes that a restart or a move of partitions causes: partitions and coordinators
/// return.
pub(crate) fn is_of_restart(code: i16) -> bool {
    const CODES: [i16; 17] = [3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 56, 74, 75, 78, 88, 100];
    CODES.contains(&code)
}

/// Kafka's name of a code.
pub(crate) fn name(code: i16) -> String {
    let row = ROWS.iter().find(|row| row.0 == code);
    row.map_or_else(|| format!("error code {code}"), |row| row.1.to_owned())
}

/// `Err` for a code that is not 0; `doing` is the operation, `said` the broker's message, if any.
pub(crate) fn check(code: i16, doing: &str, said: Option<&str>) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    let row = ROWS.iter().find(|row| row.0 == code);
    let meaning =
        said.filter(|said| !said.is_empty()).or(row.map(|row| row.2)).unwrap_or("the broker refuses");
    let what = format!("{doing}: {meaning} ({})", name(code));
    let failure = match next(code, &what, row) {
        Some(next) => Failure::with_next(what, next),
        None => Failure::new(what),
    };
    Err(failure.because(Cause::Code(code)))
}

/// The next step for a code; for some codes it depends on the broker's message.
fn next(code: i16, what: &str, row: Option<&Row>) -> Option<String> {
    const INVALID_TOPIC: i16 = 17;
    const INVALID_CONFIG: i16 = 40;
    if code == INVALID_TOPIC && what.contains("collide") {
        return Some(
            "another name: names of metrics have _ in place of ., so that a.b and a_b exclude each other"
                .to_owned(),
        );
    }
    if code == INVALID_TOPIC && what.contains("internal topic") {
        return Some("another topic: only the broker itself writes to an internal topic".to_owned());
    }
    if code == INVALID_CONFIG
        && let Some((_, unknown)) = what.split_once("Unknown topic config name: ")
    {
        let unknown = unknown.split_whitespace().next().unwrap_or_default();
        return Some(match nearest_topic_key(unknown) {
            Some(known) if known == unknown => format!(
                "set {unknown} in the configuration of the brokers: Kafka's controllers refuse it as a setting of a topic"
            ),
            Some(nearest) => format!("{nearest}; levada topic describe NAME --all lists every key"),
            None => "levada topic describe NAME --all lists every key".to_owned(),
        });
    }
    row.and_then(|row| row.3).map(str::to_owned)
}

/// The key of a topic that was probably meant.
fn nearest_topic_key(unknown: &str) -> Option<&'static str> {
    let keys = TOPIC_KEYS.iter().map(|topic| topic.key.name);
    hints::nearest(unknown, keys)
}

/// User of this process's requests, if the command line has the name.
static PRINCIPAL: OnceLock<Option<String>> = OnceLock::new();

/// Stores the user of the requests; `None` if only the broker has it, as with certificates and
/// tokens.
pub(crate) fn ask_as(user: Option<String>) {
    PRINCIPAL.get_or_init(|| user);
}

/// Adds to a refusal who lacks which permission, and the line that grants it. `resource` is the
/// option of `levada acl` that names the resource, such as `--topic clicks`.
pub(crate) fn needing<T>(done: Result<T, Failure>, operation: &str, resource: &str) -> Result<T, Failure> {
    const REFUSALS: [i16; 4] = [29, 30, 31, 53];
    done.map_err(|failure| {
        let Cause::Code(code) = failure.cause() else { return failure };
        if !REFUSALS.contains(&code) {
            return failure;
        }
        let (who, _) = asker();
        let words = match resource.trim_start_matches("--").split_once(' ') {
            Some((kind, name)) => format!("{} {name}", kind.replace('-', " ")),
            None => "the cluster".to_owned(),
        };
        let what = format!("{}: {who} may not {operation} {words} ({})", doing(failure.line()), name(code));
        Failure::with_next(what, grant(operation, resource)).because(Cause::Code(code))
    })
}

/// Replaces the next step of a refusal of a topic or a group by the line that grants all that the
/// command needs. `resources` are options of `levada acl`.
pub(crate) fn needing_all<T>(
    done: Result<T, Failure>,
    operation: &str,
    resources: &str,
) -> Result<T, Failure> {
    const REFUSALS: [i16; 2] = [29, 30];
    done.map_err(|failure| match failure {
        Failure::Failed { what, cause: Cause::Code(code), .. } if REFUSALS.contains(&code) => {
            Failure::with_next(what, grant(operation, resources)).because(Cause::Code(code))
        }
        other => other,
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

/// The operation in front of a failure's meaning.
fn doing(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(doing, _)| doing)
}

#[cfg(test)]
mod tests;
