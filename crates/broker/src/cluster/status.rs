//! State of the membership that its threads share, and its description for operators.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use levada_client::OfferedVersions;
use levada_cluster::Target;
use levada_cluster::lifecycle::BrokerPhase;
use levada_metadata::image::Image;
use levada_process::clock::{now_ms, steady_ms};
use parking_lot::{Condvar, Mutex};

use crate::live_config::LiveConfig;
use crate::stats::{Durations, SharedDurations};

/// The membership as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct MembershipStatus {
    /// The phase of the broker's life in the cluster.
    pub(crate) phase: BrokerPhase,
    /// True unless the controller lets the broker lead partitions.
    pub(crate) is_fenced: bool,
    /// The epoch of the registration.
    pub(crate) broker_epoch: Option<i64>,
    /// The error code of the last refused registration or heartbeat, until the next success.
    pub(crate) refusal: Option<i16>,
    /// The active controller, if known.
    pub(crate) controller: Option<i32>,
    /// The epoch of the quorum.
    pub(crate) quorum_epoch: i32,
    /// The high watermark of the metadata log.
    pub(crate) high_watermark: i64,
    /// Offset of the last metadata record that is in force, -1 for none.
    pub(crate) applied: i64,
    /// Time since a controller wrote the last metadata record that is in force, ms.
    pub(crate) since_applied_ms: Option<i64>,
    /// Durations of the publication of metadata images.
    pub(crate) publications: Durations,
    /// Number of publications that left a part of the state out of force.
    pub(crate) publication_errors: u64,
    /// Time since the last response of the leader to a Fetch of the metadata log was applied, ms.
    pub(crate) since_fetch_ms: Option<i64>,
    /// Time since the last response to a heartbeat or registration, ms.
    pub(crate) since_heartbeat_ms: Option<i64>,
    /// Clients' requests to which the controller has responded.
    pub(crate) forwarded: u64,
    /// Clients' requests that got no response.
    pub(crate) forwarding_failed: u64,
}

/// State that the threads of the membership share.
pub(super) struct Shared {
    pub(super) config: Arc<LiveConfig>,
    pub(super) node_id: i32,
    state: Mutex<State>,
    /// Notified when the controller becomes known, and at the end.
    news: Condvar,
    /// Offset of the last record that is in force.
    pub(super) applied: AtomicI64,
    /// Time of the last record that is in force, ms since 1970; 0 for none.
    pub(super) applied_time_ms: AtomicI64,
    pub(super) publications: SharedDurations,
    pub(super) publication_errors: AtomicU64,
    pub(super) forwarded: AtomicU64,
    pub(super) forwarding_failed: AtomicU64,
    stopping: AtomicBool,
}

struct State {
    controller: Option<Target>,
    quorum_epoch: i32,
    high_watermark: i64,
    fetched_ms: Option<i64>,
    phase: BrokerPhase,
    is_fenced: bool,
    broker_epoch: Option<i64>,
    refusal: Option<i16>,
    offered: Vec<OfferedVersions>,
    heartbeat_ms: Option<i64>,
}

