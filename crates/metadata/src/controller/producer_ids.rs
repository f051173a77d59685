//! Blocks of producer ids.

use std::ops::Range;

use super::{Decision, Reason, Refusal};
use crate::image::Image;
use crate::records::ProducerIdsRecord;

/// Ids in one block, as in Kafka.
pub const PRODUCER_ID_BLOCK_LEN: i64 = 1000;

/// Producer ids that belong to one broker from now on.
pub type ProducerIdBlock = Range<i64>;

/// Hands the next block of producer ids to a broker.
pub fn allocate_producer_ids(image: &Image, node_id: i32) -> Result<Decision<ProducerIdBlock>, Refusal> {
    let first = image.next_producer_id();
    let Some(next) = first.checked_add(PRODUCER_ID_BLOCK_LEN) else {
        return Err(Refusal::new(
            Reason::ServerError,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        ));
    };
    let broker_epoch = image.brokers().broker(node_id).map_or(-1, |broker| broker.broker_epoch);
    let record = ProducerIdsRecord { broker_id: node_id, broker_epoch, next_producer_id: next };
    Ok(Decision { records: vec![record.into()], outcome: first..next })
}
