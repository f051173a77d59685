//! Parts of fetch requests and responses.

use bytes::Bytes;
use levada_base::batch::{self, BatchError};
use levada_wire::StrBytes;
use levada_wire::messages::fetch_request::{FetchPartition, FetchTopic};

use crate::cluster::Topic;

/// Version from which Fetch names topics by id.
const BY_ID: i16 = 13;
const PARTITION_MAX_BYTES: i32 = 8 << 20;

/// A topic of a fetch request of this version, without partitions.
#[must_use]
pub fn asked_topic(topic: &Topic, version: i16) -> FetchTopic {
    let mut asked = FetchTopic::default();
    if version >= BY_ID {
        asked.topic_id = topic.id;
    } else {
        asked.topic = StrBytes::from(topic.name.as_str());
    }
    asked
}

/// A partition of a fetch request, from this offset on, with at most 8 MiB.
#[must_use]
pub fn asked_partition(partition: i32, position: i64) -> FetchPartition {
    let mut asked = FetchPartition::default();
    asked.partition = partition;
    asked.fetch_offset = position;
    asked.current_leader_epoch = -1;
    asked.partition_max_bytes = PARTITION_MAX_BYTES;
    asked
}

/// The next whole batch, checked against its checksum; `None` at the end and before a batch that
/// was cut off there.
///
/// # Errors
/// The batch is damaged.
pub fn split_batch(rest: &mut Bytes) -> Result<Option<Bytes>, BatchError> {
    match batch::check_stored(rest) {
        Ok(view) => Ok(Some(rest.split_to(view.bytes().len()))),
        Err(BatchError::Truncated { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
