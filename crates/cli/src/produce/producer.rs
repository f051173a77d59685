//! An idempotent producer: the broker assigns a producer id, and the producer numbers its batches,
//! so that a repeated batch is stored once.

use std::collections::BTreeMap;

use levada_base::batch::Builder;
use levada_terminal::failure::Failure;
use levada_wire::messages::InitProducerIdRequest;

use crate::cluster::Cluster;
use crate::kafka_error;

/// The id of one who has none.
const NONE: i64 = -1;

/// An idempotent producer with the next sequence number of each partition.
pub(super) struct Producer {
    id: i64,
    epoch: i16,
    sequences: BTreeMap<i32, i32>,
}

impl Producer {
    /// Requests an id from a broker.
    pub(super) fn new(cluster: &mut Cluster) -> Result<Self, Failure> {
        let mut request = InitProducerIdRequest::default();
        request.transactional_id = None;
        request.transaction_timeout_ms = 0;
        request.producer_id = NONE;
        request.producer_epoch = -1;
        // A broker of Kafka that has just started has no producer ids yet, and requests some.
        let response = cluster.ask_until_ready(&request, |response| response.error_code)?;
        let checked = kafka_error::check(response.error_code, "produce idempotently", None);
        kafka_error::needing(checked, "idempotent-write", "--cluster")?;
        Ok(Self::known(response.producer_id, response.producer_epoch))
    }

    /// A producer that has sent nothing yet.
    pub(super) fn known(id: i64, epoch: i16) -> Self {
        Self { id, epoch, sequences: BTreeMap::new() }
    }

    /// The batch with this producer's next sequence numbers in the partition.
    pub(super) fn number(&mut self, partition: i32, batch: Builder) -> Builder {
        let count = i32::try_from(batch.len()).unwrap_or(i32::MAX);
        let next = self.sequences.entry(partition).or_insert(0);
        let first = *next;
        // Sequence numbers go on at 0 after the largest.
        *next = first.wrapping_add(count) & i32::MAX;
        batch.producer(self.id, self.epoch, first)
    }
}
