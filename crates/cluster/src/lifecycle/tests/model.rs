//! A model controller with sessions, fencing and registrations, between which and the broker
//! anything is lost.

use levada_testing::scaled;
use proptest::prelude::*;

use super::*;

const SESSION_MS: i64 = 9000;

/// A registration as the controller keeps it.
#[derive(Clone, Copy, Debug)]
struct Registration {
    incarnation: Uuid,
    epoch: i64,
    fenced: bool,
    shutting_down: bool,
    last_heartbeat_ms: i64,
}

#[derive(Default)]
struct Controller {
    registration: Option<Registration>,
    next_epoch: i64,
    /// Offset of the registration's record.
    record: i64,
    offline: Vec<Uuid>,
    /// Heartbeats until a shutdown is granted.
    leaderships: u32,
}

impl Controller {
    fn register(&mut self, request: &BrokerRegistrationRequest, now_ms: i64) -> BrokerRegistrationResponse {
        if let Some(other) = &self.registration {
            if other.incarnation == request.incarnation_id {
                return registered(0, other.epoch);
            }
            if now_ms - other.last_heartbeat_ms < SESSION_MS {
                return registered(101, -1);
            }
        }
        self.next_epoch += 3;
        self.record = self.next_epoch + 1;
        self.registration = Some(Registration {
            incarnation: request.incarnation_id,
            epoch: self.next_epoch,
            fenced: true,
            shutting_down: false,
            last_heartbeat_ms: now_ms,
        });
        registered(0, self.next_epoch)
    }

    fn heartbeat(&mut self, request: &BrokerHeartbeatRequest, now_ms: i64) -> BrokerHeartbeatResponse {
        let record = self.record;
        let current = self.registration.as_mut().filter(|current| current.epoch == request.broker_epoch);
        let Some(current) = current else { return heartbeat(77, false, true, false) };
        if now_ms - current.last_heartbeat_ms >= SESSION_MS {
            current.fenced = true;
        }
        current.last_heartbeat_ms = now_ms;
        self.offline.clone_from(&request.offline_log_dirs);
        let caught_up = request.current_metadata_offset >= record;
        if request.want_shut_down {
            current.shutting_down = true;
            let granted = current.fenced || self.leaderships == 0;
            self.leaderships = self.leaderships.saturating_sub(1);
            return heartbeat(0, caught_up, current.fenced, granted);
        }
        current.fenced = request.want_fence || !caught_up && current.fenced;
        heartbeat(0, caught_up, current.fenced, false)
    }
}

/// A broker, its controller, and a network between them.
struct Rig {
    controller: Controller,
    broker: Lifecycle,
    now_ms: i64,
    applied: i64,
    in_flight: Option<(u64, i64)>,
    requests: Vec<LifecycleAction>,
    answers: Vec<LifecycleEvent>,
    caught_up: bool,
    ready: bool,
    stopping: bool,
    replaced: bool,
    ended: Option<LifecycleAction>,
    /// True if another process has registered with the id.
    rival: bool,
}

impl Rig {
    fn new(predecessor: bool) -> Self {
        let mut controller = Controller { leaderships: 3, ..Controller::default() };
        if predecessor {
            let mut other = BrokerRegistrationRequest::default();
            other.incarnation_id = directory(50);
            controller.register(&other, 0);
        }
        Self {
            controller,
            broker: broker(),
            now_ms: 0,
            applied: -1,
            in_flight: None,
            requests: Vec::new(),
            answers: Vec::new(),
            caught_up: false,
            ready: false,
            stopping: false,
            replaced: false,
            ended: None,
            rival: false,
        }
    }

    fn step(&mut self, event: LifecycleEvent) {
        let now_ms = self.now_ms;
        let answered = match &event {
            LifecycleEvent::Registered(request, _)
            | LifecycleEvent::Heartbeat(request, _)
            | LifecycleEvent::Failed(request) => Some(*request),
            _ => None,
        };
        self.in_flight.take_if(|(request, sent)| Some(*request) == answered || now_ms - *sent >= 4500);
        for action in self.broker.step(event, now_ms) {
            self.take(action);
        }
        match self.broker.deadline() {
            Some(deadline) => {
                assert!(self.ended.is_none());
                assert!(deadline > now_ms, "busy at {now_ms} in {:?}", self.broker.phase());
            }
            None => assert!(self.ended.is_some(), "the end has a reason"),
        }
    }