impl Shared {
    pub(super) fn new(config: Arc<LiveConfig>, node_id: i32) -> Self {
        let state = State {
            controller: None,
            quorum_epoch: 0,
            high_watermark: 0,
            fetched_ms: None,
            phase: BrokerPhase::Starting,
            is_fenced: true,
            broker_epoch: None,
            refusal: None,
            offered: Vec::new(),
            heartbeat_ms: None,
        };
        Self {
            config,
            node_id,
            state: Mutex::new(state),
            news: Condvar::new(),
            applied: AtomicI64::new(-1),
            applied_time_ms: AtomicI64::new(0),
            publications: SharedDurations::default(),
            publication_errors: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            forwarding_failed: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// The controller offers these versions.
    pub(super) fn offers(&self, versions: &[OfferedVersions]) {
        let mut state = self.state.lock();
        if state.offered != versions {
            state.offered = versions.to_vec();
        }
    }

    /// The versions of an API that the controller offers: `None` before the first response of a
    /// controller, an empty range if it does not have the API.
    pub(super) fn offered(&self, key: i16) -> Option<RangeInclusive<i16>> {
        let state = self.state.lock();
        let found = state.offered.iter().find(|offered| offered.key == key);
        // The range of an API that the controller does not have contains no version.
        let range = found.map_or(RangeInclusive::new(1, 0), |offered| offered.min..=offered.max);
        (!state.offered.is_empty()).then_some(range)
    }

    /// Stops the threads.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _state = self.state.lock();
        self.news.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The active controller. Waits at most this time for one.
    pub(super) fn await_controller(&self, limit: Duration) -> Option<Target> {
        let mut state = self.state.lock();
        let is_waiting = |state: &mut State| state.controller.is_none() && !self.is_stopping();
        let _ = self.news.wait_while_for(&mut state, is_waiting, limit);
        state.controller.clone()
    }

    /// Records the controller that a response of the quorum names; true if it has changed.
    pub(super) fn observed(&self, controller: Option<&Target>, epoch: i32, high_watermark: i64) -> bool {
        let mut state = self.state.lock();
        (state.quorum_epoch, state.high_watermark) = (epoch, high_watermark);
        if state.controller.as_ref() == controller {
            return false;
        }
        state.controller = controller.cloned();
        self.news.notify_all();
        true
    }

    /// Notes that the metadata is in force up to the last record of this image.
    pub(super) fn applied(&self, image: &Image) {
        self.applied_time_ms.fetch_max(image.timestamp_ms(), Ordering::Relaxed);
        self.applied.fetch_max(image.offset(), Ordering::Release);
    }

    /// Notes the same of an image that differs from a published one in its position only, once that
    /// one is in force. Nothing is published, and no other thread wakes.
    pub(super) fn passed(&self, published: i64, image: &Image) {
        if self.applied.load(Ordering::Acquire) >= published {
            self.applied(image);
        }
    }

    /// Records that all contents of a response of the leader are applied.
    pub(super) fn fetched(&self) {
        self.state.lock().fetched_ms = Some(steady_ms());
    }

    pub(super) fn heard(&self) {
        self.state.lock().heartbeat_ms = Some(steady_ms());
    }

    pub(super) fn lives(&self, phase: BrokerPhase, is_fenced: bool, broker_epoch: Option<i64>) {
        let mut state = self.state.lock();
        (state.phase, state.is_fenced, state.broker_epoch) = (phase, is_fenced, broker_epoch);
    }

    /// Records the last refusal, or its end; true if it differs from the previous one.
    pub(super) fn refused(&self, code: Option<i16>) -> bool {
        std::mem::replace(&mut self.state.lock().refusal, code) != code
    }

    pub(super) fn broker_epoch(&self) -> Option<i64> {
        self.state.lock().broker_epoch
    }

    /// Age of the last applied record; not negative even if the controller's clock is ahead.
    fn since_applied_ms(&self) -> Option<i64> {
        let time_ms = self.applied_time_ms.load(Ordering::Relaxed);
        (time_ms > 0).then(|| now_ms().saturating_sub(time_ms).max(0))
    }

    pub(super) fn status(&self) -> MembershipStatus {
        let (state, now_ms) = (self.state.lock(), steady_ms());
        MembershipStatus {
            phase: state.phase,
            is_fenced: state.is_fenced,
            broker_epoch: state.broker_epoch,
            refusal: state.refusal,
            controller: state.controller.as_ref().and_then(|controller| controller.node),
            quorum_epoch: state.quorum_epoch,
            high_watermark: state.high_watermark,
            applied: self.applied.load(Ordering::Relaxed),
            since_applied_ms: self.since_applied_ms(),
            publications: self.publications.totals(),
            publication_errors: self.publication_errors.load(Ordering::Relaxed),
            since_fetch_ms: state.fetched_ms.map(|then| now_ms - then),
            since_heartbeat_ms: state.heartbeat_ms.map(|then| now_ms - then),
            forwarded: self.forwarded.load(Ordering::Relaxed),
            forwarding_failed: self.forwarding_failed.load(Ordering::Relaxed),
        }
    }
}
