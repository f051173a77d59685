//! Small batches that are recompressed: they wait for no large ones.

use std::sync::Arc;

use bytes::BytesMut;
use levada_base::Append;
use levada_base::batch::{self, BatchError};
use levada_base::compress::CompressError;
use levada_wire::error_code::Failure;

use super::examine;
use super::rejected::Rejected;
use crate::api::Context;
use crate::replica::Partition;

/// Records that expand to more bytes than this wait for other such records.
pub(super) const EXPANDED_MAX: usize = 256 << 10;

/// Checks a batch that is recompressed, in a queue without large batches; returns it if it turns
/// out to be large.
pub(super) async fn check(
    context: &Context,
    partition: &Arc<Partition>,
    records: BytesMut,
) -> Result<Result<Append, BytesMut>, Rejected> {
    let (version, partition) = (context.version(), partition.clone());
    let check = move || {
        let survey = match batch::check_within(&records, EXPANDED_MAX) {
            Err(BatchError::Compression(CompressError::TooLarge { .. })) => return Ok(Err(records)),
            checked => checked.map_err(Failure::from)?.survey,
        };
        examine(version, &partition, (records, survey)).map(Ok)
    };
    context.run_in_turn(&context.broker().turns().expansions.small, check).await
}
