//! Requests that several pages send to the broker: topics, offsets by time, sizes, settings, and
//! the access check of pages that send no other request.

use std::collections::BTreeMap;
use std::time::Duration;

use levada_broker::desk::Caller;
use levada_process::blocking::off_shard;
use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_configs_request::DescribeConfigsResource;
use levada_wire::messages::describe_configs_response::DescribeConfigsResult;
use levada_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::metadata_response::MetadataResponseTopic;
use levada_wire::messages::{
    DescribeClusterRequest, DescribeConfigsRequest, DescribeLogDirsRequest, DescribeLogDirsResponse,
    ListOffsetsRequest, MetadataRequest,
};

use super::Console;
use super::failure::{Failed, Needing as _, check};
use super::visitor::Visitor;

/// Requests the first offset of a log, its end, or the offset of the record with the latest
/// timestamp.
pub(super) const EARLIEST: i64 = -2;
pub(super) const LATEST: i64 = -1;
/// Of ListOffsets: the first offset on the leader's disk.
const EARLIEST_LOCAL: i64 = -4;
/// Of ListOffsets: the last offset in remote storage; -1 if it has none.
const LATEST_TIERED: i64 = -5;

/// The nearest offset between the start and the end of a log. The ends come from two requests: the
/// end is before the start if the topic was created again in between.
pub(super) fn within(offset: i64, (start, end): (i64, i64)) -> i64 {
    offset.min(end).max(start)
}

/// A topic's name and the number of a partition.
pub(super) type Place = (String, i32);

impl Console {
    /// Checks that the visitor has this permission on the cluster, by a DescribeCluster request.
    /// For pages whose content does not come from a Kafka request.
    pub(super) async fn cluster_permission(
        &self,
        visitor: &Visitor,
        operation: Operation,
    ) -> Result<(), Failed> {
        let mut request = DescribeClusterRequest::default();
        request.include_cluster_authorized_operations = true;
        let answer = self.desk.ask(&visitor.caller, &request).await?;
        check(answer.error_code, answer.error_message.as_deref(), || "describe the cluster".to_owned())?;
        let allowed = answer.cluster_authorized_operations & (1 << operation.code()) != 0;
        let code = if allowed { ErrorCode::None } else { ErrorCode::ClusterAuthorizationFailed };
        let sentence = format!("The page needs {operation} on the cluster.");
        let name: &'static str = match operation {
            Operation::Describe => "describe",
            _ => "alter",
        };
        check(code.code(), Some(&sentence), || "show this page".to_owned()).needing(name, "--cluster")
    }

    /// The `option` if lists omit entries that the visitor may not describe.
    pub(super) fn hides<'a>(&self, visitor: &Visitor, option: &'a str) -> Option<&'a str> {
        let config = self.door.config();
        let authorizer = config.security.authorizer.as_ref()?;
        (!authorizer.super_users.contains(visitor.caller.session().principal())).then_some(option)
    }

    /// The topics that the caller may see, by name.
    pub(super) async fn topics(&self, caller: &Caller) -> Result<Vec<MetadataResponseTopic>, Failed> {
        let mut request = MetadataRequest::default();
        request.topics = None;
        let mut topics = self.desk.ask(caller, &request).await?.topics;
        topics.sort_by(|one, other| one.name.as_deref().cmp(&other.name.as_deref()));
        Ok(topics)
    }

    /// One topic, with its partitions in order.
    pub(super) async fn topic(&self, caller: &Caller, name: &str) -> Result<MetadataResponseTopic, Failed> {
        let mut wanted = MetadataRequestTopic::default();
        wanted.name = Some(StrBytes::from(name));
        let mut request = MetadataRequest::default();
        request.topics = Some(vec![wanted]);
        request.allow_auto_topic_creation = false;
        let answer = self.desk.ask(caller, &request).await?;
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        let topic = answer.topics.into_iter().next().filter(|topic| topic.error_code != unknown);
        let mut topic = topic.ok_or_else(|| Failed::Missing(format!("There is no topic {name}.")))?;
        check(topic.error_code, None, || format!("show topic {name}"))
            .needing("describe", format!("--topic {name}"))?;
        topic.partitions.sort_by_key(|partition| partition.partition_index);
        Ok(topic)
    }

    /// The offset of each partition at a time, or at [`EARLIEST`] or [`LATEST`]: -1 if no record is
    /// as late. Requests go to the leaders. Partitions without a leader, and those that are
    /// refused, are omitted.
    pub(super) async fn offsets(
        &self,
        visitor: &Visitor,
        places: impl IntoIterator<Item = (Place, i64)>,
    ) -> Result<BTreeMap<Place, i64>, Failed> {
        let mut leaders: BTreeMap<i32, BTreeMap<String, Vec<ListOffsetsPartition>>> = BTreeMap::new();
        for ((topic, index), time) in places {
            let Some(leader) = self.leader(&topic, index) else { continue };
            let mut partition = ListOffsetsPartition::default();
            partition.partition_index = index;
            partition.current_leader_epoch = -1;
            partition.timestamp = time;
            leaders.entry(leader).or_default().entry(topic).or_default().push(partition);
        }
        let requests = leaders.into_iter().map(|(leader, topics)| (leader, of_times(topics))).collect();
        let answers = self.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
        let found = answers.values().flat_map(|answer| &answer.topics).flat_map(|topic| {
            let known = topic.partitions.iter().filter(|partition| partition.error_code == 0);
            known.map(|one| ((topic.name.as_str().to_owned(), one.partition_index), one.offset))
        });
        Ok(found.collect())
    }

    /// Bytes of the logs of these partitions at their leaders; none if the visitor may not describe
    /// the cluster.
    pub(super) async fn sizes(
        &self,
        visitor: &Visitor,
        topics: &[MetadataResponseTopic],
    ) -> Result<Option<BTreeMap<Place, u64>>, Failed> {
        if !self.permits(visitor, (Operation::Describe, ResourceType::Cluster, CLUSTER_NAME)) {
            return Ok(None);
        }
        let mut leaders: BTreeMap<i32, BTreeMap<StrBytes, Vec<i32>>> = BTreeMap::new();
        for topic in topics {
            let name = topic.name.clone().unwrap_or_default();
            for partition in topic.partitions.iter().filter(|one| one.leader_id >= 0) {
                let topics = leaders.entry(partition.leader_id).or_default();
                topics.entry(name.clone()).or_default().push(partition.partition_index);
            }
        }
        let requests = leaders.into_iter().map(|(leader, topics)| (leader, of_logs(topics))).collect();
        let answers = self.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
        Ok(Some(answers.values().flat_map(sizes).collect()))
    }

    /// The remote parts of these topics; none if no record of them is in remote storage.
    pub(super) async fn tiers(
        &self,
        visitor: &Visitor,
        topics: &[MetadataResponseTopic],
    ) -> Result<Option<Tiers>, Failed> {
        if !self.door.config().remote_log.is_enabled {
            return Ok(None);
        }
        let at = |time| super::topics::places(topics).map(move |place| (place, time));
        let copied = self.offsets(visitor, at(LATEST_TIERED)).await?;
        if copied.values().all(|copied| *copied < 0) {
            return Ok(None);
        }
        let local_starts = self.offsets(visitor, at(EARLIEST_LOCAL)).await?;
        let broker = self.door.clone();
        let remote = off_shard(move || broker.source().remote()).await.unwrap_or_default();
        // The offsets name the partitions that the visitor may see.
        let sizes = remote.logs.into_iter().map(|log| ((log.topic, log.partition), log.bytes));
        let bytes = sizes.filter(|(place, _)| copied.contains_key(place)).collect();
        Ok(Some(Tiers { local_starts, copied, bytes }))
    }

    /// The settings of resources of one kind; of all keys, or of these.
    pub(super) async fn settings(
        &self,
        caller: &Caller,
        (kind, names): (i8, &[&str]),
        keys: Option<&[&str]>,
    ) -> Result<Vec<DescribeConfigsResult>, Failed> {
        let resource = |name: &&str| {
            let mut resource = DescribeConfigsResource::default();
            resource.resource_type = kind;
            resource.resource_name = StrBytes::from(*name);
            resource.configuration_keys =
                keys.map(|keys| keys.iter().map(|key| StrBytes::from(*key)).collect());
            resource
        };
        let mut request = DescribeConfigsRequest::default();
        request.resources = names.iter().map(resource).collect();
        request.include_synonyms = keys.is_none();
        request.include_documentation = keys.is_none();
        Ok(self.desk.ask(caller, &request).await?.results)
    }
}

