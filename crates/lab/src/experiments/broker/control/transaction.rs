//! Transactions in the protocol of Kafka 4 (KIP-890): the first record adds the partition, and the
//! end of the transaction increments the producer epoch.

use std::time::Duration;

use levada_base::batch::Builder;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{EndTxnRequest, InitProducerIdRequest, ProduceRequest, StrBytes};

use super::operations::Work;
use crate::error::LabError;
use crate::experiments::broker::harness::connection::Connection;
use crate::experiments::broker::harness::coordinator;
use crate::experiments::broker::harness::frames;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;

const NAME: &str = "transaction";

/// Pause while the previous transaction of the producer ends.
const PAUSE: Duration = Duration::from_millis(1);

/// Producer id and producer epoch.
type Producer = (i64, i16);

pub(super) fn begin(node: &Node, _: usize) -> Result<Work, LabError> {
    coordinator::find(node, (coordinator::TRANSACTION, NAME))?;
    topic::create(node, NAME, 1, &[])?;
    let (mut connection, mut producer) = (Connection::open(node.address())?, None);
    Ok(Box::new(move |_| {
        let current = match producer {
            Some(producer) => producer,
            None => init(&mut connection)?,
        };
        produce(&mut connection, current)?;
        producer = Some(commit(&mut connection, current)?);
        Ok(())
    }))
}

fn init(connection: &mut Connection) -> Result<Producer, LabError> {
    let mut request = InitProducerIdRequest::default();
    request.transactional_id = Some(StrBytes::from(NAME));
    request.transaction_timeout_ms = 60_000;
    (request.producer_id, request.producer_epoch) = (-1, -1);
    let response = connection.ask(5, &request)?;
    match response.error_code {
        0 => Ok((response.producer_id, response.producer_epoch)),
        error => Err(frames::refused("InitProducerId", error)),
    }
}

/// Writes one record; each epoch begins at sequence 0.
fn produce(connection: &mut Connection, (id, epoch): Producer) -> Result<(), LabError> {
    let mut batch = Builder::new().producer(id, epoch, 0).transactional();
    batch.push(1_700_000_000_000, None, Some(&[0; 100]));
    let batch = batch.build().map_err(LabError::step("cannot make a batch"))?;
    let mut partition = PartitionProduceData::default();
    partition.records = Some(batch.freeze());
    let mut data = TopicProduceData::default();
    (data.name, data.partition_data) = (StrBytes::from(NAME), vec![partition]);
    let mut request = ProduceRequest::default();
    request.transactional_id = Some(StrBytes::from(NAME));
    (request.acks, request.timeout_ms, request.topic_data) = (-1, 30_000, vec![data]);
    loop {
        let response = connection.ask(12, &request)?;
        let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        match answers.map(|one| one.error_code).find(|code| *code != 0) {
            None => return Ok(()),
            Some(error) if error == ErrorCode::ConcurrentTransactions.code() => std::thread::sleep(PAUSE),
            Some(error) => return Err(frames::refused("Produce", error)),
        }
    }
}

/// Commits the transaction. Returns the producer id and epoch for the next one.
fn commit(connection: &mut Connection, (id, epoch): Producer) -> Result<Producer, LabError> {
    let mut request = EndTxnRequest::default();
    request.transactional_id = StrBytes::from(NAME);
    (request.producer_id, request.producer_epoch, request.committed) = (id, epoch, true);
    let response = connection.ask(5, &request)?;
    match response.error_code {
        0 => Ok((response.producer_id, response.producer_epoch)),
        error => Err(frames::refused("EndTxn", error)),
    }
}
