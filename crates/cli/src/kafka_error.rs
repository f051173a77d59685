//! Kafka's error codes as users read them: Kafka's name, what it means here, what to try.

use crate::failure::Failure;

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
    Row(
        17,
        "INVALID_TOPIC_EXCEPTION",
        "the topic's name is not allowed",
        Some("1 to 249 of the characters a-z A-Z 0-9 . _ -"),
    ),
    Row(18, "RECORD_LIST_TOO_LARGE", "a batch is larger than a segment", Some("a smaller --batch-bytes")),
    Row(19, "NOT_ENOUGH_REPLICAS", "too few replicas are in sync", None),
    Row(29, "TOPIC_AUTHORIZATION_FAILED", "access to the topic is not allowed", None),
    Row(31, "CLUSTER_AUTHORIZATION_FAILED", "access to the cluster is not allowed", None),
    Row(32, "INVALID_TIMESTAMP", "a timestamp is too far from the broker's clock", None),
    Row(35, "UNSUPPORTED_VERSION", "the broker does not know this request in any version we do", None),
    Row(36, "TOPIC_ALREADY_EXISTS", "the topic exists", Some("levada topic describe shows it")),
    Row(37, "INVALID_PARTITIONS", "the number of partitions is not allowed", None),
    Row(
        38,
        "INVALID_REPLICATION_FACTOR",
        "there are fewer brokers than replicas asked for",
        Some("--replicas 1 on a single broker"),
    ),
    Row(40, "INVALID_CONFIG", "a topic setting is not allowed", None),
    Row(42, "INVALID_REQUEST", "the broker refuses the request as malformed", None),
    Row(44, "POLICY_VIOLATION", "the topic's policy forbids it", None),
    Row(56, "KAFKA_STORAGE_ERROR", "the broker's disk failed", Some("see the broker's log")),
    Row(73, "TOPIC_DELETION_DISABLED", "the broker runs with delete.topic.enable=false", None),
    Row(76, "UNSUPPORTED_COMPRESSION_TYPE", "the broker does not take this codec", None),
    Row(
        87,
        "INVALID_RECORD",
        "a record is not allowed in this topic",
        Some("a compacted topic needs keys: --key-separator"),
    ),
    Row(100, "UNKNOWN_TOPIC_ID", "the topic was deleted", None),
];

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
