//! A broker in a cluster of Kafka's controllers: it is opened without logs, and follows the images
//! that the membership brings.
//!
//! Logs are opened when the controllers count the broker as caught up. Until then nothing in the
//! data directory is changed, and nothing there is compared with an image.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use levada_cluster::directories::ReplicaKey;
use levada_config::BrokerConfig;
use levada_log::Background;
use levada_log::checkpoint::MetaProperties;
use levada_log::disk::{Disk, RealDisk};
use levada_metadata::Metadata;
use levada_metadata::image::{Image, PartitionRegistration, Topic};
use levada_metadata::store::Store;
use levada_metadata::uuid::LOST_DIRECTORY;
use levada_process::clock::{uptime_ms, whole_ms};
use levada_wire::Uuid;

use super::opening::{Source, beside};
use crate::broker::{Broker, OpenError};
use crate::cluster::ClusterMembership;
use crate::cluster::events::{self, EventReceiver, EventSender};
use crate::cluster::identity::{BrokerIds, OwnRegistration, identity};
use crate::live_config::LiveConfig;
use crate::replica::data_dir::{DataDir, DataDirError};
use crate::replica::data_dirs::DataDirs;
use crate::replica::{TopicPartition, Witness};

mod confirmation;
#[cfg(test)]
mod tests;

use self::confirmation::{Confirmation, Heard};

impl Broker {
    /// Opens a broker in a cluster, and begins to register it under the addresses of its listeners,
    /// in the order of the configuration. It serves once it has caught up with the cluster.
    pub(crate) fn join(
        config: BrokerConfig,
        bound: &[SocketAddr],
    ) -> Result<(Arc<Self>, Following), OpenError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let dirs = DataDirs::open((disk.clone(), Background::new(beside)), &config)?;
        let stored = Store::member_identity(&*disk, dirs.first().configured(), config.node_id)?;
        dirs.identify(|path| {
            let identity = Store::member_identity(&*disk, path, config.node_id)?;
            Store::check_cluster(path, &identity, &stored)?;
            Ok::<_, OpenError>(Store::with_id(&*disk, path, &identity)?)
        })?;
        let left = dirs.look()?;
        let ids = BrokerIds {
            cluster_id: stored.cluster_id.clone(),
            directories: dirs.online().map(DataDir::id).collect(),
            previous_epoch: left.broker_epoch,
        };
        let named = dirs.online().map(|dir| (dir.configured().to_owned(), dir.id())).collect();
        let registration = OwnRegistration { identity: identity(&config, bound, ids), directories: named };
        let mut named = QUORUM.iter().filter_map(|key| config.settings().text(key));
        tracing::info!(
            cluster = stored.cluster_id,
            node = config.node_id,
            controllers = named.find(|list| !list.is_empty()),
            "cluster mode (process.roles=broker): joining the cluster of these controllers"
        );
        let config = Arc::new(LiveConfig::new(config));
        let (sender, events) = events::queue();
        let waker = sender.clone();
        let membership = ClusterMembership::start(&config, registration, sender)
            .map_err(|error| OpenError::Membership { reason: error.to_string() })?;
        let stored = MetaProperties { directory_id: dirs.first().id().to_bytes(), ..stored };
        let metadata = Arc::new(Metadata::new(stored));
        let source = Source::Member(membership.clone());
        let broker = Self::assemble(config, metadata, (dirs, &left), source)?;
        let following = Following {
            broker: broker.clone(),
            membership,
            events,
            waker,
            latest: None,
            has_begun: false,
            confirmation: Confirmation::default(),
            lost: BTreeSet::new(),
            look_ms: i64::MIN,
            pauses: 0,
            witness: Witness::default(),
            started: Instant::now(),
        };
        Ok((broker, following))
    }
}

impl Broker {
    /// Reports the lost replicas that the metadata has in a directory, or in sync, and returns
    /// them. A report from before a reassignment of the replica has no effect, so that the broker
    /// repeats each report until the metadata has it.
    pub(super) fn report_lost(&self, now_ms: i64) -> BTreeSet<ReplicaKey> {
        let Some(membership) = &self.membership else { return BTreeSet::new() };
        let lost = self.replicas.lost(now_ms);
        let unrecorded = unrecorded(&self.metadata.image(), self.node_id(), &lost);
        unrecorded.iter().for_each(|replica| membership.assign(*replica, LOST_DIRECTORY));
        unrecorded
    }
}

/// Interval between two searches for lost logs, ms.
const LOOK_MS: i64 = 2_000;

/// The keys that name the controllers.
const QUORUM: [&str; 2] = ["controller.quorum.bootstrap.servers", "controller.quorum.voters"];

/// The only consumer of the membership's events. Applies them to the broker in order.
pub(crate) struct Following {
    broker: Arc<Broker>,
    pub(crate) membership: Arc<ClusterMembership>,
    pub(crate) events: EventReceiver,
    /// Ends a wait for the next event.
    pub(crate) waker: EventSender,
    /// The last image from before the broker had caught up.
    latest: Option<Image>,
    /// True once the logs are open and published images take effect.
    has_begun: bool,
    confirmation: Confirmation,
    /// Replicas that are reported as lost, and that the metadata has in a directory.
    lost: BTreeSet<ReplicaKey>,
    /// Time of the next search for lost logs, ms.
    look_ms: i64,
    /// Number of noticed pauses of the process.
    pauses: u64,
    witness: Witness,
    started: Instant,
}

