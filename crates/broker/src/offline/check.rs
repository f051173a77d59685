//! The check of a whole data directory: each partition by the rules of the log, and the properties
//! that only the metadata can confirm.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use levada_base::id_text;
use levada_log::LogError;
use levada_log::check::{Checked, Finding, RecordedState, Severity, partition};
use levada_log::checkpoint::{CleanShutdown, MetaProperties, OffsetCheckpoint, PartitionMetadata};
use levada_log::disk::{ReadFiles, RealDisk};
use levada_metadata::controller::METADATA_TOPIC;
use levada_metadata::image::{ConfigResource, Image};
use levada_metadata::store::{BOOTSTRAP, METADATA_DIR, inspect, objections};
use levada_metadata::uuid;
use levada_wire::Uuid;
use parking_lot::Mutex;

use super::{StorageError, directories, elsewhere, lock_existing, other_ids, sizes};
use crate::replica::data_dir::{DELETED, STRAY};
use crate::replica::last_shutdown::Offsets;
use crate::replica::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition};

/// Result of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory.
    pub path: PathBuf,
    /// Identity of the directory.
    pub identity: MetaProperties,
    /// True if the last stop was clean.
    pub clean: bool,
    /// Findings about the whole directory.
    pub findings: Vec<Finding>,
    /// Every partition, the metadata log first, then by topic and index.
    pub partitions: Vec<PartitionVerdict>,
}

/// Findings in one partition.
#[derive(Clone, Debug)]
pub struct PartitionVerdict {
    /// Topic of the partition.
    pub topic: String,
    /// Index of the partition.
    pub index: i32,
    /// Contents and problems.
    pub checked: Checked,
}

impl Report {
    /// The worst of everything found.
    pub fn severity(&self) -> Option<Severity> {
        let partitions = self.partitions.iter().filter_map(|one| one.checked.severity());
        self.findings.iter().map(|finding| finding.severity).chain(partitions).max()
    }
}

/// Checks a directory that is not in use, of a node with the directories `all`, on all cores;
/// brokers cannot start on it during the check. `watch` gets the number of log bytes read and their
/// total. Reads everything, changes nothing, and blocks until the end.
///
/// # Errors
/// A directory that is in use, not formatted, or cannot be listed.
pub fn check(dir: &Path, all: &[PathBuf], watch: &(dyn Fn(u64, u64) + Sync)) -> Result<Report, StorageError> {
    // Its own error for a path that does not exist, before the lock that would not be there either.
    let directories = directories(dir)?;
    let _locked = lock_existing(dir)?;
    let unformatted = || StorageError::Unformatted { path: dir.to_owned() };
    let identity = MetaProperties::load(&RealDisk, dir)?.ok_or_else(unformatted)?;
    let mut examiner = Examiner::new(dir);
    let mut work = Vec::new();
    for (path, key) in directories {
        examiner.total += sizes(&path).map_or(0, |(logs, _, _)| logs);
        match key {
            Some(key) => work.push((path, key)),
            None if path.ends_with(METADATA_DIR) => work.insert(0, (path, (METADATA_TOPIC.to_owned(), 0))),
            None => examiner.note_directory(&path),
        }
    }
    examiner.look_at_metadata(&identity, &work, all);
    examiner.find_missing(&identity, &work, all);
    let partitions = examiner.partitions(&work, watch)?;
    let Examiner { clean, findings, .. } = examiner;
    Ok(Report { path: dir.to_owned(), identity, clean, findings, partitions })
}

/// Facts about the whole directory.
struct Examiner<'a> {
    dir: &'a Path,
    clean: bool,
    recovery_points: Offsets,
    log_starts: Offsets,
    high_watermarks: Offsets,
    cleaned: Offsets,
    /// The metadata that the next start uses; none for a broker of a cluster, whose controllers
    /// have the metadata.
    image: Option<Image>,
    /// The reason why the metadata could not be read to its end.
    fault: Option<String>,
    findings: Vec<Finding>,
    total: u64,
}

