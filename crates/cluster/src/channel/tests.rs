//! Tests of `channel`.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::quorum::Address;

fn node(id: i32) -> Target {
    Target { node: Some(id), address: Address { host: "c".into(), port: 9093 } }
}

fn connected() -> Channel {
    let mut channel = Channel::new(ChannelLimits::default());
    channel.step(ChannelEvent::Controller(Some(node(1))), 0);
    channel
}

#[test]
fn each_request_class_allows_one_in_flight() {
    let mut channel = connected();
    assert_eq!(
        channel.step(ChannelEvent::Submit(1, RequestClass::Isr), 0),
        [ChannelAction::Send(1, RequestClass::Isr, node(1))]
    );
    assert!(channel.step(ChannelEvent::Submit(2, RequestClass::Isr), 0).is_empty());
    let actions = channel.step(ChannelEvent::Submit(3, RequestClass::ProducerIds), 0);
    assert_eq!(actions, [ChannelAction::Send(3, RequestClass::ProducerIds, node(1))]);
    let actions = channel.step(ChannelEvent::Answered(1), 5);
    assert_eq!(actions, [ChannelAction::Finish(1), ChannelAction::Send(2, RequestClass::Isr, node(1))]);
    assert!(channel.step(ChannelEvent::Answered(1), 6).is_empty(), "answered once");
    assert_eq!(channel.deadline(), None);
}

#[test]
fn a_request_follows_the_controller() {
    let mut channel = connected();
    channel.step(ChannelEvent::Submit(1, RequestClass::Directories), 0);
    assert!(channel.step(ChannelEvent::NotController(1), 10).is_empty());
    assert_eq!(channel.deadline(), Some(60));
    assert_eq!(
        channel.step(ChannelEvent::Tick, 60),
        [ChannelAction::Send(1, RequestClass::Directories, node(1))],
        "the same node again"
    );
    channel.step(ChannelEvent::Lost(1), 70);
    assert_eq!(channel.deadline(), Some(170), "the pause doubles");
    let actions = channel.step(ChannelEvent::Controller(Some(node(2))), 80);
    assert_eq!(
        actions,
        [ChannelAction::Send(1, RequestClass::Directories, node(2))],
        "another controller is asked immediately"
    );
    channel.step(ChannelEvent::Controller(None), 90);
    assert!(channel.step(ChannelEvent::Lost(1), 100).is_empty());
    assert_eq!(channel.deadline(), None, "there is nobody to ask");
}

#[test]
fn forwarded_requests_have_a_deadline_and_a_limit() {
    let mut channel = Channel::new(ChannelLimits { forwarded: 3, ..ChannelLimits::default() });
    for ticket in 1..4 {
        assert!(channel.step(ChannelEvent::Submit(ticket, RequestClass::Forwarded), 10).is_empty());
    }
    let actions = channel.step(ChannelEvent::Submit(4, RequestClass::Forwarded), 10);
    assert_eq!(actions, [ChannelAction::Refuse(4)]);
    assert_eq!(channel.deadline(), Some(20_010));
    assert!(channel.step(ChannelEvent::Submit(5, RequestClass::Isr), 20_009).is_empty());
    let actions = channel.step(ChannelEvent::Tick, 20_010);
    assert_eq!(actions, [1, 2, 3].map(ChannelAction::Expire));
    let actions = channel.step(ChannelEvent::Controller(Some(node(1))), 999_999);
    assert_eq!(
        actions,
        [ChannelAction::Send(5, RequestClass::Isr, node(1))],
        "ISR changes wait as long as it takes"
    );
}

/// The driver's and the peer's side of a channel.
struct Script {
    channel: Channel,
    now_ms: i64,
    classes: BTreeMap<u64, RequestClass>,
    in_flight: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    /// Order in which the responses of a kind with one request in flight came.
    finished: BTreeMap<u8, Vec<u64>>,
}

impl Script {
    fn step(&mut self, event: ChannelEvent) -> Result<(), TestCaseError> {
        for action in self.channel.step(event, self.now_ms) {
            match action {
                ChannelAction::Send(ticket, class, _) => {
                    prop_assert!(!self.ended.contains(&ticket), "{ticket} after its end");
                    prop_assert_eq!(class, self.classes[&ticket]);
                    prop_assert!(self.in_flight.insert(ticket), "{ticket} twice in flight");
                }
                ChannelAction::Finish(ticket) => {
                    prop_assert!(self.ended.insert(ticket), "{ticket} ends twice");
                    self.finished.entry(self.classes[&ticket] as u8).or_default().push(ticket);
                }
                ChannelAction::Expire(ticket) => {
                    prop_assert_eq!(self.classes[&ticket], RequestClass::Forwarded);
                    prop_assert!(self.ended.insert(ticket), "{ticket} ends twice");
                    self.in_flight.remove(&ticket);
                }
                ChannelAction::Refuse(ticket) => prop_assert!(false, "{ticket} is refused"),
            }
        }
        for class in RequestClass::ALL {
            let of_class = self.in_flight.iter().filter(|ticket| self.classes[ticket] == class).count();
            prop_assert!(of_class <= class.in_flight_max());
        }
        prop_assert!(self.channel.deadline().is_none_or(|deadline| deadline > self.now_ms), "busy");
        Ok(())
    }

    fn pick(&mut self, which: usize) -> Option<u64> {
        let ticket = self.in_flight.iter().nth(which % self.in_flight.len().max(1)).copied()?;
        self.in_flight.remove(&ticket);
        Some(ticket)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_of_each_class_complete_once_in_order(
        operations in prop::collection::vec((0..12u8, 0..40usize), 0..250),
    ) {
        let mut script = Script {
            channel: Channel::new(ChannelLimits::default()),
            now_ms: 0,
            classes: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            ended: BTreeSet::new(),
            finished: BTreeMap::new(),
        };
        for (operation, which) in operations {
            match operation {
                0..3 => {
                    let (ticket, class) = (script.classes.len() as u64, RequestClass::ALL[which % 4]);
                    script.classes.insert(ticket, class);
                    script.step(ChannelEvent::Submit(ticket, class))?;
                }
                3..6 => if let Some(ticket) = script.pick(which) {
                    script.step(ChannelEvent::Answered(ticket))?;
                },
                6 => if let Some(ticket) = script.pick(which) {
                    script.step(ChannelEvent::NotController(ticket))?;
                },
                7 => if let Some(ticket) = script.pick(which) {
                    script.step(ChannelEvent::Lost(ticket))?;
                },
                8 => script.step(ChannelEvent::Controller((which > 5).then(|| node(which as i32))))?,
                9 => script.step(ChannelEvent::Answered(which as u64 + 1000))?,
                _ => {
                    script.now_ms += which as i64 * if operation == 10 { 10 } else { 1000 };
                    script.step(ChannelEvent::Tick)?;
                }
            }
        }
        script.step(ChannelEvent::Controller(Some(node(0))))?;
        while script.ended.len() < script.classes.len() {
            match script.pick(0) {
                Some(ticket) => script.step(ChannelEvent::Answered(ticket))?,
                None => {
                    script.now_ms = script.channel.deadline().expect("something waits");
                    script.step(ChannelEvent::Tick)?;
                }
            }
        }
        for (class, tickets) in &script.finished {
            prop_assert!(*class == RequestClass::Forwarded as u8 || tickets.is_sorted(), "{tickets:?}");
        }
    }
}
