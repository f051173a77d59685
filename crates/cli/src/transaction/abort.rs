//! `levada transaction abort`: ends a transaction through its coordinator or, if no coordinator has
//! it, in one partition.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use levada_client::{Cluster, Coordinated, Led};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use levada_wire::messages::{InitProducerIdRequest, InitProducerIdResponse, WriteTxnMarkersRequest};

use super::{describe, producers};
use crate::outcomes::{Outcome, Outcomes};
use crate::{kafka_error, question};
use levada_terminal::failure::Failure;
use levada_terminal::output::FormatArgs;

/// Abort a transaction
///
/// With a transactional id, its coordinator aborts the open transaction and fences the producer,
/// which must restart. With a topic, a partition and a start offset, the command aborts a
/// transaction in that partition that no coordinator knows; `levada transaction hanging` finds such
/// transactions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada transaction abort payments-1
  levada transaction abort --topic clicks -p 0 --start-offset 42
  levada transaction abort --topic t -p 0 --producer-id 7 --producer-epoch 0 --coordinator-epoch 0")]
pub(crate) struct Abort {
    /// Transactional id
    #[arg(required_unless_present = "topic", conflicts_with_all = ["topic", "partition"])]
    id: Option<String>,
    /// Topic with a hanging transaction
    #[arg(short, long, value_name = "TOPIC", requires = "partition")]
    topic: Option<String>,
    /// Partition with the hanging transaction
    #[arg(short, long, value_name = "N", requires = "topic")]
    partition: Option<i32>,
    /// Offset at which the transaction begins in the partition
    #[arg(long, value_name = "OFFSET", requires = "topic", conflicts_with = "producer_id")]
    start_offset: Option<i64>,
    /// Id of the producer, instead of an offset
    #[arg(long, value_name = "ID", requires_all = ["topic", "producer_epoch", "coordinator_epoch"])]
    producer_id: Option<i64>,
    /// Epoch of the producer
    #[arg(long, value_name = "EPOCH", requires = "producer_id")]
    producer_epoch: Option<i16>,
    /// Epoch of the transaction's coordinator
    #[arg(long, value_name = "EPOCH", requires = "producer_id")]
    coordinator_epoch: Option<i32>,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

/// The producer whose transaction a marker ends.
struct Producer {
    id: i64,
    epoch: i16,
    coordinator_epoch: i32,
}

/// Time that a coordinator may take to end a transaction.
const ENDING_WAIT: Duration = Duration::from_secs(30);
/// Message if the command changes no transaction.
const NOTHING_ABORTED: &str = "nothing was aborted";
const ENDING_POLL: Duration = Duration::from_millis(50);

impl Abort {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut outcomes = Outcomes::new(self.format);
        match (&self.id, &self.topic, self.partition) {
            (Some(id), ..) => {
                // Reports an id that does not exist; a request for an epoch would create it.
                let state = describe::describe(cluster, id)?.state;
                let what = format!("abort the transaction of {id} and fence its producer");
                self.question.ask(&what, NOTHING_ABORTED)?;
                abort_id(cluster, id)?;
                let (outcome, said) = ended(id, &state);
                outcomes.add(("transaction", id), outcome, &said);
            }
            (None, Some(topic), Some(partition)) => {
                let producer = self.abort_in(cluster, topic, partition)?;
                let place = format!("{topic}/{partition}");
                let said = format!("aborted the transaction of producer {producer} in {place}");
                outcomes.add(("transaction", &place), Outcome::Done, &said);
            }
            _ => {
                let what = "a transactional id or --topic and --partition are needed";
                return Err(Failure::Usage(what.to_owned()));
            }
        }
        outcomes.end(out)
    }

