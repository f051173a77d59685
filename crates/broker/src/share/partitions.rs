//! The state of shared partitions that this broker leads, read from the share coordinators and
//! written to them.

use std::sync::Arc;

use levada_config::ShareStart;
use levada_coordination::share_partition::{DeliverySpan, LoadedState};
use levada_coordination::share_state::request::{ReadPart, StoredState};
use levada_coordination::share_state::{ShareStateError, StateBatch};
use levada_log::ReadError;
use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_process::tasks::finished;
use levada_wire::error_code::ErrorCode;
use tokio::sync::Notify;

use crate::broker::Broker;
use crate::error_map::read_error;
use crate::replica::Partition;
use crate::share::{dead_letters, states};
use crate::share_partitions::{
    EpochsRefused, Follow, MemberKey, PartitionPlace, ShareEntry, ShareWork, state_error,
};

/// Start offset of a state whose start is not known yet.
const NO_OFFSET: i64 = -1;

/// The entry of a group in a partition that this broker leads. A new one loads its state, for which
/// fetches wait.
///
/// # Errors
/// There are too many entries.
pub(crate) fn provide(
    broker: &Arc<Broker>,
    partition: &Arc<Partition>,
    group: &Arc<str>,
) -> Result<Arc<ShareEntry>, ErrorCode> {
    let (entry, is_new) = broker.share_partitions().provide(partition, group)?;
    if is_new {
        tokio::task::spawn_local(load(broker.clone(), entry.clone()));
    }
    Ok(entry)
}

/// Carries out the action that a method of an entry demands.
pub(crate) fn follow(broker: &Arc<Broker>, entry: &Arc<ShareEntry>, demanded: Follow) {
    match demanded {
        Follow::Nothing => {}
        Follow::Write => {
            tokio::task::spawn_local(write(broker.clone(), entry.clone()));
        }
        Follow::DeadLetters => {
            tokio::task::spawn_local(dead_letters::write(broker.clone(), entry.clone()));
        }
    }
}

/// Ends locks when they are due, and releases the records of members that have left. Never returns.
pub(crate) async fn run_clock(broker: Arc<Broker>) {
    loop {
        match broker.share_partitions().next_work().await {
            ShareWork::Tick(entry) => {
                let group = broker.share_partitions().group(entry.group());
                follow(&broker, &entry, entry.tick(&group));
            }
            ShareWork::Release(member, partitions) => release(&broker, &member, &partitions),
        }
        // Other tasks of the thread get their turn.
        tokio::task::yield_now().await;
    }
}

/// Releases the records of a member whose session has ended.
pub(crate) fn release(broker: &Arc<Broker>, member: &MemberKey, partitions: &[PartitionPlace]) {
    let room = broker.share_partitions();
    let group = room.group(&member.group);
    for key in partitions {
        if let Some(entry) = room.entry(*key, &member.group) {
            follow(broker, &entry, entry.release_member(&member.member, &group));
        }
    }
    room.review_group(&member.group);
}

/// Loads the state of a new entry.
async fn load(broker: Arc<Broker>, entry: Arc<ShareEntry>) {
    let (own, loading) = (broker.clone(), entry.clone());
    let loaded =
        finished("load of a shared partition", async move { read_state(&own, &loading).await }).await;
    match loaded {
        Ok(Some(Ok(state))) => {
            let group = broker.share_partitions().group(entry.group());
            follow(&broker, &entry, entry.load(&state, &group));
            if entry.has_failed() {
                broker.share_partitions().end(&entry);
            }
        }
        // The thread ends.
        Ok(None) => {}
        Ok(Some(Err(code))) => {
            entry.fail(code);
            broker.share_partitions().end(&entry);
        }
        Err(_) => {
            entry.fail(ErrorCode::UnknownServerError);
            broker.share_partitions().end(&entry);
        }
    }
}

