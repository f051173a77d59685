//! Share groups (KIP-932) in the partitions that this broker leads: the delivery state of each
//! partition for each group ([`ShareEntry`]), the sessions of members ([`ShareSessions`]), and the
//! settings of groups.
//!
//! An entry is made by the first fetch of its group, and ends with the leadership of its partition,
//! with the topic, with a refusal of its epochs by the share coordinator, and with the last session
//! of its group on this broker. The module `share` reads and writes its state.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use levada_config::{BrokerConfig, ShareGroupSettings, Values};
use levada_coordination::share_partition::ShareLimits;
use levada_metadata::features::{DEAD_LETTERS, SHARE_VERSION};
use levada_metadata::image::Image;
use levada_process::clock::steady_ms;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::replica::Partition;
use crate::source::ShareState;

mod clock;
mod counts;
mod entry;
mod fetching;
mod letters;
mod sessions;
mod writes;

pub(crate) use self::clock::ShareWork;
use self::clock::Timers;
use self::entry::Shared;
pub(crate) use self::entry::{EpochsRefused, Follow, ShareEntry, ShareRefusal};
pub(crate) use self::fetching::{Claim, FetchLease};
pub(crate) use self::sessions::{
    FINAL_EPOCH, INITIAL_EPOCH, MemberKey, ShareConnection, ShareSession, ShareSessions,
};
pub(crate) use self::writes::{Acknowledged, state_error};

/// True if the level of `share.version` permits share groups.
pub(crate) fn are_permitted(image: &Image) -> bool {
    has_level(image, 1)
}

/// True if the level of `share.version` permits dead letter queues of share groups.
pub(crate) fn are_dead_letters_permitted(image: &Image) -> bool {
    has_level(image, DEAD_LETTERS)
}

fn has_level(image: &Image, minimum: i16) -> bool {
    image.features().get(SHARE_VERSION).is_some_and(|level| *level >= minimum)
}

/// Topic id and index of a partition.
pub(crate) type PartitionPlace = (Uuid, i32);

/// Entries at most: one more is refused.
const ENTRIES_MAX: usize = 200_000;

/// Entries for records of one share partition at most.
const RECORD_ENTRIES_MAX: usize = 1 << 16;

/// Settings in force for a share group.
#[derive(Clone, Debug)]
pub(crate) struct ShareGroup {
    pub(crate) settings: ShareGroupSettings,
    pub(crate) limits: ShareLimits,
}

impl ShareGroup {
    /// The group with these settings. Dead letters need the level of `share.version` as well.
    fn new(settings: ShareGroupSettings, dead_letters_allowed: bool) -> Self {
        let limits = ShareLimits {
            max_record_locks: settings.partition_max_record_locks,
            delivery_limit: settings.delivery_count_limit,
            lock_duration_ms: settings.record_lock_duration_ms,
            renew_enabled: settings.renew_enabled,
            dead_letters: dead_letters_allowed && settings.dead_letter_topic.is_some(),
            max_entries: RECORD_ENTRIES_MAX,
        };
        Self { settings, limits }
    }
}

/// Settings of all groups.
struct Groups {
    /// Settings of a group that has none of its own.
    default: Arc<ShareGroup>,
    own: HashMap<String, Arc<ShareGroup>>,
}

/// The entries by partition and group.
#[derive(Default)]
struct Table {
    entries: HashMap<PartitionPlace, HashMap<Arc<str>, Arc<ShareEntry>>>,
    /// Partitions of the entries of each group, so that the end of a group does not search those of
    /// others.
    places: HashMap<Arc<str>, BTreeSet<PartitionPlace>>,
    count: usize,
}

impl Table {
    fn get(&self, key: PartitionPlace, group: &str) -> Option<&Arc<ShareEntry>> {
        self.entries.get(&key)?.get(group)
    }

    fn insert(&mut self, entry: &Arc<ShareEntry>) {
        let (key, group) = (entry.key(), entry.group());
        let before = self.entries.entry(key).or_default().insert(group.clone(), entry.clone());
        self.count += usize::from(before.is_none());
        self.places.entry(group.clone()).or_default().insert(key);
    }

