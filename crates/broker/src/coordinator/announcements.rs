//! Delivery of metadata to coordinators: topics, and the settings of groups.

use std::sync::Arc;

use levada_coordination::group::{Coordinator, Event, OwnSettings, Topics};
use levada_coordination::share_state::{self, TopicSizes};
use levada_metadata::image::{Image, Topic};
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::coordinator::host::Host;

/// The latest announcements, for coordinators that are loaded later.
pub(super) struct Announcements {
    topics: Mutex<Arc<Image>>,
    own_settings: Mutex<Arc<OwnSettings>>,
}

impl Announcements {
    /// No announcement yet: no topics and no settings.
    pub(super) fn new() -> Self {
        Self { topics: Mutex::new(Arc::new(Image::empty())), own_settings: Mutex::default() }
    }

    /// Notifies every coordinator of topics that were created, deleted or extended. `latest` is
    /// called in the order of the changes, so that no earlier image follows a later one.
    pub(super) fn topics(
        &self,
        (groups, share_states): (&Host<Coordinator>, &Host<share_state::Coordinator>),
        latest: impl FnOnce() -> Arc<Image>,
    ) {
        let mut topics = self.topics.lock();
        *topics = latest();
        groups.step_all(|| Event::Topics(Arc::new(Known(topics.clone()))));
        share_states.step_all(|| share_state::Event::Topics(Arc::new(Known(topics.clone()))));
    }

    /// Passes the settings of single groups to every coordinator.
    pub(super) fn own_settings(&self, groups: &Host<Coordinator>, latest: OwnSettings) {
        let mut own_settings = self.own_settings.lock();
        *own_settings = Arc::new(latest);
        groups.step_all(|| Event::OwnSettings(own_settings.clone()));
    }

    /// Sends the latest announcements to the group coordinator of partition `index`, before it is
    /// loaded.
    pub(super) fn repeat_to_group(&self, groups: &Host<Coordinator>, index: i32) {
        groups.step_at(index, Event::Topics(Arc::new(Known(self.topics.lock().clone()))));
        groups.step_at(index, Event::OwnSettings(self.own_settings.lock().clone()));
    }

    /// Sends the latest announcement to the share coordinator of partition `index`, before it is
    /// loaded.
    pub(super) fn repeat_to_share_state(&self, share_states: &Host<share_state::Coordinator>, index: i32) {
        let topics = Arc::new(Known(self.topics.lock().clone()));
        share_states.step_at(index, share_state::Event::Topics(topics));
    }
}

/// The topics of an image, for lookups of coordinators.
#[derive(Debug)]
struct Known(Arc<Image>);

impl Topics for Known {
    fn by_name(&self, name: &str) -> Option<(Uuid, i32)> {
        let topic = self.0.topic(name)?;
        Some((topic.id(), partition_count(topic)))
    }

    fn by_id(&self, id: Uuid) -> Option<(String, i32)> {
        let topic = self.0.topic_by_id(id)?;
        Some((topic.name().to_string(), partition_count(topic)))
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.0.topics().iter().map(|topic| topic.name().clone()).collect()
    }

    fn version(&self) -> i64 {
        self.0.offset()
    }
}

impl TopicSizes for Known {
    fn partition_count(&self, topic_id: Uuid) -> Option<i32> {
        self.0.topic_by_id(topic_id).map(|topic| partition_count(topic))
    }
}

fn partition_count(topic: &Topic) -> i32 {
    i32::try_from(topic.partition_count()).expect("partitions are numbered with 32 bits")
}