async fn read_state(broker: &Arc<Broker>, entry: &ShareEntry) -> Result<LoadedState, ErrorCode> {
    let (topic_id, partition) = entry.key();
    let part = ReadPart { topic_id, partition, leader_epoch: entry.leader_epoch() };
    let mut results = states::request(broker, entry.group(), vec![part]).await;
    let stored = results.pop().unwrap_or(Err(ShareStateError::UnknownServerError)).map_err(load_error)?;
    let StoredState { state_epoch, mut start_offset, batches } = stored;
    if start_offset == NO_OFFSET {
        start_offset = first_offset(broker, entry).await?;
    }
    // AlterShareGroupOffsets accepts any number, as in Kafka: all records come after this one.
    start_offset = start_offset.max(0);
    let spans = batches.into_iter().map(span).collect();
    Ok(LoadedState { state_epoch, start_offset, spans })
}

/// The code for clients of a state that cannot be loaded. A code about coordinators would end
/// Kafka's consumer, which does not expect it here.
fn load_error(error: ShareStateError) -> ErrorCode {
    match state_error(error) {
        ErrorCode::CoordinatorNotAvailable => ErrorCode::UnknownServerError,
        code => code,
    }
}

fn span(batch: StateBatch) -> DeliverySpan {
    DeliverySpan {
        first: batch.first_offset,
        last: batch.last_offset,
        state: batch.delivery_state,
        delivery_count: batch.delivery_count,
    }
}

/// The first offset for a group without a start offset in the partition.
async fn first_offset(broker: &Broker, entry: &ShareEntry) -> Result<i64, ErrorCode> {
    let partition = entry.partition();
    match broker.share_partitions().group(entry.group()).settings.start {
        ShareStart::Earliest => Ok(partition.log().log_start()),
        ShareStart::Latest => {
            wait_for_high_watermark(partition, entry).await?;
            Ok(partition.log().high_watermark())
        }
        ShareStart::Since(ms) => {
            wait_for_high_watermark(partition, entry).await?;
            let (log, since_ms) = (partition.shared_log(), now_ms().saturating_sub(ms));
            let found = off_shard(move || log.times().first_at(since_ms)).await;
            let found = found.map_err(|error: ReadError| read_error(error))?;
            let end = partition.log().high_watermark();
            Ok(found.map_or(end, |found| found.offset.min(end)))
        }
    }
}

/// Waits until the leader has the high watermark of its predecessor.
async fn wait_for_high_watermark(partition: &Arc<Partition>, entry: &ShareEntry) -> Result<(), ErrorCode> {
    let sleeper = Arc::new(Notify::new());
    let _registered = (partition.waiters().register(&sleeper), entry.waiters().register(&sleeper));
    while partition.led().is_some_and(|led| led.is_before_epoch()) {
        if !entry.is_current() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        sleeper.notified().await;
    }
    Ok(())
}

/// Sends the writes of an entry until none waits.
async fn write(broker: Arc<Broker>, entry: Arc<ShareEntry>) {
    loop {
        let batch = match entry.next_writes() {
            Ok(batch) => batch,
            Err(is_retired) => {
                if is_retired {
                    broker.share_partitions().end_retired(&entry);
                }
                return;
            }
        };
        let (own, group_id, part) = (broker.clone(), entry.group().clone(), batch.part(entry.key()));
        let sent = finished("a write of share state", async move {
            let parts = part.into_iter().collect();
            states::request(&own, &group_id, parts).await.pop()
        });
        let result = match sent.await {
            Ok(result) => result.flatten().unwrap_or(Err(ShareStateError::CoordinatorNotAvailable)),
            Err(_) => Err(ShareStateError::UnknownServerError),
        };
        let group = broker.share_partitions().group(entry.group());
        match entry.wrote(batch, result, &group) {
            Ok(demanded) => follow(&broker, &entry, demanded),
            Err(EpochsRefused) => broker.share_partitions().end(&entry),
        }
    }
}