    /// All entries of a group.
    fn of_group(&self, group: &str) -> impl Iterator<Item = &Arc<ShareEntry>> {
        self.places.get(group).into_iter().flatten().filter_map(move |key| self.get(*key, group))
    }

    /// Removes an entry, unless another one has replaced it.
    fn remove(&mut self, entry: &Arc<ShareEntry>) {
        let Entry::Occupied(mut groups) = self.entries.entry(entry.key()) else { return };
        if groups.get().get(entry.group()).is_some_and(|held| Arc::ptr_eq(held, entry)) {
            groups.get_mut().remove(entry.group());
            self.count -= 1;
            if let Entry::Occupied(mut places) = self.places.entry(entry.group().clone()) {
                places.get_mut().remove(&entry.key());
                if places.get().is_empty() {
                    places.remove();
                }
            }
        }
        if groups.get().is_empty() {
            groups.remove();
        }
    }
}

/// Share groups in the partitions that this broker leads.
pub(crate) struct SharePartitions {
    table: RwLock<Table>,
    sessions: Mutex<ShareSessions>,
    groups: ArcSwap<Groups>,
    shared: Arc<Shared>,
    next_entry: AtomicU64,
    next_fetch: AtomicU64,
    next_connection: AtomicU64,
}

impl SharePartitions {
    /// An empty table of share partitions, with the limits of this configuration.
    pub(crate) fn of(config: &BrokerConfig) -> Self {
        let default = Arc::new(ShareGroup::new(config.share_group(&Values::new()), false));
        Self {
            table: RwLock::default(),
            sessions: Mutex::new(ShareSessions::new(config.groups.share_max_sessions as usize)),
            groups: ArcSwap::from_pointee(Groups { default, own: HashMap::new() }),
            shared: Arc::new(Shared::new(Timers::default())),
            next_entry: AtomicU64::new(0),
            next_fetch: AtomicU64::new(0),
            next_connection: AtomicU64::new(0),
        }
    }

    /// Takes the settings of all groups, and whether groups may have dead letters.
    pub(crate) fn configure(
        &self,
        default: ShareGroupSettings,
        own: impl Iterator<Item = (String, ShareGroupSettings)>,
        dead_letters_allowed: bool,
    ) {
        let group = |settings| Arc::new(ShareGroup::new(settings, dead_letters_allowed));
        let own = own.map(|(name, settings)| (name, group(settings))).collect();
        self.groups.store(Arc::new(Groups { default: group(default), own }));
    }

    /// Settings in force for a group.
    pub(crate) fn group(&self, group: &str) -> Arc<ShareGroup> {
        let groups = self.groups.load();
        groups.own.get(group).unwrap_or(&groups.default).clone()
    }

