//! Creation of missing internal topics, with the rights of the client whose heartbeat needs them.

use levada_coordination::group::records::InternalTopic;
use levada_metadata::controller::NewTopic;
use levada_process::clock::steady_ms;
use levada_security::acl::{Operation, ResourceType};

use crate::api::Context;
use crate::controller::Created;

/// Maximum number of failures in a sentence.
const FAILURES_MAX: usize = 3;

/// Starts to create topics. Returns a text about topics that the client may not create, or whose
/// creation has failed recently.
pub(super) fn begin(
    context: &Context,
    missing: Vec<InternalTopic>,
    heartbeat_interval_ms: i32,
) -> Option<String> {
    let may = |name: &&str| context.may(Operation::Create, ResourceType::Topic, name);
    let names: Vec<String> = missing.iter().map(|topic| topic.name.clone()).collect();
    if !context.might_cluster(Operation::Create) {
        let forbidden: Vec<&str> = names.iter().map(String::as_str).filter(|name| !may(name)).collect();
        if !forbidden.is_empty() {
            return Some(format!("Unauthorized to CREATE on topics {}.", forbidden.join(", ")));
        }
    }
    let broker = context.broker();
    let topics = broker.streams_topics().begin(missing, |topic| topic.name.as_str());
    if !topics.is_empty() {
        start(context, topics, 2 * i64::from(heartbeat_interval_ms));
    }
    let failures = broker.streams_topics().failures(names.iter().map(String::as_str));
    let shown = failures.iter().take(FAILURES_MAX).map(|(topic, reason)| format!("{topic} ({reason})"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match failures.len() {
        0 => None,
        count if count > FAILURES_MAX => {
            Some(format!("Creation failed: {shown} and {} more.", count - FAILURES_MAX))
        }
        _ => Some(format!("Creation failed: {shown}.")),
    }
}

/// Creates topics without a wait. Reasons of failures are kept for some time.
fn start(context: &Context, topics: Vec<InternalTopic>, kept_ms: i64) {
    let broker = context.broker().clone();
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let topics = topics.into_iter().map(|topic| NewTopic {
        name: topic.name,
        partitions: topic.partitions,
        replication_factor: if topic.replication_factor == 0 { -1 } else { topic.replication_factor },
        assignments: Vec::new(),
        configs: topic.configs.into_iter().map(|(key, value)| (key, Some(value))).collect(),
    });
    let session = context.session().clone();
    let ended = move |created: Vec<Created>| {
        let mut failures = Vec::new();
        for Created { topic, outcome } in created {
            match outcome {
                Err(reason) => failures.push((topic, reason)),
                Ok(partitions) => {
                    if let Some(left_out) = broker.change_log().admit(steady_ms()) {
                        let left_out = Some(left_out).filter(|count| *count > 0);
                        let (principal, host) = (session.principal(), session.host());
                        tracing::info!(
                            topic,
                            partitions,
                            automatic = true,
                            principal,
                            host,
                            left_out,
                            "topic created"
                        );
                    }
                }
            }
        }
        broker.streams_topics().end(&names, failures, kept_ms);
    };
    let quota = context.mutation_quota(0);
    context.broker().controller().begin_creation((topics.collect(), context.creator()), quota, ended);
}
