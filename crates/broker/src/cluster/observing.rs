//! The thread that follows the metadata log: it drives an `Observer` with one connection, turns
//! committed records into images, and names the active controller to the other threads.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use levada_cluster::lifecycle::{BrokerIdentity, IdentityFault};
use levada_cluster::observer::{
    Committed, LogPosition, MetadataRecord, Observer, ObserverAction, ObserverConfig, ObserverEvent,
};
use levada_metadata::image::{Image, Position, Replay};
use levada_metadata::records::{self, Record};
use levada_process::clock::steady_ms;
use levada_wire::api::controller;

use super::ClusterEvent;
use super::connection::{Connection, Cutoff, Peers};
use super::events::EventSender;
use super::requests::RequestInput;
use super::setbacks::Setbacks;
use super::status::Shared;

/// Follows the log until the end of the membership.
pub(super) struct Observation {
    shared: Arc<Shared>,
    observer: Observer,
    connection: Connection,
    /// Connections that are to end when another node is the controller.
    cutoffs: Vec<Cutoff>,
    state: Replay,
    /// The state that a snapshot builds.
    fresh: Option<Replay>,
    /// True if the state has changed since it was published. Records of an idle cluster, two a
    /// second, only move its position.
    is_dirty: bool,
    /// Offset of the image that was published last; none until the state was complete once.
    published: Option<i64>,
    setbacks: Setbacks,
    events: EventSender,
    requests: Sender<RequestInput>,
}

/// End of the thread: a reason to end the process, or none.
enum End {
    Asked,
    Fatal(String),
}

impl Observation {
    /// `cutoffs` contains those of all connections, its own first.
    pub(super) fn new(
        shared: Arc<Shared>,
        identity: &BrokerIdentity,
        cutoffs: &[Cutoff],
        (events, requests): (EventSender, Sender<RequestInput>),
    ) -> Self {
        let config = shared.config.load();
        let cluster = config.cluster.as_ref().expect("only a broker in a cluster observes");
        let directory = identity.directories.first().copied().unwrap_or_default();
        let mut observer = ObserverConfig::new(identity.node_id, directory);
        observer.cluster_id = Some(identity.cluster_id.clone());
        observer.listener.clone_from(&cluster.controllers.name);
        let timeout = Duration::from_millis(observer.request_timeout_ms.unsigned_abs());
        let connection = Connection::new(
            shared.config.clone(),
            Peers::Controllers,
            "observer".to_owned(),
            (timeout, cutoffs[0].clone()),
        );
        let observer = Observer::new(observer, cluster.quorum.clone());
        drop(config);
        let state = Replay::new(Image::empty());
        Self {
            shared,
            observer,
            connection,
            cutoffs: cutoffs[1..].to_vec(),
            state,
            fresh: None,
            is_dirty: false,
            published: None,
            setbacks: Setbacks::default(),
            events,
            requests,
        }
    }

    /// Runs until the other side of `alive` is dropped, or until the thread can no longer follow
    /// the log.
    pub(super) fn run(mut self, alive: &Receiver<Infallible>) {
        if let End::Fatal(reason) = self.follow(alive) {
            // Without a consumer the membership has ended already.
            let _ = self.events.send(ClusterEvent::Exit(reason));
        }
    }

    fn follow(&mut self, alive: &Receiver<Infallible>) -> End {
        let mut event = ObserverEvent::Tick;
        loop {
            let next = match self.step(event) {
                Ok(next) => next,
                Err(end) => return end,
            };
            let Some(deadline) = self.observer.deadline() else { return End::Asked };
            let wait = if next.is_some() { 0 } else { deadline.saturating_sub(steady_ms()).max(0) };
            match alive.recv_timeout(Duration::from_millis(wait.unsigned_abs())) {
                Err(RecvTimeoutError::Timeout) => event = next.unwrap_or(ObserverEvent::Tick),
                Err(RecvTimeoutError::Disconnected) => return End::Asked,
                Ok(never) => match never {},
            }
        }
    }

    /// Processes an event, and returns the next one if it exists already. The next request is sent
    /// only when all contents of the last response are applied.
    fn step(&mut self, event: ObserverEvent) -> Result<Option<ObserverEvent>, End> {
        let is_answer = matches!(event, ObserverEvent::Fetched(..));
        let actions = self.observer.step(event, steady_ms());
        // A response that only names another node does not contain the end of the log.
        let leads_on = |action: &ObserverAction| {
            matches!(action, ObserverAction::Unusable { .. } | ObserverAction::LeaderChanged { .. })
        };
        let is_of_log = is_answer && !actions.iter().any(leads_on);
        let is_request =
            |action: &_| matches!(action, ObserverAction::Fetch(..) | ObserverAction::FetchSnapshot(..));
        let (requests, states): (Vec<_>, Vec<_>) = actions.into_iter().partition(is_request);
        for state in states {
            self.act(state)?;
        }
        self.report()?;
        if is_of_log {
            self.setbacks = Setbacks::default();
            self.shared.fetched();
        }
        let mut next = None;
        for request in requests {
            next = self.act(request)?.or(next);
        }
        Ok(next)
    }

