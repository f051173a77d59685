//! Directories of brokers, with the replicas in each.

use std::collections::BTreeMap;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_wire::StrBytes;
use levada_wire::messages::DescribeLogDirsRequest;
use levada_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use levada_wire::messages::describe_log_dirs_response::DescribeLogDirsResult;

use crate::kafka_error;

/// Directories of the brokers that responded.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    pub(crate) known: Vec<Directory>,
    /// Brokers without a response, with the reason.
    pub(crate) unknown: BTreeMap<i32, Failure>,
}

/// A directory of a broker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) broker: i32,
    pub(crate) path: String,
    /// Kafka's name of the error of the directory.
    pub(crate) error: Option<String>,
    /// Bytes of the file system; `None` if the broker does not report them.
    pub(crate) total_bytes: Option<u64>,
    pub(crate) free_bytes: Option<u64>,
    /// True if the broker puts no new replica into the directory.
    pub(crate) is_cordoned: bool,
    pub(crate) replicas: Vec<Replica>,
}

/// A replica in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) place: TopicPartition,
    pub(crate) bytes: u64,
    /// True for the copy of a replica that moves to this directory.
    pub(crate) is_copy: bool,
}

impl Directories {
    /// Requests the sizes of all replicas, or of some partitions, from the brokers. A broker that
    /// does not respond or refuses is in `unknown`.
    pub(crate) fn ask(
        cluster: &mut Cluster,
        brokers: impl IntoIterator<Item = i32>,
        partitions: Option<&[&TopicPartition]>,
    ) -> Self {
        let mut directories = Self::default();
        let mut request = DescribeLogDirsRequest::default();
        request.topics = partitions.map(by_topic);
        for broker in brokers {
            match ask(cluster, broker, &request) {
                Ok(results) => {
                    directories.known.extend(results.iter().map(|one| Directory::of(broker, one)));
                }
                Err(failure) => {
                    directories.unknown.insert(broker, failure);
                }
            }
        }
        directories
    }

    /// Prints a warning for each broker that did not respond. Users without permission get no
    /// sizes, and no warning.
    pub(crate) fn warn(&self) {
        for (broker, failure) in self.unknown.iter().filter(|(_, failure)| !kafka_error::is_refusal(failure))
        {
            tell!("warning: the directories of broker {broker} are not known: {}", failure.line());
        }
    }

    /// The failures of brokers without a response. All brokers refuse a user without permission, so
    /// that a refusal counts once.
    pub(crate) fn failures(&mut self) -> Vec<Failure> {
        let unknown = std::mem::take(&mut self.unknown).into_values();
        let (refusals, mut failures): (Vec<_>, Vec<_>) = unknown.partition(kafka_error::is_refusal);
        failures.extend(refusals.into_iter().next());
        failures
    }

    /// Bytes of each replica, by partition and broker, without copies that are not complete.
    pub(crate) fn sizes(&self) -> BTreeMap<(TopicPartition, i32), u64> {
        let present = self.known.iter().flat_map(|directory| {
            let replicas = directory.replicas.iter().filter(|replica| !replica.is_copy);
            replicas.map(|replica| ((replica.place.clone(), directory.broker), replica.bytes))
        });
        present.collect()
    }

    /// Bytes of all replicas on a broker; `None` if it did not respond or one of its directories
    /// does not work.
    pub(crate) fn bytes(&self, broker: i32) -> Option<u64> {
        let mut own = self.known.iter().filter(|directory| directory.broker == broker).peekable();
        own.peek()?;
        own.map(Directory::bytes).sum()
    }

    /// Free bytes of all directories of a broker together; `None` if one is not known.
    pub(crate) fn free(&self, broker: i32) -> Option<u64> {
        let mut own = self.known.iter().filter(|directory| directory.broker == broker).peekable();
        own.peek()?;
        own.map(|directory| directory.free_bytes).sum()
    }
}

impl Directory {
    fn of(broker: i32, result: &DescribeLogDirsResult) -> Self {
        let replicas = result.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|one| Replica {
                place: (topic.name.as_str().to_owned(), one.partition_index),
                bytes: u64::try_from(one.partition_size).unwrap_or(0),
                is_copy: one.is_future_key,
            })
        });
        Self {
            broker,
            path: result.log_dir.as_str().to_owned(),
            error: Some(result.error_code).filter(|code| *code != 0).map(kafka_error::name),
            // -1 if the broker does not know it.
            total_bytes: u64::try_from(result.total_bytes).ok(),
            free_bytes: u64::try_from(result.usable_bytes).ok(),
            is_cordoned: result.is_cordoned,
            replicas: replicas.collect(),
        }
    }

    /// Bytes of its replicas; `None` if the directory does not work.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.error.is_none().then(|| self.replicas.iter().map(|replica| replica.bytes).sum())
    }
}

fn by_topic(partitions: &[&TopicPartition]) -> Vec<DescribableLogDirTopic> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    let asked = topics.into_iter().map(|(topic, partitions)| {
        let mut asked = DescribableLogDirTopic::default();
        (asked.topic, asked.partitions) = (StrBytes::from(topic), partitions);
        asked
    });
    asked.collect()
}

fn ask(
    cluster: &mut Cluster,
    broker: i32,
    request: &DescribeLogDirsRequest,
) -> Result<Vec<DescribeLogDirsResult>, Failure> {
    let response = cluster.open_broker(broker)?.request(request)?;
    let checked = kafka_error::check(response.error_code, "describe directories", None);
    kafka_error::needing(checked, "describe", "--cluster")?;
    Ok(response.results)
}
