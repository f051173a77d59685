//! Batches that were submitted to a lane, and what their acknowledgements wait for.

use std::sync::Arc;

use levada_log::{AppendError, Appended, LogError};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use crate::replica::durability::{Synced, Syncs};
use crate::replica::led::{CommitFailure, Led};

/// Result of the log for one batch.
pub(crate) type AppendResult = Result<Appended, AppendError>;

/// Outcome of a batch for its producer.
pub(crate) type SubmitResult = Result<Appended, SubmitError>;

/// Reason for which a batch is not acknowledged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmitError {
    /// The batch was refused and is not in the log.
    #[error(transparent)]
    Refused(#[from] AppendError),
    /// The batch is in the log, and may be committed later.
    #[error(transparent)]
    Uncommitted(#[from] CommitFailure),
}

impl From<LogError> for SubmitError {
    fn from(error: LogError) -> Self {
        Self::Refused(error.into())
    }
}

/// A batch that was submitted to a lane. Its acknowledgement waits for the write, then for the
/// device and the replicas in sync, if they are required.
pub(crate) struct Submitted {
    pub(super) write: Write,
    sync: Option<PendingSync>,
    commit: Option<PendingCommit>,
}

/// Write of a batch.
pub(super) enum Write {
    /// The calling thread has written or refused the batch.
    Done(AppendResult),
    /// Another thread writes the batch with its next group. The channel closes without a result if
    /// that thread fails.
    Queued(oneshot::Receiver<AppendResult>, Arc<levada_log::Partition>),
}

struct PendingSync {
    syncs: Arc<Syncs>,
    /// None before the batch is in the log.
    begun: Option<oneshot::Receiver<Synced>>,
}

struct PendingCommit {
    led: Arc<Led>,
    /// None for a batch that waits as long as this broker leads.
    deadline: Option<Instant>,
}

impl Submitted {
    /// A batch that was written or refused.
    pub(super) fn written_now(result: AppendResult) -> Self {
        Self { write: Write::Done(result), sync: None, commit: None }
    }

    /// A batch in the queue of this log's lane.
    pub(super) fn queued(result: oneshot::Receiver<AppendResult>, log: &Arc<levada_log::Partition>) -> Self {
        Self { write: Write::Queued(result, log.clone()), sync: None, commit: None }
    }

    /// True if another thread writes the batch.
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.write, Write::Queued(..))
    }

    /// The batch, unless the log has refused it already.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) fn accepted(self) -> Result<Self, AppendError> {
        match self.write {
            Write::Done(Err(refused)) => Err(refused),
            write => Ok(Self { write, ..self }),
        }
    }

    /// Makes the result wait for a sync. The sync begins immediately if the batch is in the log,
    /// otherwise once it is, if one is due then.
    pub(super) fn durable(self, syncs: &Arc<Syncs>) -> Self {
        let begun = matches!(self.write, Write::Done(Ok(_))).then(|| syncs.ask());
        Self { sync: Some(PendingSync { syncs: syncs.clone(), begun }), ..self }
    }

    /// Makes the result wait for the replicas in sync, if there are others than this broker's.
    pub(crate) fn committed(self, led: Option<Arc<Led>>, deadline: impl FnOnce() -> Instant) -> Self {
        let commit = led.map(|led| PendingCommit { led, deadline: Some(deadline()) });
        Self { commit, ..self }
    }

    /// Like [`Submitted::committed`] without a deadline: the result arrives when the batch is
    /// committed, or the leadership has ended.
    pub(crate) fn committed_at_last(self, led: Option<Arc<Led>>) -> Self {
        Self { commit: led.map(|led| PendingCommit { led, deadline: None }), ..self }
    }

    /// Waits until a queued batch is written, or refused. Does not wait for a sync.
    pub(crate) async fn written(self) -> Self {
        let result = self.write.result().await;
        Self { write: Write::Done(result), ..self }.begin_sync()
    }

    /// Waits for everything that is required; returns immediately if nothing is.
    pub(crate) async fn wait(self) -> SubmitResult {
        let appended = self.write.result().await?;
        if let Some(sync) = self.sync {
            sync.wait(&appended).await?;
        }
        if let Some(commit) = self.commit {
            commit.wait(appended.last_offset + 1).await?;
        }
        Ok(appended)
    }

    /// The result, if nothing is left to wait for.
    pub(crate) fn if_done(mut self) -> Result<AppendResult, Self> {
        self.write.look();
        let written = match self.write {
            Write::Done(_) if self.commit.is_none() => self.begin_sync(),
            _ => return Err(self),
        };
        match (written.write, written.sync) {
            (Write::Done(result), None) => Ok(result),
            (write, sync) => Err(Self { write, sync, commit: None }),
        }
    }

    /// Begins the required sync of a batch that was written, if one is due.
    fn begin_sync(mut self) -> Self {
        if let Some(sync) = self.sync.take_if(|sync| sync.begun.is_none())
            && matches!(self.write, Write::Done(Ok(_)))
            && sync.syncs.is_due()
        {
            return self.durable(&sync.syncs);
        }
        self
    }
}

impl Write {
    async fn result(self) -> AppendResult {
        match self {
            Self::Done(result) => result,
            Self::Queued(result, log) => result.await.unwrap_or_else(|_| Err(offline(&log).into())),
        }
    }

    /// Takes the result of a queued batch, if it is there.
    fn look(&mut self) {
        if let Self::Queued(result, log) = self {
            match result.try_recv() {
                Ok(result) => *self = Self::Done(result),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Closed) => *self = Self::Done(Err(offline(log).into())),
            }
        }
    }
}

impl PendingSync {
    async fn wait(self, appended: &Appended) -> Result<(), LogError> {
        let sync = match self.begun {
            Some(sync) => sync,
            None if self.syncs.log().durable() > appended.last_offset || !self.syncs.is_due() => {
                return Ok(());
            }
            None => self.syncs.ask(),
        };
        sync.await.unwrap_or_else(|_| Err(offline(self.syncs.log())))
    }
}

impl PendingCommit {
    async fn wait(self, end: i64) -> Result<(), CommitFailure> {
        match self.deadline {
            Some(deadline) => self.led.wait_for_high_watermark(end, deadline).await,
            None => match self.led.wait_while_leading(end).await {
                Err(CommitFailure::LeadershipLost) => Err(CommitFailure::LeadershipLost),
                // Committed, although replicas have fallen out of sync since.
                Ok(()) | Err(CommitFailure::NotEnoughReplicas { .. } | CommitFailure::TimedOut) => Ok(()),
            },
        }
    }
}

pub(super) fn offline(log: &levada_log::Partition) -> LogError {
    LogError::Offline { dir: log.dir().to_path_buf() }
}