    /// Performs an action of the observer. The response to a request is the next event.
    fn act(&mut self, action: ObserverAction) -> Result<Option<ObserverEvent>, End> {
        match action {
            ObserverAction::Fetch(request, to, body) => {
                let answer = self.connection.fetch(&to, &body);
                Ok(Some(match answer {
                    Some(answer) => ObserverEvent::Fetched(request, answer),
                    None => ObserverEvent::Failed(request),
                }))
            }
            ObserverAction::FetchSnapshot(request, to, body) => {
                let answer = self.connection.request(&to, controller::FETCH_SNAPSHOT, &body);
                Ok(Some(match answer {
                    Some(answer) => ObserverEvent::SnapshotFetched(request, answer),
                    None => ObserverEvent::Failed(request),
                }))
            }
            ObserverAction::Stop(reason) => Err(End::Fatal(reason)),
            state => self.take(state).map(|()| None),
        }
    }

    /// Applies committed records and snapshots to the state.
    fn take(&mut self, action: ObserverAction) -> Result<(), End> {
        match action {
            ObserverAction::Publish(committed) => self.apply(&committed)?,
            ObserverAction::SnapshotBegins(id) => {
                tracing::info!(
                    end_offset = id.end_offset,
                    epoch = id.epoch,
                    "loading a snapshot of the metadata"
                );
                self.fresh = Some(Replay::new(Image::empty()));
            }
            ObserverAction::SnapshotRecords(records) => {
                if let Some(fresh) = &mut self.fresh {
                    records.iter().try_for_each(|record| push(fresh, record).map(|_| ()))?;
                }
            }
            ObserverAction::SnapshotEnds(id) => {
                if let Some(mut fresh) = self.fresh.take() {
                    skip_to(&mut fresh, LogPosition { offset: id.end_offset, epoch: id.epoch });
                    self.state = fresh;
                    self.is_dirty = true;
                }
            }
            ObserverAction::SnapshotDropped(_) => self.fresh = None,
            ObserverAction::LeaderChanged { epoch, leader } => {
                tracing::info!(epoch, leader, "the quorum has another leader or epoch");
            }
            ObserverAction::Unusable { from, reason } => {
                if self.setbacks.is_worth_a_word(&reason) {
                    tracing::warn!(
                        address = %from.address,
                        reason,
                        "the broker makes no progress in the metadata log; it fetches from the controllers again"
                    );
                } else {
                    tracing::debug!(address = %from.address, reason, "a controller's response cannot be used");
                }
            }
            ObserverAction::Fetch(..) | ObserverAction::FetchSnapshot(..) | ObserverAction::Stop(_) => {}
        }
        Ok(())
    }

    fn apply(&mut self, committed: &Committed) -> Result<(), End> {
        for record in &committed.records {
            self.is_dirty |= push(&mut self.state, record)?;
        }
        // Control records and marks of transactions have their own offsets.
        skip_to(&mut self.state, committed.through);
        Ok(())
    }

    /// Reports the controller to the other threads and to the consumer of the image.
    fn report(&mut self) -> Result<(), End> {
        let (quorum, node_id) = (self.observer.quorum(), self.shared.node_id);
        // The metadata log may name the voters long after the leader is known.
        if quorum.is_voter(node_id) {
            return Err(End::Fatal(IdentityFault::Voter { node_id }.to_string()));
        }
        let controller = quorum.leader_target();
        if let Some(controller) = &controller {
            // First: a connection to the new controller that others make immediately is permitted.
            self.cutoffs.iter().for_each(|cutoff| cutoff.keep_only(&controller.address));
        }
        if self.shared.observed(controller.as_ref(), quorum.epoch(), self.observer.high_watermark()) {
            self.requests.send(RequestInput::Controller(controller)).map_err(|_| End::Asked)?;
        }
        self.is_dirty |= self.state.set_kraft_version(self.observer.kraft_version());
        let is_complete = self.observer.published().offset >= self.observer.high_watermark();
        if self.is_dirty && (self.published.is_some() || is_complete) {
            let image = self.state.image().clone();
            (self.is_dirty, self.published) = (false, Some(image.offset()));
            self.events.send(ClusterEvent::Image(image)).map_err(|_| End::Asked)?;
        } else if let Some(published) = self.published.filter(|_| !self.is_dirty) {
            self.shared.passed(published, self.state.image());
        }
        Ok(())
    }
}

/// Applies a record; false if the record only moves the position.
fn push(state: &mut Replay, record: &MetadataRecord) -> Result<bool, End> {
    let position = Position { offset: record.offset, epoch: record.epoch, timestamp_ms: record.timestamp_ms };
    let unreadable = |error: &dyn std::fmt::Display| {
        End::Fatal(format!(
            "cannot apply the metadata record at offset {}: {error}; upgrade Levada, or report this if it is the newest",
            record.offset
        ))
    };
    let (decoded, _) = records::decode(record.value.clone()).map_err(|error| unreadable(&error))?;
    let is_change = !matches!(decoded, Record::NoOp(_));
    state.push(decoded, position).map_err(|error| unreadable(&error))?;
    Ok(is_change)
}

/// Passes all records before this position. The time of the last record stays.
fn skip_to(state: &mut Replay, through: LogPosition) {
    let timestamp_ms = state.image().timestamp_ms();
    state.skip(Position { offset: through.offset - 1, epoch: through.epoch, timestamp_ms });
}
