//! Endpoints for interactive queries, and the partitions that can be queried there.

use super::beat::told;
use super::configure::Configured;
use super::{StreamsGroup, StreamsMember};
use crate::group::java_map::JavaMap;
use crate::group::records::Tasks;
use crate::group::request::EndpointPartitions;
use crate::group::topics::Topics;

impl StreamsGroup {
    /// The endpoints of all members that have one; that of the requesting member is last.
    pub(super) fn endpoints(&self, asking: &str, topics: &dyn Topics) -> Vec<EndpointPartitions> {
        let others = self.members.iter().filter(|(id, _)| *id != asking);
        let all = others.map(|(_, member)| member).chain(self.members.get(asking));
        all.filter_map(|member| self.endpoint(member, topics)).collect()
    }

    fn endpoint(&self, member: &StreamsMember, topics: &dyn Topics) -> Option<EndpointPartitions> {
        let tasks = told(&member.current.assigned);
        Some(EndpointPartitions {
            endpoint: member.metadata.user_endpoint.clone()?,
            active: self.partitions(&tasks.active, topics),
            standby: self.partitions(&tasks.standby, topics),
        })
    }

    /// The partitions that tasks read, by topic. A topic with fewer partitions than the member has
    /// tasks is listed with that number of the first ones, as in Kafka.
    fn partitions(&self, tasks: &Tasks, topics: &dyn Topics) -> Vec<(String, Vec<i32>)> {
        let parts = self.configured.as_deref().and_then(Configured::parts);
        let mut read = Vec::new();
        for (id, tasks) in tasks {
            let Some(part) = parts.and_then(|parts| parts.get(id)) else { continue };
            let mut names: JavaMap<&str, ()> = JavaMap::new();
            let inputs = part.sources.iter().chain(part.repartition.keys());
            inputs.for_each(|name| names.insert(name, ()));
            let existing = names.keys().filter_map(|name| Some((*name, topics.by_name(name)?.1)));
            read.extend(existing.map(|(name, count)| {
                let most = usize::try_from(count).unwrap_or_default();
                (name.to_owned(), tasks.iter().copied().take(most).collect())
            }));
        }
        read
    }
}
