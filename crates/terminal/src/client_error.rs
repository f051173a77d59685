//! Converts errors of the client to failures of commands: with the command line's terms, the next
//! step, and the permission that a refused user lacks.

use std::io;

use levada_client::{Cause, ClientError, ConnectionError, Coordinated, LoginError, Operation, Refusal};
use levada_wire::error_code::ErrorCode;
use levada_wire::frame::FrameError;

use crate::failure::Failure;
use crate::kafka_error::{check, needing};

/// Next step where the broker has no groups of KIP-848.
const WITH_MEMBERS: &str =
    "a broker that supports the groups of KIP-848, such as Kafka 4.0 or later; or no --group";

/// Next step where the broker has no share groups, or does not enable them.
pub(crate) const WITH_SHARES: &str = "a broker that supports share groups, such as Kafka 4.2 or later";
pub(crate) const ENABLED_SHARES: &str =
    "enable share groups: kafka-features --bootstrap-server HOST:PORT upgrade --feature share.version=1";

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::from(&error)
    }
}

impl From<&ClientError> for Failure {
    fn from(error: &ClientError) -> Self {
        let what = error.to_string();
        match error {
            ClientError::Connection(error) => Self::from(error),
            ClientError::Login(error) => Self::from(error),
            ClientError::Refused(refusal) => refused(refusal),
            ClientError::OtherGroupType(refusal) => refused(refusal)
                .try_next("another --group; levada group list shows the type of each group")
                .because(Cause::Other),
            ClientError::NoAddress => Self::Usage("--brokers names no broker: expected host:port".to_owned()),
            ClientError::UnknownBroker { node, known } => {
                let known: Vec<String> = known.iter().map(i32::to_string).collect();
                Self::with_next(
                    format!("broker {node} does not serve, or the cluster has no broker {node}"),
                    format!(
                        "levada broker list shows the state of all brokers; these serve now: {}",
                        known.join(", ")
                    ),
                )
            }
            ClientError::NoPartition { .. } => Self::Usage(what),
            ClientError::NoPartitionOfRecord { number, topic, partition, count } => Self::with_next(
                format!("line {number}: {topic} has no partition {partition}; it has {count}"),
                "lines without their partition, as jq 'del(.partition)' makes them",
            ),
            ClientError::DamagedBatch { .. } => Self::with_next(
                what,
                "run levada log dump on the segment file: if it finds no fault, the network is the cause",
            ),
            ClientError::NoMembers { .. } => Self::with_next(what, WITH_MEMBERS),
            ClientError::NoShareGroups { .. } => Self::with_next(what, WITH_SHARES),
            ClientError::Stopped => Self::Interrupted,
            ClientError::NoMetadata { .. }
            | ClientError::NoCoordinator { .. }
            | ClientError::NoMaxTimestamp { .. }
            | ClientError::NoOffset { .. }
            | ClientError::NoPatterns { .. }
            | ClientError::AcquiredRange { .. }
            | ClientError::Encode(_) => Self::new(what),
        }
    }
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Self {
        Self::from(&error)
    }
}

impl From<&ConnectionError> for Failure {
    fn from(error: &ConnectionError) -> Self {
        let what = error.to_string();
        let failure = match error {
            ConnectionError::Connect { source, address } => Self::with_next(what, remedy(address, source)),
            ConnectionError::Silent { .. } => Self::with_next(
                what,
                "levada cluster health shows if the controllers respond, on which the broker may wait; see if the broker's process is suspended or waits for its disk: its log, GET /livez; or name another with --brokers",
            ),
            ConnectionError::Lost { .. } | ConnectionError::Closed { .. } => Self::with_next(
                what,
                "see the broker's log; it may have stopped or refused the request, or require TLS, SASL or a certificate: --command-config",
            ),
            ConnectionError::Frame(FrameError::TooLarge { claimed, .. }) => not_kafka(*claimed, what),
            _ => Self::new(what),
        };
        if error.is_lost() { failure.because(Cause::Connection) } else { failure }
    }
}

impl From<&LoginError> for Failure {
    fn from(error: &LoginError) -> Self {
        let checked = match error {
            LoginError::Connection(error) => return Self::from(error),
            LoginError::Fault(fault) => return Self::new(fault.to_string()),
            LoginError::Mechanism { mechanism, code, offered } => {
                let said = (!offered.is_empty()).then(|| format!("the broker offers {}", offered.join(", ")));
                check(*code, &format!("authenticate by {mechanism}"), said.as_deref())
            }
            LoginError::Refused { mechanism, user, code, message } => {
                let doing = if user.is_empty() {
                    format!("authenticate by {mechanism}")
                } else {
                    format!("authenticate as {user}")
                };
                check(*code, &doing, message.as_deref())
            }
        };
        checked.expect_err("the code of a refusal is not 0")
    }
}