    /// Returns the id of the producer whose transaction was open.
    fn abort_in(&self, cluster: &mut Cluster, name: &str, partition: i32) -> Result<i64, Failure> {
        let mut topic = cluster.topic(name, false, Led::These(&[partition]))?;
        let leader = topic.leader(partition)?;
        topic.leaders.retain(|index, _| *index == partition);
        let producer =
            match (self.start_offset, self.producer_id, self.producer_epoch, self.coordinator_epoch) {
                (_, Some(id), Some(epoch), Some(coordinator_epoch)) => {
                    Producer { id, epoch, coordinator_epoch }
                }
                (Some(start), ..) => {
                    let open = producers::open(cluster, [&topic])?;
                    let found = open.into_iter().find(|one| one.start_offset == start);
                    let found = found.ok_or_else(|| {
                        let what =
                            format!("no open transaction begins at offset {start} of {name}/{partition}");
                        Failure::with_next(what, "levada transaction hanging shows hanging transactions")
                    })?;
                    Producer {
                        id: found.producer_id,
                        epoch: found.producer_epoch,
                        coordinator_epoch: found.coordinator_epoch,
                    }
                }
                _ => return Err(Failure::Usage("--start-offset or --producer-id is needed".to_owned())),
            };
        let what = format!("abort the transaction of producer {} in {name}/{partition}", producer.id);
        self.question.ask(&what, NOTHING_ABORTED)?;
        write_marker(cluster, leader, (name, partition), &producer)?;
        Ok(producer.id)
    }
}

/// The outcome for an id that was in this state.
fn ended(id: &str, state: &str) -> (Outcome, String) {
    if state == "Ongoing" {
        (Outcome::Done, format!("aborted the open transaction of {id} and fenced its producer"))
    } else {
        let said = format!("no transaction of {id} was open (state {state}); fenced its producer");
        (Outcome::Unchanged, said)
    }
}

fn write_marker(
    cluster: &mut Cluster,
    leader: i32,
    (name, partition): (&str, i32),
    producer: &Producer,
) -> Result<(), Failure> {
    let mut topic = WritableTxnMarkerTopic::default();
    topic.name = StrBytes::from(name);
    topic.partition_indexes = vec![partition];
    let mut marker = WritableTxnMarker::default();
    marker.producer_id = producer.id;
    marker.producer_epoch = producer.epoch;
    // A producer that has never ended a transaction there has -1; 0 is not above any coordinator's.
    marker.coordinator_epoch = producer.coordinator_epoch.max(0);
    marker.transaction_result = false;
    marker.topics = vec![topic];
    let mut request = WriteTxnMarkersRequest::default();
    request.markers = vec![marker];
    let response = cluster.broker(leader)?.request(&request)?;
    let doing = format!("abort the transaction of producer {} in {name}/{partition}", producer.id);
    let topics = response.markers.iter().flat_map(|marker| &marker.topics);
    let mut results = topics.flat_map(|topic| &topic.partitions);
    let checked = results.try_for_each(|one| kafka_error::check(one.error_code, &doing, None));
    kafka_error::needing(checked, "alter", "--cluster")
}

/// Ends the open transaction of the id by a new epoch, which also fences its producer.
fn abort_id(cluster: &mut Cluster, id: &str) -> Result<(), Failure> {
    let mut request = InitProducerIdRequest::default();
    request.transactional_id = Some(StrBytes::from(id));
    // No producer will use this epoch: its transaction would end immediately.
    request.transaction_timeout_ms = 1;
    request.producer_id = -1;
    request.producer_epoch = -1;
    let started = Instant::now();
    loop {
        let code = |response: &InitProducerIdResponse| response.error_code;
        let response = cluster.ask_coordinator(Coordinated::Transaction, id, (&request, i16::MAX), code)?;
        if response.error_code == ErrorCode::ConcurrentTransactions.code() && started.elapsed() < ENDING_WAIT
        {
            thread::sleep(ENDING_POLL);
            continue;
        }
        let checked =
            kafka_error::check(response.error_code, &format!("abort the transaction of {id}"), None);
        return kafka_error::needing(checked, "write", &format!("--transactional-id {id}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abort_reports_missing_open_transaction() {
        let (outcome, said) = ended("pay", "Ongoing");
        assert_eq!((outcome, said.starts_with("aborted ")), (Outcome::Done, true), "{said}");
        let (outcome, said) = ended("pay", "CompleteAbort");
        assert_eq!(outcome, Outcome::Unchanged);
        assert_eq!(said, "no transaction of pay was open (state CompleteAbort); fenced its producer");
    }
}
