//! Counts the response to a fetch for the statistics and the throttles.

use levada_wire::fetch::FetchResponse;
use levada_wire::gather::HoleLen;

use super::{Records, Target};
use crate::api::Context;

/// Counts the code of each partition, or that of the whole response if it has no partitions.
pub(super) fn count_errors(context: &Context, response: &FetchResponse<Records>) {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.for_each(|partition| context.count_error(partition.error_code));
    if response.error_code != 0 || response.topics.is_empty() {
        context.count_error(response.error_code);
    }
}

/// Counts the records and bytes of each partition in the response.
pub(super) fn count_traffic(targets: &[Target], response: &FetchResponse<Records>) {
    let fetched = response.topics.iter().flat_map(|topic| &topic.partitions);
    for (target, fetched) in targets.iter().zip(fetched) {
        let Ok(partition) = &target.partition else { continue };
        match fetched.error_code {
            0 => partition.traffic().fetched(fetched.records.as_ref().map_or(0, HoleLen::len)),
            _ => partition.traffic().fetch_failed(),
        }
    }
}

/// Counts the bytes of followers against the leader's throttle.
pub(super) fn count_replicated(targets: &[Target], response: &FetchResponse<Records>) {
    let fetched = response.topics.iter().flat_map(|topic| &topic.partitions);
    for (target, fetched) in targets.iter().zip(fetched) {
        if let (Ok(partition), Some(records)) = (&target.partition, &fetched.records) {
            partition.sent_to_follower(records.len());
        }
    }
}
