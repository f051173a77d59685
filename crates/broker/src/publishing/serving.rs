//! Partitions that enter and leave service.

use std::path::PathBuf;
use std::sync::Arc;

use levada_coordination::group::GoneTopic;
use levada_log::LogError;
use levada_metadata::image::Image;
use levada_wire::Uuid;

use crate::coordinator::Load;
use crate::publishing::diff::{Change, DeletedTopic, diff};
use crate::publishing::roles::Roles;
use crate::publishing::{Aftermath, Publisher};
use crate::replica::data_dir::DataDirError;
use crate::replica::last_shutdown::{LastShutdown, PartitionAtShutdown};
use crate::replica::opening::Missing;
use crate::replica::tiered::tell;
use crate::replica::{Partition, TopicPartition};

impl Publisher {
    /// Publishes the image that a start has found, and acts on all that it has. Logs of an unclean
    /// stop are recovered while the broker serves.
    pub(crate) fn begin(&self, image: &Image, left: LastShutdown) -> Result<(), DataDirError> {
        let node_id = self.config.load().node_id;
        // No other thread reads or acts yet.
        let changes = self.metadata.replace(image, |none| diff(none, image, node_id));
        let (mut missing, mut aftermath) = (Vec::new(), Aftermath::default());
        for change in changes {
            match change {
                // A start has read it before it opened anything.
                Change::BrokerConfig => {}
                Change::Serve(topics) => missing = self.replicas.missing(image, topics.into_iter()),
                change => self.apply(change, image, &mut aftermath),
            }
        }
        // Coordinators get the topics before they are loaded. No partition was opened that could
        // have failed.
        let _ = self.finish(aftermath);
        self.coordinators.provide(image);
        let known = |name: &str, index| {
            let topic = image.topic(name)?;
            topic.partition(index)?.replicas.contains(&node_id).then(|| topic.id())
        };
        self.replicas.dirs().quarantine_strays(known)?;
        let stale = left.is_stale(|topic, index| known(topic, index).is_some());
        self.replicas.set_tiered_aside(&mut missing, |key| left.of(key));
        if !left.clean && !missing.is_empty() {
            self.begin_recovery(missing, left);
        } else {
            // Partitions that cannot be opened are offline; the others are served.
            let _ = self.open_and_serve(missing, |key| left.of(key));
        }
        if stale {
            // Before a new topic gets the name of a topic that was deleted just before a crash.
            self.replicas.checkpoints().store();
        }
        Ok(())
    }

    /// Like [`Publisher::begin`], for an image of a cluster's controllers. It also has the
    /// configuration of this broker, which a broker that is its own controller has read before.
    pub(crate) fn begin_shared(&self, image: &Image, left: LastShutdown) -> Result<(), DataDirError> {
        self.apply_broker_config(image);
        self.begin(image, left)
    }

    /// Opens those partitions of the topics that are not served yet.
    pub(super) fn serve_missing(&self, image: &Image, topics: &[Uuid]) -> Result<(), LogError> {
        self.coordinators.provide(image);
        let missing = self.replicas.missing(image, topics.iter().copied());
        let left = self.replicas.unopened().lock().clone();
        self.open_and_serve(missing, |key| left.of(key))
    }

    /// Retries to open partitions that could not be opened.
    pub(crate) fn open_unopened(&self) {
        if self.replicas.unopened().lock().failed() == 0 {
            return;
        }
        let changed = self.metadata.hold(|image| {
            // Topics do not change meanwhile: the offsets are those of the same topics.
            let left = self.replicas.unopened().lock().clone();
            let missing = self.replicas.missing(image, image.topics().iter().map(|topic| topic.id()));
            let is_wanted = |key: &TopicPartition| {
                missing.iter().any(|one| one.is(key)) || self.replicas.dirs().is_in_failed(key)
            };
            self.replicas.unopened().lock().keep(is_wanted);
            self.open_and_serve(missing, |key| left.of(key))
        });
        // Partitions in a failed directory are not opened, and do not count as failures.
        if changed.is_ok() && self.replicas.unopened().lock().failed() == 0 {
            tracing::info!("all partitions are open");
        }
    }

    /// Opens partitions and puts them into service. Housekeeping retries those that cannot be
    /// opened; the first failure is returned.
    pub(super) fn open_and_serve(
        &self,
        mut missing: Vec<Missing>,
        left: impl Fn(&TopicPartition) -> PartitionAtShutdown + Sync,
    ) -> Result<(), LogError> {
        self.replicas.set_tiered_aside(&mut missing, &left);
        let (opened, failure) = self.replicas.open(missing, &left);
        let served = self.serve(opened);
        // A failure is in the log.
        let _ = self.replicas.checkpoints().store_misleading();
        failure.map_or(served, Err)
    }

    /// Puts opened partitions into service: those that this node leads of `__consumer_offsets` and
    /// `__transaction_state` get their coordinators, and those that another node leads follow it.
    pub(super) fn serve(&self, opened: Vec<Partition>) -> Result<(), LogError> {
        let served = self.replicas.enter(opened)?;
        let led = served.iter().filter(|partition| partition.leadership().is_leader());
        // All of them are loading before the first is loaded.
        let loads: Vec<Load> = led.filter_map(|partition| self.coordinators.begin(partition)).collect();
        loads.into_iter().for_each(|load| load());
        served.iter().for_each(|partition| self.follow(partition));
        // A broker that is its own controller always leads all partitions.
        if self.fetchers.is_some() {
            let mut roles = Roles::default();
            served.iter().for_each(|partition| roles.note(partition, None));
            roles.tell(&self.role_log);
        }
        Ok(())
    }

