//! Tests of the meaning of signals.

use super::{Action, Course, Event, Order};

const EVENTS: [Event; 5] =
    [Event::Hangup, Event::Terminate, Event::Interrupt, Event::Quit, Event::LimitReached];

#[test]
fn only_stop_signals_end_serving_broker() {
    let actions = EVENTS.map(|event| Course::default().on(event));
    let give = |order| Some(Action::Give(order));
    assert_eq!(
        actions,
        [give(Order::Reload), give(Order::Stop), give(Order::Stop), give(Order::DumpAndStop), None]
    );
}

#[test]
fn only_sigint_or_timeout_cuts_stop_short() {
    for first in [Event::Terminate, Event::Interrupt, Event::Quit] {
        let actions = EVENTS.map(|event| {
            let mut course = Course::default();
            course.on(first);
            course.on(event)
        });
        let ends = actions.map(|action| matches!(action, Some(Action::End(_))));
        assert_eq!(ends, [false, false, true, false, true], "after {first:?}");
        assert!(actions.iter().all(|action| !matches!(action, Some(Action::Give(_)))), "after {first:?}");
    }
}

#[test]
fn reloads_do_not_affect_a_later_stop() {
    let mut course = Course::default();
    for _ in 0..3 {
        assert_eq!(course.on(Event::Hangup), Some(Action::Give(Order::Reload)));
    }
    assert_eq!(course.on(Event::Interrupt), Some(Action::Give(Order::Stop)));
}
