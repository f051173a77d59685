//! Numbers of an idempotent producer: the broker assigns a producer id, and the producer numbers
//! its batches, so that a repeated batch is stored once.

use std::collections::BTreeMap;

use levada_base::batch::Builder;
use levada_wire::messages::InitProducerIdRequest;

use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::refusal::{Operation, Refusal};

/// Producer id of a producer that has none.
const NONE: i64 = -1;

/// A producer id with the next sequence number of each partition.
pub(super) struct Sequences {
    id: i64,
    epoch: i16,
    next: BTreeMap<i32, i32>,
}

impl Sequences {
    /// Requests an id from a broker.
    pub(super) fn request(cluster: &mut Cluster) -> Result<Self, ClientError> {
        let mut request = InitProducerIdRequest::default();
        request.transactional_id = None;
        request.transaction_timeout_ms = 0;
        request.producer_id = NONE;
        request.producer_epoch = -1;
        // A broker of Kafka that has just started has no producer ids yet, and requests some.
        let response = cluster.ask_until_ready(&request, |response| response.error_code)?;
        Refusal::check(response.error_code, None, || Operation::InitProducer)?;
        Ok(Self::of(response.producer_id, response.producer_epoch))
    }

    /// The sequence numbers of a producer that has sent nothing yet.
    pub(super) fn of(id: i64, epoch: i16) -> Self {
        Self { id, epoch, next: BTreeMap::new() }
    }

    /// The batch with the next sequence numbers in the partition.
    pub(super) fn number(&mut self, partition: i32, batch: Builder) -> Builder {
        let count = i32::try_from(batch.len()).unwrap_or(i32::MAX);
        let next = self.next.entry(partition).or_insert(0);
        let first = *next;
        // Sequence numbers go on at 0 after the largest.
        *next = first.wrapping_add(count) & i32::MAX;
        batch.producer(self.id, self.epoch, first)
    }
}