impl<'a> Examiner<'a> {
    fn new(dir: &'a Path) -> Self {
        let mut findings = Vec::new();
        let mut load = |checkpoint: OffsetCheckpoint| {
            checkpoint.load(&RealDisk, dir).unwrap_or_else(|error| {
                let what = match error {
                    LogError::Corrupt { detail, .. } => detail,
                    other => other.to_string(),
                };
                let next =
                    "the next start ignores it: it verifies every log, or begins each with its first segment";
                findings.push(finding(Severity::Mended, &dir.join(checkpoint.file_name()), what, next));
                Offsets::new()
            })
        };
        Self {
            dir,
            clean: RealDisk.len(&dir.join(CleanShutdown::FILE_NAME)).is_ok(),
            recovery_points: load(OffsetCheckpoint::RecoveryPoint),
            log_starts: load(OffsetCheckpoint::LogStart),
            high_watermarks: load(OffsetCheckpoint::Replication),
            cleaned: load(OffsetCheckpoint::Cleaner),
            image: None,
            fault: None,
            findings,
            total: 0,
        }
    }

    fn find(&mut self, severity: Severity, path: &Path, what: impl Into<String>, next: &str) {
        self.findings.push(finding(severity, path, what, next));
    }

    fn note_directory(&mut self, path: &Path) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.ends_with(DELETED) {
            self.find(Severity::Mended, path, "is a deleted partition", "the next start removes it");
        } else if name.ends_with(STRAY) {
            let next = "a start moved it aside because the metadata did not contain it; remove it if you do not need it";
            self.find(Severity::Note, path, "is a partition that was moved aside", next);
        } else {
            self.find(Severity::Note, path, "is not a partition", "nothing to do: the broker ignores it");
        }
    }

    fn look_at_metadata(
        &mut self,
        identity: &MetaProperties,
        work: &[(PathBuf, TopicPartition)],
        all: &[PathBuf],
    ) {
        let Some(contents) = inspect(&RealDisk, self.dir) else {
            self.image = elsewhere(self.dir, all).map(|contents| contents.image);
            if self.image.is_none() {
                self.find_no_metadata();
            }
            return;
        };
        self.fault = contents.fault;
        if contents.voters.iter().any(|voter| *voter != identity.node_id) {
            let what = format!("the metadata belongs to a quorum of the nodes {:?}", contents.voters);
            let next = "nothing to do for a broker in its cluster (process.roles=broker); one that is its own \
                        controller does not start on this directory";
            return self.find(Severity::Note, self.dir, what, next);
        }
        for objection in objections(&contents.image, identity, Some(&other_ids(self.dir, all))) {
            let next = "until then the broker does not start on this directory";
            self.find(Severity::Damage, self.dir, objection, next);
        }
        let partition = work.iter().find(|(_, key)| key.0 != METADATA_TOPIC);
        if contents.image.features().is_empty() && partition.is_some() {
            let next = "restore it from a copy: until then the broker does not start on this directory";
            let what = "has no records, although there are partitions: the metadata of the topics is lost";
            return self.find(Severity::Damage, &self.dir.join(METADATA_DIR), what, next);
        }
        self.image = Some(contents.image);
    }

    /// A directory without a metadata log. A directory that was formatted with one has the first
    /// levels of the metadata in a separate file.
    fn find_no_metadata(&mut self) {
        let path = self.dir.join(METADATA_DIR);
        if RealDisk.len(&self.dir.join(BOOTSTRAP)).is_ok() {
            let next = "restore it from a copy: only it contains the topics";
            return self.find(Severity::Damage, &path, "is missing", next);
        }
        let next =
            "nothing to do for a broker in a cluster (process.roles=broker), whose controllers have it";
        self.find(Severity::Note, &path, "is not here", next);
    }

    /// Partitions that should have a directory here and do not.
    fn find_missing(
        &mut self,
        identity: &MetaProperties,
        work: &[(PathBuf, TopicPartition)],
        all: &[PathBuf],
    ) {
        let own = Uuid::from_bytes(identity.directory_id);
        let Some(image) = self.image.clone() else { return };
        let there: std::collections::HashSet<&TopicPartition> = work.iter().map(|(_, key)| key).collect();
        for topic in image.topics().iter() {
            for (index, partition) in topic.partitions() {
                let key = (topic.name().to_string(), index);
                let at = partition.replicas.iter().position(|replica| *replica == identity.node_id);
                let directory = at.and_then(|at| partition.directories.get(at));
                let is_elsewhere = all.len() > 1 && directory.is_none_or(|directory| *directory != own);
                if at.is_none() || is_elsewhere || there.contains(&key) {
                    continue;
                }
                let path = self.dir.join(format!("{}-{index}", topic.name()));
                match self.recovery_points.get(&key).copied().unwrap_or(0) {
                    0 => self.find(Severity::Mended, &path, "is missing", "the next start creates it, empty"),
                    point => {
                        let what = format!("is missing; it held records up to offset {point}");
                        let next = "restore it from a copy: the next start begins an empty log in its place";
                        self.find(Severity::Damage, &path, what, next);
                    }
                }
            }
        }
    }

    fn partitions(
        &self,
        work: &[(PathBuf, TopicPartition)],
        watch: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Vec<PartitionVerdict>, StorageError> {
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let results = Mutex::new(Vec::new());
        let examine = || {
            while let Some((path, key)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut told =
                    |bytes: u64| watch(done.fetch_add(bytes, Ordering::Relaxed) + bytes, self.total);
                let verdict = self.partition(path, key, &mut told);
                results.lock().push((key, verdict));
            }
        };
        std::thread::scope(|scope| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 1..cores.min(work.len()) {
                scope.spawn(examine);
            }
            examine();
        });
        let mut results = results.into_inner();
        results.sort_by_key(|(key, _)| (key.0 != METADATA_TOPIC, *key));
        let verdict = |(key, checked): (&TopicPartition, Result<Checked, LogError>)| {
            Ok(PartitionVerdict { topic: key.0.clone(), index: key.1, checked: checked? })
        };
        results.into_iter().map(verdict).collect()
    }

    fn partition(
        &self,
        path: &Path,
        key: &TopicPartition,
        told: &mut dyn FnMut(u64),
    ) -> Result<Checked, LogError> {
        if key.0 == METADATA_TOPIC {
            return self.metadata_log(path, told);
        }
        let offset = |offsets: &Offsets| offsets.get(key).copied();
        let left = RecordedState {
            clean: self.clean,
            recovery_point: offset(&self.recovery_points).unwrap_or(0),
            log_start: offset(&self.log_starts).unwrap_or(0),
            high_watermark: offset(&self.high_watermarks),
            compacted: self.is_compacted(key),
        };
        let mut checked = partition(&RealDisk, path, &left, told)?;
        self.judge_owner(path, key, &mut checked);
        Ok(checked)
    }

    fn is_compacted(&self, key: &TopicPartition) -> bool {
        let own = self.image.as_ref().and_then(|image| image.configs(&ConfigResource::topic(&*key.0)));
        let policy = own.and_then(|own| own.get("cleanup.policy"));
        let internal = [OFFSETS_TOPIC, TRANSACTIONS_TOPIC].contains(&&*key.0);
        internal || self.cleaned.contains_key(key) || policy.is_some_and(|policy| policy.contains("compact"))
    }

    fn judge_owner(&self, path: &Path, key: &TopicPartition, checked: &mut Checked) {
        let Some(image) = &self.image else { return };
        let aside = "the next start moves it aside, its name gets the ending -stray";
        let topic = image.topic(&key.0).filter(|topic| topic.partition(key.1).is_some());
        let Some(topic) = topic else {
            return checked.push(finding(
                Severity::Note,
                path,
                "the metadata does not contain this partition",
                aside,
            ));
        };
        // A file that cannot be read has been reported.
        let Ok(Some(found)) = PartitionMetadata::load(&RealDisk, path) else { return };
        if found.topic_id != topic.id().to_bytes() {
            let (found, expected) = (id_text(found.topic_id), uuid::text(topic.id()));
            let what = format!("belongs to a topic of id {found}, not {expected}");
            let path = path.join(PartitionMetadata::FILE_NAME);
            checked.push(finding(Severity::Damage, &path, what, aside));
        }
    }

    /// Checks the metadata log. It has neither indexes nor snapshots of producers, and a broker
    /// only ever truncates a torn end.
    fn metadata_log(&self, path: &Path, told: &mut dyn FnMut(u64)) -> Result<Checked, LogError> {
        let mut checked =
            partition(&RealDisk, path, &RecordedState { compacted: true, ..RecordedState::default() }, told)?;
        checked.findings.retain(|finding| {
            let torn = finding.position.is_some();
            finding.severity == Severity::Damage
                || torn && finding.path.extension().is_some_and(|end| end == "log")
        });
        let restore = "restore the metadata log from a copy: the broker does not start on a damaged one";
        for finding in &mut checked.findings {
            if finding.severity == Severity::Damage {
                restore.clone_into(&mut finding.next);
            }
        }
        if let Some(fault) = &self.fault {
            checked.push(finding(Severity::Damage, path, fault.clone(), restore));
        }
        Ok(checked)
    }
}

fn finding(severity: Severity, path: &Path, what: impl Into<String>, next: &str) -> Finding {
    let (path, what, next) = (path.to_owned(), what.into(), next.to_owned());
    Finding { severity, path, position: None, offset: None, what, next }
}