    fn take(&mut self, action: LifecycleAction) {
        assert!(self.ended.is_none(), "{action:?} after the end");
        match &action {
            LifecycleAction::Register(request, _) | LifecycleAction::Heartbeat(request, _) => {
                let other = self.in_flight.replace((*request, self.now_ms));
                assert_eq!(other, None, "two requests in flight");
                assert!(!self.replaced, "a replaced broker is silent");
                if let LifecycleAction::Heartbeat(_, body) = &action {
                    assert!(body.want_fence || self.ready && self.caught_up, "unfenced too early");
                    assert_eq!(body.want_shut_down, self.stopping);
                }
                self.requests.push(action);
            }
            LifecycleAction::CaughtUp => {
                assert!(!self.caught_up);
                assert!(self.rival || self.applied >= self.controller.record, "not caught up");
                self.caught_up = true;
            }
            LifecycleAction::Unfenced => assert!(self.ready && self.caught_up),
            LifecycleAction::StopWriting => {
                assert!(self.rival, "the registration was this broker's");
                self.replaced = true;
            }
            LifecycleAction::Shutdown(granted) => {
                assert!(self.stopping || !granted);
                self.ended = Some(action);
            }
            LifecycleAction::Exit(_) => self.ended = Some(action),
            _ => {}
        }
    }

    fn serve(&mut self, which: usize) {
        if self.requests.is_empty() {
            return;
        }
        let answer = match self.requests.remove(which % self.requests.len()) {
            LifecycleAction::Register(request, body) => {
                LifecycleEvent::Registered(request, self.controller.register(&body, self.now_ms))
            }
            LifecycleAction::Heartbeat(request, body) => {
                LifecycleEvent::Heartbeat(request, self.controller.heartbeat(&body, self.now_ms))
            }
            other => panic!("not a request: {other:?}"),
        };
        self.answers.push(answer);
    }

    fn deliver(&mut self, which: usize, again: bool) {
        if self.answers.is_empty() {
            return;
        }
        let at = which % self.answers.len();
        let answer = if again { self.answers[at].clone() } else { self.answers.remove(at) };
        self.step(answer);
    }

    fn operate(&mut self, (operation, a): (u8, u8)) {
        let which = usize::from(a);
        match operation {
            0..8 => {
                self.serve(which);
                self.deliver(which, false);
            }
            8..10 => self.serve(which),
            10 => self.deliver(which, a % 3 == 0),
            11 if !self.answers.is_empty() => drop(self.answers.remove(which % self.answers.len())),
            12 if !self.requests.is_empty() => {
                let request = self.requests.remove(which % self.requests.len());
                let (LifecycleAction::Register(id, _) | LifecycleAction::Heartbeat(id, _)) = request else {
                    panic!("not a request")
                };
                self.step(LifecycleEvent::Failed(id));
            }
            13 | 14 => {
                self.applied += i64::from(a % 4);
                self.step(LifecycleEvent::Applied(self.applied));
            }
            15 if self.caught_up => {
                self.ready = true;
                self.step(LifecycleEvent::Ready);
            }
            16 if a < 40 => {
                self.stopping |= self.broker.phase() == BrokerPhase::Running || self.broker.asked;
                self.step(LifecycleEvent::Stop);
            }
            17 if a < 20 && self.controller.registration.is_some() => {
                self.rival = true;
                self.controller.registration = None;
                let mut other = BrokerRegistrationRequest::default();
                other.incarnation_id = directory(51);
                self.controller.register(&other, self.now_ms);
            }
            18 => self.step(LifecycleEvent::DirectoryFailed(directory(1))),
            19 => self.step(LifecycleEvent::RegistrationOutdated),
            _ => {
                self.now_ms += i64::from(a) * 20;
                self.step(LifecycleEvent::Tick);
            }
        }
    }

    /// Ends all faults and follows the deadlines until the broker runs and its failed directory is
    /// known, or the broker has ended.
    fn quiesce(&mut self) {
        self.requests.clear();
        self.answers.clear();
        for _ in 0..400 {
            let is_running = self.broker.phase() == BrokerPhase::Running && !self.broker.is_fenced();
            let is_known = self.broker.offline.is_empty() || !self.controller.offline.is_empty();
            if self.ended.is_some() || is_running && is_known {
                return;
            }
            self.applied = self.applied.max(self.controller.record);
            self.step(LifecycleEvent::Applied(self.applied));
            if self.caught_up && !self.ready && self.ended.is_none() {
                self.ready = true;
                self.step(LifecycleEvent::Ready);
            }
            self.serve(0);
            self.deliver(0, false);
            if let Some(deadline) = self.broker.deadline() {
                self.now_ms = self.now_ms.max(deadline);
                self.step(LifecycleEvent::Tick);
            }
        }
        panic!("{:?} after 400 rounds, offline {:?}", self.broker.phase(), self.controller.offline);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broker_unfences_when_ready_and_ends_with_reason(
        predecessor in any::<bool>(),
        operations in prop::collection::vec((0..24u8, any::<u8>()), 0..120),
    ) {
        let mut rig = Rig::new(predecessor);
        for operation in operations {
            rig.operate(operation);
            if rig.ended.is_some() {
                break;
            }
        }
        rig.quiesce();
    }
}
