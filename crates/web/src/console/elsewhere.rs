//! The part of a cluster that a page does not show: partitions that other brokers lead, with the
//! addresses of those brokers.

use std::collections::BTreeMap;

use levada_wire::messages::DescribeClusterRequest;
use levada_wire::messages::metadata_response::MetadataResponseTopic;
use maud::{Markup, html};

use super::Console;
use super::failure::Failed;
use super::visitor::Visitor;

impl Console {
    /// Leader of each partition of an internal topic; empty before the topic exists. Not a request
    /// for the visitor: the page only shows which brokers have the rest.
    pub(super) fn leaders_of(&self, internal: &str) -> Vec<i32> {
        let image = self.door.image();
        let topic = image.topic(internal);
        topic.map_or_else(Vec::new, |topic| topic.partitions().map(|(_, one)| one.leader).collect())
    }

    /// The notice that other brokers lead some of these partitions; empty if this broker leads all
    /// that have a leader. `effect` is the sentence about the omitted contents of the page.
    pub(super) async fn elsewhere(
        &self,
        visitor: &Visitor,
        leaders: impl IntoIterator<Item = i32>,
        effect: &str,
    ) -> Result<Markup, Failed> {
        let own = self.door.config().node_id;
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        for leader in leaders.into_iter().filter(|leader| *leader >= 0 && *leader != own) {
            *counts.entry(leader).or_default() += 1;
        }
        if counts.is_empty() {
            return Ok(html! {});
        }
        let cluster = self.desk.ask(&visitor.caller, &DescribeClusterRequest::default()).await?;
        let addresses: BTreeMap<i32, String> = cluster
            .brokers
            .iter()
            .map(|broker| (broker.broker_id, format!("{}:{}", broker.host.as_str(), broker.port)))
            .collect();
        let sum: usize = counts.values().sum();
        let noun = if sum == 1 { "1 partition is" } else { &format!("{sum} partitions are") };
        Ok(html! {
            div.notice.warn data-elsewhere=(sum) role="status" {
                p { (noun) " led by other brokers. " (effect) }
                p {
                    @for (at, (leader, count)) in counts.iter().enumerate() {
                        @if at > 0 { ", " }
                        "broker " (leader)
                        @if let Some(address) = addresses.get(leader) { " at " (address) }
                        ": " (count)
                    }
                }
            }
        })
    }
}

/// Leaders of the partitions of some topics.
pub(super) fn leaders(topics: &[MetadataResponseTopic]) -> impl Iterator<Item = i32> {
    topics.iter().flat_map(|topic| topic.partitions.iter().map(|partition| partition.leader_id))
}