impl Following {
    /// True once the logs are open and checked.
    pub(crate) fn is_open(&self) -> bool {
        let progress = self.broker.replicas().recovery().progress();
        self.has_begun && progress.left == 0
    }

    /// True if the metadata in force has this broker registered and not fenced.
    pub(crate) fn is_unfenced(&self) -> bool {
        let image = self.broker.metadata().image();
        image.brokers().broker(self.broker.node_id()).is_some_and(|broker| !broker.fenced)
    }

    /// Acts on an image. Before the broker is caught up, it only keeps the image: logs in the data
    /// directory may belong to topics of later images. Blocks.
    pub(crate) fn follow(&mut self, image: Image) {
        if self.has_begun {
            let (begun, before) = (Instant::now(), self.broker.metadata().image());
            let publisher = self.broker.publisher();
            let outcome = publisher.finish(publisher.publish_shared(&image));
            self.membership.published(begun.elapsed(), outcome.is_ok());
            if let Err(error) = outcome {
                tracing::error!(%error, "a partition of this broker cannot be opened; the broker retries every few seconds");
            }
            self.report_directories(&before, &image);
        }
        self.membership.applied(&image);
        if !self.has_begun {
            self.latest = Some(image);
        }
    }

    /// Opens the logs of the partitions that the latest image assigns to this broker. Blocks; logs
    /// that were not closed cleanly are checked in the background.
    pub(crate) fn begin(&mut self) -> Result<(), DataDirError> {
        let image = self.latest.take().unwrap_or_else(Image::empty);
        let begun = Instant::now();
        let has_logs = self.broker.replicas().dirs().have_partitions();
        let left = self.broker.replicas().dirs().begin()?;
        let clean = left.clean;
        self.broker.publisher().begin_shared(&image, left)?;
        self.membership.published(begun.elapsed(), true);
        self.has_begun = true;
        self.report_directories(&Image::empty(), &image);
        self.tell_begun(&image, (clean, has_logs));
        Ok(())
    }

    /// Writes the line of the log about the start. A directory without logs, such as a new one, has
    /// not been closed in any order.
    fn tell_begun(&self, image: &Image, (clean, has_logs): (bool, bool)) {
        let (topics, metadata_offset) = (image.topics().len(), image.offset());
        let partitions_here = self.broker.replicas().partitions().count();
        let took_ms = whole_ms(self.started.elapsed());
        if !clean && !has_logs {
            tracing::info!(
                topics,
                partitions_here,
                metadata_offset,
                took_ms,
                "caught up with the metadata of the cluster; the data directory had no logs"
            );
            return;
        }
        tracing::info!(
            topics,
            partitions_here,
            recovering = self.broker.replicas().recovery().progress().left,
            clean,
            metadata_offset,
            took_ms,
            "caught up with the metadata of the cluster; data directory open"
        );
    }

    /// Reports the directories of replicas that the metadata has in another one.
    fn report_directories(&self, before: &Image, image: &Image) {
        let replicas = self.broker.replicas();
        let of = |image: &Image, other: &Image| -> BTreeMap<ReplicaKey, [u8; 16]> {
            let changed = image.topics().changed_since(other.topics());
            let actual = |name: &str, index| replicas.directory_of(name, index);
            changed.flat_map(|topic| misplaced(topic, self.broker.node_id(), actual)).collect()
        };
        let placed = replicas.dirs().take_placed();
        let (earlier, now) = (of(before, image), of(image, before));
        for (replica, at) in earlier.iter().filter(|(replica, _)| !now.contains_key(replica)) {
            if awaits_election(image, *replica, self.broker.node_id()) {
                // The controller elects by the directory that the metadata had before the report.
                self.membership.assign(*replica, Uuid::from_bytes(*at));
            } else {
                self.membership.forget(*replica);
            }
        }
        let news: BTreeMap<_, _> =
            now.iter().filter(|(replica, at)| earlier.get(replica) != Some(at)).collect();
        news.iter().for_each(|(replica, at)| self.membership.assign(**replica, Uuid::from_bytes(**at)));
        // Most replicas that entered service are among those compared here. A directory that
        // accepts records again between two images differs from both, and is not reported yet.
        self.report(placed, |replica| news.contains_key(replica));
    }

    /// Reports replicas that entered service since the last image.
    fn report_placed(&self) {
        self.report(self.broker.replicas().dirs().take_placed(), |_| false);
    }

    /// Reports replicas whose logs cannot serve, so that the controllers elect other leaders.
    fn report_lost(&mut self, now_ms: i64) {
        if now_ms < self.look_ms {
            return;
        }
        self.look_ms = now_ms + LOOK_MS;
        if self.broker.replicas().settle_doubts() {
            self.broker.publisher().lead_unstored();
        }
        let unrecorded = self.broker.report_lost(now_ms);
        let replicas = unrecorded.difference(&self.lost).count();
        if replicas > 0 {
            tracing::warn!(
                replicas,
                "logs of replicas cannot serve, or accept no records; the broker reports them to the controllers as lost, and \
                 other replicas in sync lead"
            );
        }
        self.lost = unrecorded;
    }

