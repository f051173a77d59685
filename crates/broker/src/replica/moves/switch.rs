//! The last step of a move: the copy replaces the log.

use levada_log::{Destination, LogError, Writer};
use levada_process::clock::now_ms;

use super::copy::{Ending, Job, MoveError, Step, advance};
use crate::replica::data_dir::DataDir;

/// Bytes that are copied in one step while appends wait, and the number of such steps.
const STEP_BYTES: u32 = 1 << 20;
const STEPS_MAX: usize = 4;

/// Result of the last step.
pub(super) enum Switched {
    Ended(Ending),
    /// Appends were faster than the copy.
    Behind(Box<Writer>),
}

impl Job<'_> {
    /// Copies the rest of the log, and replaces the log by the copy, with the writer held. The
    /// former files are removed afterwards.
    pub(super) fn switch(self, copy: Writer) -> Result<Switched, MoveError> {
        let from = self.replicas.dirs.around(self.one.partition.log());
        let Some(to) = self.destination() else { return Ok(Switched::Ended(Ending::Ended)) };
        assert!(from.path() != to.path(), "{} moves from its directory to itself", self.one.partition.name());
        let left = from.left_for(&self.one.future);
        let switched = self.one.partition.lane().with_writer(|writer| {
            // Held until the step is over: a cancellation comes before it or after it.
            let cancelled = self.one.cancelled.lock();
            if *cancelled || self.one.partition.is_deleted() || writer.partition().is_offline() {
                return Ok(Switched::Ended(Ending::Ended));
            }
            match catch_up(writer, copy)? {
                Err(behind) => Ok(Switched::Behind(behind)),
                Ok(copy) => {
                    self.replace_log((writer, *copy), (from, to))?;
                    Ok(Switched::Ended(Ending::Moved))
                }
            }
        });
        let switched = switched.unwrap_or(Ok(Switched::Ended(Ending::Ended)));
        if matches!(switched, Ok(Switched::Ended(Ending::Moved))) {
            self.replicas.dirs.remove(&left);
            self.replicas.dirs.note_placed(std::slice::from_ref(&self.one.future.key));
        }
        switched
    }

    /// Does it. In this order: the checkpoints have the partition in both directories, the log's
    /// directory loses its name, the copy's gets it. A start after the second of these steps does
    /// the third.
    fn replace_log(
        self,
        (writer, copy): (&mut Writer, Writer),
        (from, to): (&DataDir, &DataDir),
    ) -> Result<(), LogError> {
        let (topic, index) = &self.one.future.key;
        let place = to.partition(topic, *index);
        let prepare = || {
            if to.has_partition(topic, *index) {
                to.set_aside(&place, topic, *index)?;
            }
            self.replicas.dirs.arrive(&self.one.future.key, to);
            self.replicas.checkpoints.store();
            self.replicas.checkpoints.store_cleaner();
            if to.has_failed() || from.has_failed() {
                return Err(LogError::Offline { dir: place.clone() });
            }
            Ok(())
        };
        let commit = || {
            let freed = from.rename(&from.partition(topic, *index), &from.left_for(&self.one.future));
            freed.inspect_err(|error| from.report(error))?;
            to.rename(&self.one.future.path, &place)
        };
        // A start that finds the first rename alone does the second, whatever was appended since:
        // the log serves again only once both names are back on the device.
        let revert = || {
            if !to.has_directory(&self.one.future.path) {
                to.rename(&place, &self.one.future.path)?;
            }
            let left = from.left_for(&self.one.future);
            if from.has_directory(&left) {
                from.rename(&left, &from.partition(topic, *index))
            } else {
                Ok(())
            }
        };
        let destination = Destination {
            dir: place.clone(),
            background: to.background().clone(),
            watch: to.watch(),
            prepare: &prepare,
            commit: &commit,
            revert: &revert,
        };
        writer.relocate(copy, destination, now_ms())?;
        self.replicas.dirs.settle(&self.one.future.key, to);
        Ok(())
    }
}

/// Copies the appends since the copy reached the end; returns the copy as an error if appends would
/// wait too long for them.
fn catch_up(writer: &Writer, mut copy: Writer) -> Result<Result<Box<Writer>, Box<Writer>>, MoveError> {
    for _ in 0..STEPS_MAX {
        if let Step::CaughtUp = advance(writer.partition(), &mut copy, STEP_BYTES)? {
            return Ok(Ok(Box::new(copy)));
        }
    }
    Ok(Err(Box::new(copy)))
}
