//! Leaders of partitions, for clients that send requests to another broker (KIP-951).

use levada_metadata::image::{Image, Topic};
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::StrBytes;
use levada_wire::produce::{LeaderEpoch, NodeEndpoint};

use crate::api::{Context, text};

#[cfg(test)]
mod tests;

/// The nodes that a response refers clients to, each once.
#[derive(Default)]
pub(super) struct Leaders {
    nodes: Vec<NodeEndpoint>,
}

impl Leaders {
    /// The leader to return with this error; none for other errors, or if the metadata has no
    /// leader other than this broker.
    pub(super) fn of_refusal(
        &mut self,
        context: &Context,
        (name, topic_id): (&StrBytes, Uuid),
        index: i32,
        error_code: i16,
    ) -> Option<LeaderEpoch> {
        let refusals = [ErrorCode::NotLeaderOrFollower, ErrorCode::FencedLeaderEpoch];
        if !refusals.iter().any(|refusal| refusal.code() == error_code) {
            return None;
        }
        let image = context.broker().metadata().image();
        let topic = match topic_id {
            Uuid::ZERO => image.topic(name.as_str()),
            id => image.topic_by_id(id),
        };
        let leader = leader_elsewhere(topic?, index, context.broker().node_id())?;
        if self.nodes.iter().all(|node| node.node_id != leader.leader_id) {
            self.nodes.extend(endpoint(&image, leader.leader_id, &context.info.listener.name));
        }
        Some(leader)
    }

    /// Like [`Leaders::of_refusal`], as responses about shared partitions have it: -1 for a leader
    /// that is not known, and none for other errors.
    pub(super) fn of_share(
        &mut self,
        context: &Context,
        (topic_id, index): (Uuid, i32),
        error_code: i16,
    ) -> Option<LeaderEpoch> {
        let refusals = [ErrorCode::NotLeaderOrFollower, ErrorCode::FencedLeaderEpoch];
        let is_refusal = refusals.iter().any(|refusal| refusal.code() == error_code);
        let unknown = LeaderEpoch { leader_id: -1, leader_epoch: -1 };
        is_refusal.then(|| {
            let key = (&StrBytes::default(), topic_id);
            self.of_refusal(context, key, index, error_code).unwrap_or(unknown)
        })
    }

    /// The addresses of all leaders that were named.
    pub(super) fn into_nodes(self) -> Vec<NodeEndpoint> {
        self.nodes
    }
}

/// Leader and leader epoch of a partition that another node leads.
fn leader_elsewhere(topic: &Topic, index: i32, node_id: i32) -> Option<LeaderEpoch> {
    let partition = topic.partition(index)?;
    let leader = LeaderEpoch { leader_id: partition.leader, leader_epoch: partition.leader_epoch };
    (partition.has_leader() && leader.leader_id != node_id).then_some(leader)
}

/// Address of a broker that is not fenced, for clients of the listener of this name.
fn endpoint(image: &Image, node_id: i32, listener: &str) -> Option<NodeEndpoint> {
    let broker = image.brokers().broker(node_id).filter(|broker| !broker.fenced)?;
    let endpoint = broker.end_points.iter().find(|one| one.name == listener)?;
    Some(NodeEndpoint {
        node_id,
        host: text(endpoint.host.clone()),
        port: i32::from(endpoint.port),
        rack: broker.rack.clone().map(text),
    })
}