    fn report(&self, placed: Vec<(TopicPartition, Uuid)>, is_reported: impl Fn(&ReplicaKey) -> bool) {
        if placed.is_empty() {
            return;
        }
        let image = self.broker.metadata().image();
        for ((name, index), directory) in placed {
            let Some(topic) = image.topic(&name) else { continue };
            // Lost, if the log that was opened cannot serve.
            let directory = self.broker.replicas().directory_of(&name, index).unwrap_or(directory);
            let recorded = topic.partition(index).and_then(|one| recorded(one, self.broker.node_id()));
            let replica = ReplicaKey::new(topic.id(), index);
            if recorded.is_some_and(|recorded| recorded != directory) && !is_reported(&replica) {
                self.membership.assign(replica, directory);
            }
        }
    }

    /// Restores leaderships that were in doubt after a pause of the process, once the metadata has
    /// been read again. To be called after each event.
    pub(crate) fn tick(&mut self) {
        if self.has_begun {
            self.report_placed();
            self.report_lost(uptime_ms());
        }
        let Some(lease) = self.broker.replicas().lease() else { return };
        self.witness.note(uptime_ms(), lease.pause_ms());
        let pauses = lease.pauses();
        if pauses != self.pauses {
            let cause = if self.witness.was_paused(uptime_ms()) {
                "the process was suspended, or its threads waited for a disk"
            } else {
                "a thread waited, for example for a disk; the process was not suspended"
            };
            tracing::warn!(
                cause,
                "the session of the broker (broker.session.timeout.ms) may have expired during a pause; partitions are \
                 unavailable until the broker has read the metadata again; no action is needed"
            );
            self.pauses = pauses;
            self.confirmation.ask(uptime_ms());
        }
        let status = self.membership.status();
        let heard = Heard {
            since_fetch_ms: status.since_fetch_ms,
            high_watermark: status.high_watermark,
            applied: status.applied,
        };
        if self.confirmation.hears(heard, uptime_ms()) {
            lease.confirm(pauses);
            let is_fenced = status.is_fenced;
            tracing::info!(is_fenced, "the metadata was read after the pause; partitions are served");
        }
    }

    /// Refuses all writes and reads from now on: another process is this broker.
    pub(crate) fn revoke(&self) {
        if let Some(lease) = self.broker.replicas().lease() {
            lease.revoke();
        }
        self.broker.stop_following();
    }
}

/// Replicas of this node that the metadata has in another directory than the `actual` one, which is
/// returned with them.
fn misplaced(
    topic: &Topic,
    node_id: i32,
    actual: impl Fn(&str, i32) -> Option<Uuid>,
) -> Vec<(ReplicaKey, [u8; 16])> {
    let misplaced = |(index, partition): (i32, &PartitionRegistration)| {
        let recorded = recorded(partition, node_id)?;
        let directory = actual(topic.name(), index)?;
        (recorded != directory).then(|| (ReplicaKey::new(topic.id(), index), directory.to_bytes()))
    };
    topic.partitions().filter_map(misplaced).collect()
}

/// Lost replicas of this node that the metadata has in a directory, or in sync with others: a fetch
/// that was on its way may have brought a replica back into the ISR.
fn unrecorded(image: &Image, node_id: i32, lost: &[TopicPartition]) -> BTreeSet<ReplicaKey> {
    let unrecorded = |(name, index): &TopicPartition| {
        let topic = image.topic(name)?;
        let partition = topic.partition(*index)?;
        let holds_up = partition.isr.len() > 1 && partition.isr.contains(&node_id);
        let is_news = holds_up || recorded(partition, node_id)? != LOST_DIRECTORY;
        is_news.then(|| ReplicaKey::new(topic.id(), *index))
    };
    lost.iter().filter_map(unrecorded).collect()
}

/// True if the partition has no leader, this node could lead it, and the metadata has its log in a
/// directory. A fenced node gets its leaderships when it is unfenced.
fn awaits_election(image: &Image, replica: ReplicaKey, node_id: i32) -> bool {
    let topic = image.topic_by_id(replica.topic_id());
    let Some(partition) = topic.and_then(|topic| topic.partition(replica.partition())) else { return false };
    let lists = [&partition.isr, &partition.eligible_leader_replicas, &partition.last_known_elr];
    let is_here = recorded(partition, node_id).is_some_and(|directory| directory != LOST_DIRECTORY);
    let could_lead = is_here && image.brokers().is_active(node_id);
    could_lead && !partition.has_leader() && lists.iter().any(|list| list.contains(&node_id))
}

/// The directory that the metadata has for the node's replica.
fn recorded(partition: &PartitionRegistration, node_id: i32) -> Option<Uuid> {
    let at = partition.replicas.iter().position(|replica| *replica == node_id)?;
    partition.directories.get(at).copied()
}
