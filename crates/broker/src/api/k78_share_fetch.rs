//! ShareFetch (key 78), versions 1–2.
//!
//! Version 2 can limit the number of records strictly (KIP-1206), and renew locks (KIP-1222).
//!
//! A member of a share group (KIP-932) acquires records of partitions that this broker leads, and
//! acknowledges records that it has acquired before. The records leave as those of Fetch do: each
//! partition yields at most one range of whole batches, of which at most the headers are read.
//! Records in the range that the member has not acquired travel along, and the client drops them.
//!
//! The partitions are those of the member's share session, which ends with the connection that has
//! opened it. With too few records the request waits, woken by appends and by records that are
//! available again, until `min_bytes` or `max_wait_ms`. One fetch at a time reads a partition for a
//! group.
//!
//! With `share.isolation.level=read_committed` the range ends at the last stable offset, and the
//! records of aborted transactions are archived instead of delivered.
//!
//! The bytes count against the client's quota. The response has its records nevertheless, because
//! they are acquired, and the connection is muted after it.
//!
//! Checks Read on the group and on each topic. With the feature `share.version` at level 0, the
//! response is `UNSUPPORTED_VERSION`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::BytesMut;
use levada_wire::error_code::ErrorCode;
use levada_wire::gather::HoleLen;
use levada_wire::messages::ShareFetchRequest;
use levada_wire::share_fetch::ShareFetchResponse;
use parking_lot::Mutex;

use crate::api::records::{Records, reply};
use crate::api::share_acks::{
    PartitionAcks, RENEW_VERSION_MIN, acknowledge, close, of_fetch, permit, results,
};
use crate::api::{Context, Reply, RequestError};
use crate::quota::Used;
use crate::share_partitions::{FINAL_EPOCH, MemberKey, PartitionPlace, ShareSession};
use crate::time_slice::TimeSlice;

mod acquiring;
mod fetching;
mod reading;
mod response;
mod session;

use self::fetching::{Fetch, Terms};
use self::response::respond;

/// Ways to acquire: by whole batches, or up to a number of records.
const ACQUIRE_MODES: RangeInclusive<i8> = 0..=1;

/// The part of a request in its share session.
struct Sharing {
    member: MemberKey,
    epoch: i32,
    /// Partitions to fetch, in the order of fetching.
    partitions: Vec<PartitionPlace>,
    /// The session that continues; none if the request opens it or ends it.
    continued: Option<Arc<Mutex<ShareSession>>>,
}

impl Sharing {
    /// True if the request ends the session.
    fn is_final(&self) -> bool {
        self.epoch == FINAL_EPOCH
    }
}

pub(crate) async fn answer(context: &Context, body: BytesMut) -> Result<Reply, RequestError> {
    let mut slice = TimeSlice::begin();
    let request = levada_wire::decode(context.counted(body), context.version())?;
    slice.yield_if_over().await;
    // In a box: each connection has room for the largest of the others all the time.
    let mut response = match Box::pin(share(context, request, &mut slice)).await {
        Ok(response) => response,
        Err(error) => ShareFetchResponse::of_error(error.code()),
    };
    count(context, &response);
    slice.yield_if_over().await;
    response.throttle_time_ms = context.throttle_ms();
    let header = &context.header;
    Ok(reply(response.encode(header.correlation_id, header.version)?))
}

async fn share(
    context: &Context,
    request: ShareFetchRequest,
    slice: &mut TimeSlice,
) -> Result<ShareFetchResponse<Records>, ErrorCode> {
    let (group, member) = permit(context, request.group_id.as_ref(), request.member_id.as_ref())?;
    let renews = context.version() >= RENEW_VERSION_MIN && request.is_renew_ack;
    if renews
        && (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms) != (0, 0, 0, 0)
    {
        return Err(ErrorCode::InvalidRequest);
    }
    if !ACQUIRE_MODES.contains(&request.share_acquire_mode) {
        return Err(ErrorCode::InvalidRequest);
    }
    let sharing = match session::begin(context, (group, member), &request) {
        Err(ErrorCode::ShareSessionLimitReached) => {
            // The client repeats the request immediately.
            wait_in_vain(context, request.max_wait_ms).await;
            return Err(ErrorCode::ShareSessionLimitReached);
        }
        other => other?,
    };
    let has_acks = request.topics.iter().flat_map(|topic| &topic.partitions);
    let has_acks = has_acks.into_iter().any(|partition| !partition.acknowledgement_batches.is_empty());
    let mut pending = Vec::new();
    if has_acks {
        let acks = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| PartitionAcks {
                key: (topic.topic_id, partition.partition_index),
                batches: of_fetch(partition),
            })
        });
        pending = acknowledge(context, &sharing.member, (acks.collect(), renews), slice).await;
    }
    let terms = Terms::of(context, &request, &sharing.member);
    // A long poll must not keep the frame of the request in memory.
    drop(request);
    let fetched = if renews { Vec::new() } else { Fetch::new(context, &sharing, terms).run(slice).await };
    let acknowledged = results(pending).await;
    let response = respond(context, &sharing, fetched, acknowledged);
    if sharing.is_final() {
        close(context, &sharing.member);
    }
    response
}

/// Waits as long as the client would have waited for records.
async fn wait_in_vain(context: &Context, max_wait_ms: i32) {
    context.wait_for_others();
    tokio::select! {
        () = tokio::time::sleep(context.patience(max_wait_ms)) => {}
        () = context.stop().signalled() => {}
    }
}

/// Counts the response for the statistics, and against the quota of the client.
fn count(context: &Context, response: &ShareFetchResponse<Records>) {
    let (mut bytes, mut is_empty) = (0, true);
    for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
        is_empty = false;
        context.count_error(partition.error_code);
        bytes += partition.records.as_ref().map_or(0, HoleLen::len);
    }
    if response.error_code != 0 || is_empty {
        context.count_error(response.error_code);
    }
    context.count_fetched(bytes);
    if bytes > 0 {
        context.mute_for(context.broker().quotas().book(Used::Fetched, context.client(), bytes as f64));
    }
}
