//! The controller of a cluster with one node. It writes the decisions of `metadata::controller` to
//! the metadata log of this process, and passes each new image to the publisher.

use std::sync::Arc;

use levada_metadata::controller::{
    Decision, Node, Refusal, assign_directories, lose_directories, start_node, stop_node,
};
use levada_metadata::image::Image;
use levada_metadata::records::Record;
use levada_metadata::store::{Store, StoreError};
use levada_process::clock::now_ms;
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, Failure};
use parking_lot::Mutex;

use crate::controller::storage_failure;
use crate::publishing::{Aftermath, Publisher};

/// The metadata log, and the right to change the metadata.
pub(super) struct Embedded {
    store: Mutex<Store>,
    publisher: Arc<Publisher>,
    /// Held while a snapshot is written.
    shortening: Mutex<()>,
}

impl Embedded {
    pub(super) fn new(store: Store, publisher: Arc<Publisher>) -> Self {
        Self { store: Mutex::new(store), publisher, shortening: Mutex::default() }
    }

    /// Makes one change: first it is on the device, then its effects are carried out, then it is
    /// visible. Written records stay, even if a new partition cannot be opened. Blocks.
    pub(super) fn change<T>(&self, decide: impl FnOnce(&Image) -> Decision<T>) -> Result<T, Failure> {
        let mut first = None;
        let noted = |image: &Image, _| {
            let decision = decide(image);
            first = decision.records.first().map(|record| (record.name(), decision.records.len()));
            decision
        };
        let changed = self.update(noted);
        let (outcome, aftermath) = changed.inspect_err(|error| log_failure(error, first))?;
        let finished = self.publisher.finish(aftermath).map_err(storage_failure);
        self.record_directories();
        finished.map(|()| outcome)
    }

    /// Like [`Embedded::change`], for a decision that may be refused as a whole.
    pub(super) fn decide<T>(
        &self,
        decide: impl FnOnce(&Image) -> Result<Decision<T>, Refusal>,
    ) -> Result<T, Failure> {
        let refusable = |image: &Image| match decide(image) {
            Ok(Decision { records, outcome }) => Decision { records, outcome: Ok(outcome) },
            Err(refusal) => Decision::nothing(Err(refusal)),
        };
        Ok(self.change(refusable)??)
    }

    /// Makes one change at a time, and publishes images in the order of the changes.
    fn update<T>(
        &self,
        decide: impl FnOnce(&Image, i64) -> Decision<T>,
    ) -> Result<(T, Aftermath), StoreError> {
        let mut store = self.store.lock();
        self.publisher.replicas.dirs().first().use_reserve();
        let outcome = store.update(now_ms(), decide).inspect_err(|error| self.blame(error))?;
        Ok((outcome, self.publisher.publish(store.image())))
    }

    /// Reports an error of the metadata log to its directory. If the device has failed, the process
    /// ends, and the metadata log refuses all changes from then on. On a full disk the next change
    /// uses the reserve.
    fn blame(&self, error: &StoreError) {
        if let StoreError::File(error) = error {
            self.publisher.replicas.dirs().first().report_refused(error);
        }
    }

    /// Refuses changes by which the metadata and the logs grow, while the disk refuses records:
    /// such changes would use the space that deletions need.
    pub(super) fn refuse_growth(&self) -> Result<(), Failure> {
        if self.publisher.replicas.dirs().first().refuses_records() {
            let text = "the disk of the broker refuses records: free disk space, for example by the deletion of topics";
            return Err(Failure::new(ErrorCode::KafkaStorageError, text));
        }
        Ok(())
    }

    /// Records that this node serves. The image is returned for [`Publisher::begin`], which
    /// publishes it.
    pub(super) fn register(&self, node: &Node) -> Result<Image, StoreError> {
        let mut store = self.store.lock();
        store.update(now_ms(), |image, offset| Decision {
            records: start_node(image, node, offset),
            outcome: (),
        })?;
        Ok(store.image().clone())
    }

    /// Records the directories of partitions that entered service, where there are several. Blocks.
    pub(super) fn record_directories(&self) {
        let placed = self.publisher.replicas.dirs().take_placed();
        if placed.is_empty() {
            return;
        }
        let node_id = self.publisher.config.load().node_id;
        let records = |image: &Image| assign_directories(image, node_id, &placed);
        self.record("the directories of new partitions", records);
    }

    /// Records that these directories of the node are left, after others have failed. Blocks.
    pub(super) fn lose_directories(&self, left: &[Uuid]) {
        let node_id = self.publisher.config.load().node_id;
        self.record("the failure of a directory", |image| lose_directories(image, node_id, left));
    }

    fn record(&self, what: &str, records: impl FnOnce(&Image) -> Vec<Record>) {
        let decide = |image: &Image, _| Decision { records: records(image), outcome: () };
        match self.update(decide) {
            // A partition that cannot be opened has its line of the log.
            Ok(((), aftermath)) => drop(self.publisher.finish(aftermath)),
            Err(error) => tracing::error!(%error, "cannot record {what} in the metadata log"),
        }
    }

    /// Records that this node no longer serves.
    pub(super) fn retreat(&self, node_id: i32) -> Result<(), StoreError> {
        let decide = |image: &Image, _| Decision { records: stop_node(image, node_id), outcome: () };
        let ((), aftermath) = self.update(decide)?;
        // A retreat opens no partition.
        let _ = self.publisher.finish(aftermath);
        Ok(())
    }

    /// Takes a snapshot of the metadata log if one is due, and removes superfluous files. Changes
    /// wait for neither. Blocks.
    pub(super) fn shorten(&self) {
        let _alone = self.shortening.lock();
        let due = self.store.lock().due_snapshot(now_ms());
        match due.and_then(|due| due.map(|due| due.write(now_ms())).transpose()) {
            Ok(None) => {}
            Ok(Some(end_offset)) => tracing::info!(end_offset, "metadata snapshot written"),
            Err(error) => {
                self.blame(&error);
                tracing::error!(%error, "cannot write a metadata snapshot; the metadata log keeps growing")
            }
        }
    }
}

/// Logs a change that is not in the metadata log, with the kind of its first record and the number
/// of its records. The client gets the error.
fn log_failure(error: &StoreError, first: Option<(&'static str, usize)>) {
    let (record, records) = first.unwrap_or(("none", 0));
    if let StoreError::TooLarge { .. } = error {
        tracing::warn!(%error, record, records, "metadata change refused");
    } else {
        tracing::error!(%error, record, records, "metadata change failed");
    }
}