/// Offsets of partitions whose older records are in remote storage.
pub(super) struct Tiers {
    /// First offset on the leader's disk.
    pub(super) local_starts: BTreeMap<Place, i64>,
    /// Last offset in remote storage; -1 if it has none.
    pub(super) copied: BTreeMap<Place, i64>,
    /// Bytes in remote storage of the partitions that this broker leads: only leaders know them.
    pub(super) bytes: BTreeMap<Place, u64>,
}

impl Tiers {
    /// Number of offsets that only brokers have, of a partition with these first and next offsets.
    pub(super) fn not_copied(
        &self,
        place: &Place,
        (first, last): (&BTreeMap<Place, i64>, &BTreeMap<Place, i64>),
    ) -> Option<i64> {
        let (first, last, copied) = (first.get(place)?, last.get(place)?, self.copied.get(place)?);
        Some((last - first.max(&(copied + 1))).max(0))
    }
}

fn of_times(topics: BTreeMap<String, Vec<ListOffsetsPartition>>) -> ListOffsetsRequest {
    let topics = topics.into_iter().map(|(name, partitions)| {
        let mut topic = ListOffsetsTopic::default();
        topic.name = StrBytes::from(name);
        topic.partitions = partitions;
        topic
    });
    let mut request = ListOffsetsRequest::default();
    request.replica_id = -1;
    request.topics = topics.collect();
    request
}

fn of_logs(topics: BTreeMap<StrBytes, Vec<i32>>) -> DescribeLogDirsRequest {
    let topics = topics.into_iter().map(|(name, partitions)| {
        let mut asked = DescribableLogDirTopic::default();
        (asked.topic, asked.partitions) = (name, partitions);
        asked
    });
    let mut request = DescribeLogDirsRequest::default();
    request.topics = Some(topics.collect());
    request
}

/// Bytes of each log; of a log that moves to another directory, those in its present directory.
pub(super) fn sizes(answer: &DescribeLogDirsResponse) -> impl Iterator<Item = (Place, u64)> {
    let topics = answer.results.iter().flat_map(|directory| &directory.topics);
    topics.flat_map(|topic| {
        topic.partitions.iter().filter(|one| !one.is_future_key).map(|one| {
            let bytes = u64::try_from(one.partition_size).unwrap_or(0);
            ((topic.name.as_str().to_owned(), one.partition_index), bytes)
        })
    })
}

#[cfg(test)]
mod tests;