/// The failure of a refused operation, with the permission that the user lacks.
fn refused(refusal: &Refusal) -> Failure {
    let operation = &refusal.operation;
    let checked = check(refusal.code, &operation.to_string(), refusal.message.as_deref());
    let checked = match needed(operation, refusal.error_code()) {
        Some((operation, resource)) => needing(checked, operation, &resource),
        None => checked,
    };
    let failure = checked.expect_err("the code of a refusal is not 0");
    match (operation, refusal.error_code()) {
        (Operation::Join { .. }, Some(ErrorCode::UnsupportedVersion)) => failure.try_next(WITH_MEMBERS),
        (operation, Some(ErrorCode::UnsupportedVersion)) if is_of_share_group(operation) => {
            failure.try_next(ENABLED_SHARES)
        }
        _ => failure,
    }
}

fn is_of_share_group(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Share { .. }
            | Operation::ShareOffsets { .. }
            | Operation::SetShareOffsets { .. }
            | Operation::SetShareOffset { .. }
            | Operation::DeleteShareOffsets { .. }
    )
}

/// The permission that an operation needs, and the option of `levada acl` that names the resource.
fn needed(operation: &Operation, code: Option<ErrorCode>) -> Option<(&'static str, String)> {
    let topic_option = |topic: &String| format!("--topic {topic}");
    let group_option = |group: &String| format!("--group {group}");
    match operation {
        Operation::Topic { topic }
        | Operation::Leader { topic, .. }
        | Operation::ListOffset { topic, .. }
        | Operation::CommittedOffset { topic, .. } => Some(("describe", topic_option(topic))),
        Operation::FindCoordinator { kind: Coordinated::Group, key } => Some(("describe", group_option(key))),
        Operation::FindCoordinator { kind: Coordinated::Transaction, key } => {
            Some(("describe", format!("--transactional-id {key}")))
        }
        Operation::FetchPartition { topic, .. } => Some(("read", topic_option(topic))),
        Operation::Produce { topic, .. } => Some(("write", topic_option(topic))),
        Operation::InitProducer => Some(("idempotent-write", "--cluster".to_owned())),
        Operation::Join { group }
        | Operation::Share { group }
        | Operation::CommittedOffsets { group }
        | Operation::SetShareOffsets { group } => Some(("read", group_option(group))),
        Operation::ShareOffsets { group } => Some(("describe", group_option(group))),
        Operation::SetShareOffset { topic, .. } | Operation::DeleteShareOffsets { topic, .. } => {
            Some(("read", topic_option(topic)))
        }
        // The topic may be refused, or the group.
        Operation::Commit { topic, .. } | Operation::DeleteOffset { topic, .. }
            if code == Some(ErrorCode::TopicAuthorizationFailed) =>
        {
            Some(("read", topic_option(topic)))
        }
        Operation::Commit { group, .. } | Operation::DeleteOffset { group, .. } => {
            Some(("read", group_option(group)))
        }
        Operation::DeleteOffsets { group } => Some(("delete", group_option(group))),
        Operation::Fetch { .. } => None,
    }
}

/// Next step if a connection cannot be opened.
fn remedy(address: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        _ if address.contains('/') => "only HOST:PORT, without http:// or a path",
        io::ErrorKind::InvalidInput => "HOST:PORT with a port from 1 to 65535, such as localhost:9092",
        // rustls reports a certificate that it does not accept in this way.
        io::ErrorKind::InvalidData => {
            "see ssl.truststore.location and ssl.keystore.location in the file of --command-config"
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            "see security.protocol in the file of --command-config: this listener may have no TLS"
        }
        // The standard library has no kind for this error.
        _ if error.to_string().starts_with("failed to lookup") => {
            "check the host name in --brokers: it does not resolve on this machine"
        }
        _ => "start a broker with `levada serve`, or name another with --brokers host:port",
    }
}

/// The error for a response that is no Kafka frame: its first four bytes show the likely protocol.
fn not_kafka(first: u32, what: String) -> Failure {
    match first.to_be_bytes() {
        [b'H', b'T', b'T', b'P'] => Failure::with_next(
            "the address of --brokers answers in HTTP, not in Kafka's protocol",
            "the address of one of the broker's listeners, by default port 9092; its metrics have another",
        ),
        [0x14..=0x17, 3, _, _] => Failure::with_next(
            "the address of --brokers answers in TLS",
            "security.protocol=SSL or SASL_SSL in the file of --command-config",
        ),
        _ => Failure::with_next(what, "the address of a Kafka broker: --brokers host:port"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::ToSocketAddrs;

    use super::remedy;

    #[test]
    fn unresolved_host_error_does_not_suggest_starting_broker() {
        let unknown = ("a..b", 9092).to_socket_addrs().unwrap_err();
        assert!(remedy("a..b:9092", &unknown).contains("does not resolve"), "{unknown}");
        let refused = std::io::ErrorKind::ConnectionRefused.into();
        assert!(remedy("localhost:9092", &refused).contains("levada serve"));
    }
}
