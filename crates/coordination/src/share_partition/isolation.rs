//! Choice of the records of one batch that a fetch acquires. Records that were delivered often are
//! delivered in ever smaller parts, and singly at the last attempt. A record that no consumer can
//! process then does not exhaust the attempts of its neighbours.

use super::ledger::{Run, length};
use super::limits::ShareLimits;

/// Neighbouring records to acquire: the first offset, the last one, and the deliveries before.
pub(super) type Picked = (i64, i64, u16);

/// Part of a batch from which records are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchPart {
    /// Number of offsets of the whole batch.
    pub(super) size: i64,
    /// First offset of the part.
    pub(super) from: i64,
    /// Last offset of the part, inclusive.
    pub(super) to: i64,
    /// Number of records that may be acquired.
    pub(super) limit: i64,
}

/// True if the part has free records that are to be isolated.
pub(super) fn is_isolated(runs: impl Iterator<Item = (i64, Run)>, limits: &ShareLimits) -> bool {
    let free = runs.map(|(_, run)| run).filter(Run::is_free);
    free.map(|run| run.deliveries).max() >= Some(limits.isolated_from())
}

/// The free records of the part that one fetch acquires.
pub(super) fn pick(
    runs: impl Iterator<Item = (i64, Run)>,
    part: BatchPart,
    limits: &ShareLimits,
) -> Vec<Picked> {
    let (mut picked, mut taken, mut share) = (Vec::new(), 0, None);
    for (first, run) in runs.filter(|(_, run)| run.is_free()) {
        let is_last_attempt = limits.is_last_attempt(run.deliveries);
        if is_last_attempt && taken > 0 {
            break;
        }
        if run.deliveries >= limits.isolated_from() {
            share = share.or_else(|| Some(isolated_share(part.size, run.deliveries, limits)));
        }
        let (first, last) = (first.max(part.from), run.last.min(part.to));
        let mut count = length(first, last).min(part.limit - taken);
        if is_last_attempt {
            count = count.min(1);
        }
        if let Some(share) = share.filter(|share| *share > taken) {
            count = count.min(share - taken);
        }
        if count <= 0 {
            break;
        }
        picked.push((first, first + (count - 1), run.deliveries));
        taken += count;
        if is_last_attempt || taken == part.limit || share == Some(taken) {
            break;
        }
    }
    picked
}

/// Number of records that are delivered together: half of the batch, and half as many with each
/// further delivery.
fn isolated_share(size: i64, deliveries: u16, limits: &ShareLimits) -> i64 {
    let halvings = u32::from(deliveries.saturating_sub(limits.isolated_from())) + 1;
    size.checked_shr(halvings).unwrap_or(0).max(1)
}
