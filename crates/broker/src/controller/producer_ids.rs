//! Producer ids, handed out from blocks that the metadata log accounts for. In a cluster the
//! membership requests blocks in advance.

use std::ops::Range;
use std::sync::Arc;

use levada_metadata::controller::allocate_producer_ids;
use levada_wire::error_code::Failure;
use parking_lot::Mutex;

use crate::controller::Controller;

/// The block in use.
#[derive(Default)]
pub(super) struct ProducerIds {
    left: Mutex<Range<i64>>,
}

impl Controller {
    /// A new id, never used before. Waits for the metadata log once in a thousand ids.
    pub(crate) async fn next_producer_id(self: &Arc<Self>) -> Result<i64, Failure> {
        if let Some(remote) = self.remote() {
            return Ok(remote.active().producer_id().await?);
        }
        if let Some(id) = self.producer_ids.left.lock().next() {
            return Ok(id);
        }
        self.off_shard(|controller| {
            let mut left = controller.producer_ids.left.lock();
            loop {
                if let Some(id) = left.next() {
                    return Ok(id);
                }
                let node_id = controller.config.load().node_id;
                let block = controller.embedded()?.decide(|image| allocate_producer_ids(image, node_id))?;
                assert!(left.end <= block.start && block.start < block.end, "{block:?} follows {left:?}");
                *left = block;
            }
        })
        .await
    }
}
