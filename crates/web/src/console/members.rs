//! Numbers of members of groups that other brokers coordinate.

use std::collections::BTreeMap;
use std::time::Duration;

use levada_client::member_counts::{MemberCounts, MemberRequests};
use levada_wire::messages::RequestResponsePair;

use super::Console;
use super::failure::Failed;
use super::visitor::Visitor;

impl Console {
    /// Number of members of groups, by id, from their coordinators. Groups without a response are
    /// omitted.
    pub(super) async fn member_counts(
        &self,
        visitor: &Visitor,
        requests: MemberRequests,
    ) -> Result<BTreeMap<String, u64>, Failed> {
        let mut counts = BTreeMap::new();
        counts.extend(self.counted(visitor, requests.classic).await?);
        counts.extend(self.counted(visitor, requests.consumer).await?);
        counts.extend(self.counted(visitor, requests.share).await?);
        counts.extend(self.counted(visitor, requests.streams).await?);
        Ok(counts)
    }

    async fn counted<R>(
        &self,
        visitor: &Visitor,
        requests: BTreeMap<i32, R>,
    ) -> Result<Vec<(String, u64)>, Failed>
    where
        R: RequestResponsePair + Send + 'static,
        R::Response: MemberCounts + Send + 'static,
    {
        let answers = self.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
        Ok(answers.values().flat_map(MemberCounts::member_counts).collect())
    }
}
