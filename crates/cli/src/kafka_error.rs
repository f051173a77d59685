//! Kafka's error codes as users read them: Kafka's name, what it means here, what to try.
//!
//! Catalogue: one row for each code that the answers to our requests carry.

use crate::failure::Failure;

/// The code of a topic or partition that does not exist.
pub(crate) const UNKNOWN_TOPIC: i16 = 3;
/// The code of a group that does not exist.
pub(crate) const GROUP_ID_NOT_FOUND: i16 = 69;

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
        Some("levada topic list shows what there is, levada topic create creates one"),
    ),
    Row(5, "LEADER_NOT_AVAILABLE", "the partition has no leader yet", Some("the same again in a moment")),
    Row(
        6,
        "NOT_LEADER_OR_FOLLOWER",
        "another broker leads the partition",
        Some("the same again in a moment"),
    ),
    Row(7, "REQUEST_TIMED_OUT", "the broker did not finish in time", None),
    Row(
        10,
        "MESSAGE_TOO_LARGE",
        "a batch is larger than the topic allows",
        Some(
            "a larger max.message.bytes on the topic, or a smaller --batch-bytes if there are several records",
        ),
    ),
    Row(12, "OFFSET_METADATA_TOO_LARGE", "the text beside an offset is too long", None),
    Row(
        14,
        "COORDINATOR_LOAD_IN_PROGRESS",
        "the coordinator is still loading its state",
        Some("the same again in a moment"),
    ),
    Row(15, "COORDINATOR_NOT_AVAILABLE", "there is no coordinator yet", Some("the same again in a moment")),
    Row(16, "NOT_COORDINATOR", "another broker is the coordinator", Some("the same again in a moment")),
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
    Row(27, "REBALANCE_IN_PROGRESS", "the group is rebalancing", Some("the same again in a moment")),
    Row(29, "TOPIC_AUTHORIZATION_FAILED", "access to the topic is not allowed", None),
    Row(30, "GROUP_AUTHORIZATION_FAILED", "access to the group is not allowed", None),
    Row(31, "CLUSTER_AUTHORIZATION_FAILED", "access to the cluster is not allowed", None),
    Row(32, "INVALID_TIMESTAMP", "a timestamp is too far from the broker's clock", None),
    Row(33, "UNSUPPORTED_SASL_MECHANISM", "the broker does not offer this SASL mechanism", None),
    Row(35, "UNSUPPORTED_VERSION", "the broker does not know this request in any version we do", None),
    Row(36, "TOPIC_ALREADY_EXISTS", "the topic exists", Some("levada topic describe shows it")),
    Row(37, "INVALID_PARTITIONS", "the number of partitions is not allowed", None),
    Row(
        38,
        "INVALID_REPLICATION_FACTOR",
        "there are fewer brokers than replicas asked for",
        Some("--replicas 1 on a single broker"),
    ),
    Row(40, "INVALID_CONFIG", "a setting is not allowed", None),
    Row(41, "NOT_CONTROLLER", "the broker is not the controller", None),
    Row(42, "INVALID_REQUEST", "the broker refuses the request as malformed", None),
    Row(44, "POLICY_VIOLATION", "the topic's policy forbids it", None),
    Row(
        47,
        "INVALID_PRODUCER_EPOCH",
        "the producer has gone on since",
        Some("levada transaction hanging shows what is still open"),
    ),
    Row(48, "INVALID_TXN_STATE", "the transaction's state does not allow it", None),
    Row(51, "CONCURRENT_TRANSACTIONS", "the transaction is being ended", Some("the same again in a moment")),
    Row(52, "TRANSACTION_COORDINATOR_FENCED", "the coordinator has changed since", None),
    Row(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "access to the transactional id is not allowed", None),
    Row(
        54,
        "SECURITY_DISABLED",
        "the broker runs without access control",
        Some("authorizer.class.name in its configuration; see docs/operating/authorization.md"),
    ),
    Row(56, "KAFKA_STORAGE_ERROR", "the broker's disk failed", Some("see the broker's log")),
    Row(58, "SASL_AUTHENTICATION_FAILED", "the broker does not accept user or password", None),
    Row(
        68,
        "NON_EMPTY_GROUP",
        "the group has members",
        Some("stop its consumers; levada group describe shows them"),
    ),
    Row(69, "GROUP_ID_NOT_FOUND", "there is no such group", Some("levada group list shows what there is")),
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
    Row(91, "RESOURCE_NOT_FOUND", "it does not exist", None),
    Row(92, "DUPLICATE_RESOURCE", "it is named twice", None),
    Row(93, "UNACCEPTABLE_CREDENTIAL", "the broker does not accept such a credential", None),
    Row(100, "UNKNOWN_TOPIC_ID", "the topic was deleted", None),
    Row(
        105,
        "TRANSACTIONAL_ID_NOT_FOUND",
        "there is no such transactional id",
        Some("levada transaction list shows what there is"),
    ),
];

/// Codes that a moment heals: a coordinator that is starting, loading or moving.
pub(crate) fn is_passing(code: i16) -> bool {
    [14, 15, 16].contains(&code)
}

/// Kafka's name of a code.
pub(crate) fn name(code: i16) -> String {
    let row = ROWS.iter().find(|row| row.0 == code);
    row.map_or_else(|| format!("error code {code}"), |row| row.1.to_owned())
}

/// `Err` for a code that is not 0; `doing` is what was tried, `said` the broker's own sentence, if any.
pub(crate) fn check(code: i16, doing: &str, said: Option<&str>) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    let row = ROWS.iter().find(|row| row.0 == code);
    let meaning =
        said.filter(|said| !said.is_empty()).or(row.map(|row| row.2)).unwrap_or("the broker refuses");
    let what = format!("{doing}: {meaning} ({})", name(code));
    match row.and_then(|row| row.3) {
        Some(next) => Err(Failure::with_next(what, next)),
        None => Err(Failure::new(what)),
    }
}