    /// The sessions, locked.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, ShareSessions> {
        self.sessions.lock()
    }

    /// Number of a fetch, for the fetch locks of entries.
    pub(crate) fn number_fetch(&self) -> u64 {
        self.next_fetch.fetch_add(1, Ordering::Relaxed)
    }

    /// The entry of a group in a partition; none before the first fetch.
    pub(crate) fn entry(&self, key: PartitionPlace, group: &str) -> Option<Arc<ShareEntry>> {
        self.table.read().get(key, group).filter(|entry| entry.is_current()).cloned()
    }

    /// The entry of a group in a partition, and true if it is new: the caller loads its state.
    ///
    /// # Errors
    /// There are too many entries.
    pub(crate) fn provide(
        &self,
        partition: &Arc<Partition>,
        group: &Arc<str>,
    ) -> Result<(Arc<ShareEntry>, bool), ErrorCode> {
        let key = (partition.topic_id(), partition.index());
        if let Some(entry) = self.entry(key, group) {
            entry.keep();
            return Ok((entry, false));
        }
        let mut table = self.table.write();
        let held = table.get(key, group).cloned();
        if let Some(entry) = held.as_ref().filter(|entry| entry.is_current()) {
            entry.keep();
            return Ok((entry.clone(), false));
        }
        if let Some(outdated) = held {
            table.remove(&outdated);
            outdated.end();
        }
        if table.count >= ENTRIES_MAX {
            return Err(ErrorCode::UnknownServerError);
        }
        let number = self.next_entry.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(ShareEntry::new(number, partition, group, &self.shared));
        table.insert(&entry);
        drop(table);
        if self.group(group).limits.dead_letters {
            // Begins the counts: what rises from a value is seen, what begins with one is not.
            entry.letter_counts();
        }
        Ok((entry, true))
    }

    /// Ends an entry whose state is unusable. Fetches that wait for it look up the entry again.
    pub(crate) fn end(&self, entry: &Arc<ShareEntry>) {
        self.table.write().remove(entry);
        entry.end();
    }

    /// Ends an entry whose group has no session, unless a session has been opened again.
    pub(crate) fn end_retired(&self, entry: &Arc<ShareEntry>) {
        // Under the lock of the table: a fetch that comes back keeps the entry there.
        let mut table = self.table.write();
        if entry.retire_again() {
            table.remove(entry);
            drop(table);
            entry.end();
        }
    }

    /// Ends the entries of a partition whose leader epoch is over.
    pub(crate) fn leadership_changed(&self, key: PartitionPlace) {
        self.end_all(|table| {
            let groups = table.entries.get(&key).into_iter().flat_map(HashMap::values);
            groups.filter(|entry| !entry.is_current()).cloned().collect()
        });
    }

    /// Ends the entries of a partition that has left this broker.
    pub(crate) fn partition_left(&self, key: PartitionPlace) {
        self.end_all(|table| {
            table.entries.get(&key).into_iter().flat_map(HashMap::values).cloned().collect()
        });
    }

    /// Ends the entries of a group without a session; entries with writes in progress end after
    /// them, unless the group opens a session again.
    pub(crate) fn group_left(&self, group: &str) {
        self.end_all(|table| table.of_group(group).filter(|entry| entry.retire()).cloned().collect());
    }

    /// Ends all entries and sessions, because share groups are no longer served.
    pub(crate) fn end_everything(&self) {
        self.sessions.lock().clear();
        self.end_all(|table| table.entries.values().flat_map(HashMap::values).cloned().collect());
    }

    fn end_all(&self, choose: impl FnOnce(&Table) -> Vec<Arc<ShareEntry>>) {
        let chosen = choose(&self.table.read());
        chosen.iter().for_each(|entry| self.end(entry));
    }

    /// Ends the sessions of a connection. The records of their members are released by
    /// [`SharePartitions::next_work`].
    pub(crate) fn connection_closed(&self, connection: u64) {
        let closed = self.sessions.lock().close_connection(connection);
        for (member, partitions) in closed {
            self.session_closed(member, partitions);
        }
    }

    /// Releases the records of a member whose session has ended.
    pub(crate) fn session_closed(&self, member: MemberKey, partitions: Vec<PartitionPlace>) {
        self.shared.timers.add_departed(member, partitions);
    }

    /// The next work that is due. Sleeps while there is none.
    pub(crate) async fn next_work(&self) -> ShareWork {
        self.shared.timers.next(steady_ms).await
    }

    /// Ends the entries of a group without sessions.
    pub(crate) fn review_group(&self, group: &str) {
        if !self.sessions.lock().has_group(group) {
            self.group_left(group);
        }
    }

    /// Sums and counts for the HTTP address. At most `lags_max` partitions have their lag.
    pub(crate) fn shown(&self, lags_max: usize) -> ShareState {
        let (acquired_records, expired_records) = self.shared.counts.deliveries();
        // The lags are computed without the lock of the table: a fetch may wait for that.
        let (count, entries) = {
            let table = self.table.read();
            let entries = table.entries.values().flat_map(HashMap::values).take(lags_max);
            (table.count, entries.cloned().collect::<Vec<_>>())
        };
        ShareState {
            sessions: self.sessions.lock().count() as u64,
            partitions: count as u64,
            lags: entries.iter().map(|entry| entry.shown()).collect(),
            loads: self.shared.loads.totals(),
            tracked_bytes: self.shared.tracked_bytes() as u64,
            acquired_records,
            expired_records,
            acknowledged_records: self.shared.counts.acknowledgements(),
            dead_letters: self.shared.counts.dead_letters(),
        }
    }

    /// A number for a connection with share sessions.
    pub(crate) fn number_connection(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }
}
