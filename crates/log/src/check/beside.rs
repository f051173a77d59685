//! Checks of the files other than the batches: names, producer snapshots, and the offsets in the
//! checkpoints.

use std::path::{Path, PathBuf};

use super::{Check, Location, Severity};
use crate::LogError;
use crate::checkpoint::{self, PartitionMetadata};
use crate::producers::{Producers, snapshot};
use crate::segment::DELETED;

impl Check<'_> {
    pub(super) fn look_beside(&mut self) {
        self.judge_ends();
        self.judge_gaps();
        self.judge_snapshots();
        self.judge_identity();
        self.judge_epochs_file();
        self.judge_names();
    }

    fn judge_ends(&mut self) {
        let (end, dir) = (self.checked.log_end, self.dir);
        let (point, start) = (self.left.recovery_point, self.left.log_start);
        // A log that begins after its end was emptied by deletion; its next start begins a new
        // segment there.
        let is_cut_off = point > end && start < point;
        // A replica truncates its log to its leader's, down to the high watermark at most, before
        // the checkpoint is written again.
        let diverged = self.left.high_watermark.filter(|mark| !self.left.clean && *mark <= end);
        if let Some(mark) = diverged.filter(|_| is_cut_off) {
            let what = format!(
                "the log ends at offset {end}, and recovery-point-offset-checkpoint has a later one, {point}; the high \
                 watermark, {mark}, is not after the end"
            );
            let next = "normal if the broker stopped after the log was truncated to that of its leader, which has the \
                        committed records; else the disk has lost records";
            self.find_at(Severity::Note, dir, Location::offset(end), what, next);
        } else if is_cut_off {
            let what = format!(
                "the log ends at offset {end}, but recovery-point-offset-checkpoint says that records up to {point} were \
                 on the device: {} offsets are missing at its end",
                point - end
            );
            let next = "restore the partition's directory from a copy, or accept the loss: the next start continues from the present end";
            self.find_at(Severity::Damage, dir, Location::offset(end), what, next);
        }
        if let Some(mark) =
            self.left.high_watermark.filter(|mark| *mark > end && start < *mark && point <= end)
        {
            let what =
                format!("the log ends at offset {end}, but consumers may have seen records up to {mark}");
            let next = "a crash of the machine lost records that were not synced; levada.ack.durability=fdatasync prevents that";
            self.find_at(Severity::Note, dir, Location::offset(end), what, next);
        }
    }

    /// Checks the file of leader epochs. A log without batches has none, or an empty one, which
    /// Kafka creates.
    fn judge_epochs_file(&mut self) {
        let path = self.dir.join(checkpoint::LEADER_EPOCHS);
        let what = match self.disk.len(&path) {
            _ if self.checked.batches == 0 => return,
            Ok(0) => "is empty",
            Err(_) => "is missing",
            Ok(_) => return,
        };
        self.find(Severity::Mended, &path, what, "the next start rebuilds it from the log");
    }

    fn judge_gaps(&mut self) {
        let Some((from, to, count)) = self.gaps.filter(|_| !self.left.compacted) else { return };
        let what = match count {
            1 => format!("there are no records at offsets {from} to {}", to - 1),
            _ => format!(
                "there are no records at offsets {from} to {}, and in {} more places",
                to - 1,
                count - 1
            ),
        };
        let next =
            "normal if the topic has ever been compacted; else a segment is missing: restore it from a copy";
        self.find_at(Severity::Note, self.dir, Location::offset(from), what, next);
    }

    fn judge_snapshots(&mut self) {
        for offset in std::mem::take(&mut self.names.snapshots) {
            let path = snapshot::path(self.dir, offset);
            if offset > self.checked.log_end {
                let what = format!("is beyond the log's end at offset {}", self.checked.log_end);
                self.find(Severity::Mended, &path, what, "the next start removes it");
                continue;
            }
            match Producers::load(self.disk, self.dir, offset, 0) {
                Ok(_) => {}
                Err(LogError::Corrupt { detail, .. }) => {
                    let next = "the next start takes an older one and reads the log from there on";
                    self.find(Severity::Mended, &path, detail, next);
                }
                Err(error) => {
                    self.find(
                        Severity::Damage,
                        &path,
                        error.to_string(),
                        "see to the disk, then check again",
                    );
                }
            }
        }
    }

    fn judge_identity(&mut self) {
        let path = self.dir.join(PartitionMetadata::FILE_NAME);
        match PartitionMetadata::load(self.disk, self.dir) {
            Ok(Some(_)) => {}
            Ok(None) => self.find(Severity::Mended, &path, "is missing", "the next start rebuilds it"),
            Err(error) => {
                let what = match error {
                    LogError::Corrupt { detail, .. } => detail,
                    other => other.to_string(),
                };
                let next = "remove the file: the next start writes the topic's id that the metadata log has";
                self.find(Severity::Damage, &path, what, next);
            }
        }
    }

    fn judge_names(&mut self) {
        let bases = std::mem::take(&mut self.names.bases);
        for (base, path) in std::mem::take(&mut self.names.indexes) {
            if bases.binary_search(&base).is_err() {
                self.find(
                    Severity::Mended,
                    &path,
                    "is an index without a segment",
                    "the next start removes it",
                );
            }
        }
        self.each(
            |names| &mut names.leftovers,
            |check, path| {
                // The broker would have removed it after file.delete.delay.ms.
                if path.to_string_lossy().ends_with(DELETED) {
                    return check.find(
                        Severity::Note,
                        path,
                        "was being deleted",
                        "the next start removes it",
                    );
                }
                let next = "the next start removes it or puts it in place";
                check.find(Severity::Mended, path, "was being put in place", next);
            },
        );
        self.each(
            |names| &mut names.foreign,
            |check, path| {
                check.find(
                    Severity::Note,
                    path,
                    "is not a file of a log",
                    "nothing to do: the broker ignores it",
                );
            },
        );
    }

    fn each(&mut self, of: impl Fn(&mut super::Names) -> &mut Vec<PathBuf>, tell: impl Fn(&mut Self, &Path)) {
        for path in std::mem::take(of(&mut self.names)) {
            tell(self, &path);
        }
    }
}
