//! The controllers that vote, their leader, and the brokers that read the metadata log.

use levada_client::{Cause, ControllersProblem};
use levada_process::clock::now_ms;
use levada_wire::StrBytes;
use levada_wire::messages::DescribeQuorumRequest;
use levada_wire::messages::describe_quorum_request::{PartitionData as Asked, TopicData};
use levada_wire::messages::describe_quorum_response::{PartitionData, ReplicaState};
use maud::{Markup, html};

use crate::console::cluster::PATIENCE;
use crate::console::failure::{Failed, Needing as _, check};
use crate::console::layout::{table_of, tile};
use crate::console::visitor::Visitor;
use crate::console::{Console, format};

/// Topic of the metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";

pub(super) async fn section(console: &Console, visitor: &Visitor) -> Result<Markup, Failed> {
    Ok(shown(&ask(console, visitor).await?, now_ms()))
}

/// The state of the metadata log, from the active controller.
async fn ask(console: &Console, visitor: &Visitor) -> Result<PartitionData, Failed> {
    let mut topic = TopicData::default();
    topic.topic_name = StrBytes::from(METADATA_TOPIC);
    topic.partitions = vec![Asked::default()];
    let mut request = DescribeQuorumRequest::default();
    request.topics = vec![topic];
    let doing = || "describe the quorum".to_owned();
    let answer = console.ask_controller(visitor, &request, &doing()).await?;
    check(answer.error_code, answer.error_message.as_deref(), doing).needing("describe", "--cluster")?;
    let found = answer.topics.into_iter().flat_map(|topic| topic.partitions).next();
    let found = found.ok_or_else(|| Failed::Missing("The quorum returned no partition.".to_owned()))?;
    check(found.error_code, found.error_message.as_deref(), doing)?;
    Ok(found)
}

/// The problem of the controllers, if there is one and the visitor may see them.
pub(in crate::console) async fn problem(console: &Console, visitor: &Visitor) -> Option<ControllersProblem> {
    problem_of(&ask(console, visitor).await)
}

fn problem_of(asked: &Result<PartitionData, Failed>) -> Option<ControllersProblem> {
    match asked {
        Ok(log) => ControllersProblem::of_leader(log.leader_id),
        Err(Failed::ControllersSilent(limit)) => Some(ControllersProblem::Silent(*limit)),
        Err(Failed::Refused { code, .. }) => ControllersProblem::of_failure(Cause::Code(*code), PATIENCE),
        Err(_) => None,
    }
}

fn shown(quorum: &PartitionData, now_ms: i64) -> Markup {
    html! {
        div.tiles {
            (tile("Leader", format!("node {}", quorum.leader_id), None))
            (tile("Epoch", format::count(i128::from(quorum.leader_epoch)), None))
            (tile("Committed offset", format::count(i128::from(quorum.high_watermark)), None))
        }
        (table_of(&["Node", "Role", "#Log end", "#Lag in records", "#Caught up ago"], &[3], html! {
            @for one in &quorum.current_voters {
                (row(quorum, one, if one.replica_id == quorum.leader_id { "leader" } else { "voter" }, now_ms))
            }
            @for one in &quorum.observers { (row(quorum, one, "observer", now_ms)) }
        }))
    }
}

fn row(quorum: &PartitionData, one: &ReplicaState, role: &str, now_ms: i64) -> Markup {
    let leader = quorum.current_voters.iter().find(|voter| voter.replica_id == quorum.leader_id);
    let lag = leader.map(|leader| leader.log_end_offset - one.log_end_offset);
    let lag = lag
        .filter(|_| one.log_end_offset >= 0)
        .map_or("—".to_owned(), |lag| format::count(i128::from(lag)));
    let caught_up = Some(one.last_caught_up_timestamp).filter(|at| *at > 0 && role != "leader");
    html! {
        tr {
            th scope="row" { (one.replica_id) }
            td { (role) }
            td.n { (format::count(i128::from(one.log_end_offset))) }
            td.n { (lag) }
            td.n { (caught_up.map_or("—".to_owned(), |at| format::millis((now_ms - at).max(0)))) }
        }
    }
}

#[cfg(test)]
mod tests;