    /// Removes the partitions of failed directories from service. Their coordinators end their
    /// terms; later metadata has their leaders.
    pub(crate) fn abandon_failed(&self) {
        self.metadata.hold(|_| {
            let partitions = self.replicas.in_failed_directories();
            for partition in &partitions {
                self.replicas.abandon(partition);
                self.coordinators.resign_at(partition.topic(), partition.index());
                self.share_partitions.partition_left((partition.topic_id(), partition.index()));
            }
            self.unfollow(&partitions);
            tracing::warn!(
                partitions = partitions.len(),
                "partitions of failed directories have left service"
            );
        });
        self.coordinators.tell_resigned();
    }

    /// Takes partitions out of service whose topics now have remote storage, and opens those of
    /// topics that no longer have it.
    pub(super) fn review_tiers(&self, image: &Image, topics: &[Uuid]) -> Result<(), LogError> {
        for topic in topics.iter().filter_map(|id| image.topic_by_id(*id)) {
            if self.config.load().remote_log.is_enabled || !image.is_tiered(topic.name()) {
                continue;
            }
            let partitions = self.replicas.partitions();
            let served: Vec<_> =
                topic.partitions().filter_map(|(index, _)| partitions.by_id(topic.id(), index)).collect();
            for partition in &served {
                self.replicas.close_tiered(partition);
                self.share_partitions.partition_left((partition.topic_id(), partition.index()));
                self.coordinators.resign_at(partition.topic(), partition.index());
            }
            if !served.is_empty() {
                self.unfollow(&served);
                tell(topic.name());
            }
        }
        let has_tiered = self.replicas.unopened().lock().tiered().next().is_some();
        if has_tiered { self.serve_missing(image, topics) } else { Ok(()) }
    }

    /// Makes a partition follow its leader, or stop following if this node leads it. While the
    /// storage of its log refuses records, the partition does not follow: it would join the
    /// replicas in sync, and delay them.
    pub(super) fn follow(&self, partition: &Partition) {
        if let Some(fetchers) = &self.fetchers {
            if partition.log().refuses_records() {
                return fetchers.forget((partition.topic_id(), partition.index()));
            }
            let (leader, is_in_sync) = {
                let leadership = partition.leadership();
                (leadership.leader(), leadership.is_in_sync(self.config.load().node_id))
            };
            fetchers.follow((partition.topic_id(), partition.index()), leader, is_in_sync);
        }
    }

    /// Makes partitions whose directory accepts records again follow their leaders; their
    /// coordinators begin new terms.
    pub(crate) fn serve_again(&self, partitions: &[Arc<Partition>]) {
        self.metadata.hold(|_| {
            let served: Vec<_> = partitions.iter().filter(|partition| !partition.is_deleted()).collect();
            served.iter().for_each(|partition| self.follow(partition));
            self.load_beside(served.iter().filter_map(|one| self.coordinators.follow(one)).collect());
        });
        self.coordinators.tell_resigned();
    }

    /// Ends the terms of the coordinators of partitions that another broker is to lead: the change
    /// of leadership may wait for storage that is frozen, as would their clients.
    pub(crate) fn resign_from(&self, partitions: &[Arc<Partition>]) {
        let node_id = self.config.load().node_id;
        let has_heirs = |one: &&Arc<Partition>| one.leadership().has_others_in_sync(node_id);
        for partition in partitions.iter().filter(has_heirs) {
            self.coordinators.resign_at(partition.topic(), partition.index());
        }
        self.coordinators.tell_resigned();
    }

    /// Makes every partition follow its leader over as many connections as are configured now.
    pub(super) fn follow_all(&self) {
        self.replicas.partitions().all().iter().for_each(|partition| self.follow(partition));
    }

    /// Retries to follow leaders whose threads could not be started.
    pub(crate) fn follow_pending(&self) {
        if let Some(fetchers) = &self.fetchers {
            // The leaders do not change meanwhile.
            self.metadata.hold(|_| fetchers.retry());
        }
    }

    /// Stops the fetchers of partitions that have left this broker.
    pub(crate) fn unfollow(&self, partitions: &[Arc<Partition>]) {
        for (fetchers, partition) in
            self.fetchers.iter().flat_map(|all| partitions.iter().map(move |one| (all, one)))
        {
            fetchers.forget((partition.topic_id(), partition.index()));
        }
    }

    /// Takes a topic that the metadata no longer has out of service, and renames its directories,
    /// so that a new topic can have the name. Returns them for removal. Only before the image
    /// without it is visible: later the name may be another topic's.
    pub(super) fn drop_topic(&self, topic: &DeletedTopic) -> Vec<PathBuf> {
        let removed = self.replicas.partitions().remove(topic.id);
        removed
            .iter()
            .for_each(|partition| self.share_partitions.partition_left((topic.id, partition.index())));
        self.unfollow(&removed);
        self.coordinators.resign(&topic.name);
        let is_unopened = |index: &&i32| self.replicas.unopened().lock().is_closed(&topic.name, **index);
        let unopened = topic.partitions.iter().filter(is_unopened);
        // Of a log that is being checked, the thread that checks it removes the directory.
        let mut doomed: Vec<PathBuf> =
            unopened.filter_map(|index| self.replicas.mark_unserved_deleted(&topic.name, *index)).collect();
        topic
            .partitions
            .iter()
            .for_each(|index| self.replicas.dirs().forget_if_failed(&(topic.name.to_string(), *index)));
        // Includes partitions not in service yet: recovery checks their logs, or cannot open them.
        self.coordinators.topics_deleted(&[GoneTopic {
            name: topic.name.clone(),
            topic_id: topic.id,
            partitions: topic.partitions.iter().copied().collect(),
        }]);
        doomed.extend(self.replicas.mark_deleted(&removed));
        doomed
    }
}
