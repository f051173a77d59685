//! Tests of client instances, as tables of requests and answers.

use levada_wire::Uuid;

use super::*;

const ID: Uuid = Uuid::from_bytes([7; 16]);

fn requested(interval_ms: i32) -> Requested {
    Requested { metrics: vec!["*".to_owned()], interval_ms }
}

fn at(now_ms: i64) -> Offer {
    Offer { instance_id: ID, version: 0, now_ms }
}

fn good() -> Push {
    let subscription_id = requested(1000).subscription_id(ID);
    Push { subscription_id, terminating: false, is_codec_known: true, is_too_large: false }
}

/// A request, and the time at which it comes.
enum Request {
    Get,
    Push(Push),
}

fn play(requests: Vec<(i64, Request, Option<PushRefusal>)>) {
    let mut instances = Instances::default();
    for (at_step, (now_ms, request, expected)) in requests.into_iter().enumerate() {
        let refused = match request {
            Request::Get => match instances.get(&at(now_ms), &requested(1000)) {
                Ok(_) => None,
                Err(GetRefusal::Throttled) => Some(PushRefusal::Throttled),
            },
            Request::Push(push) => instances.push(&at(now_ms), &push, || requested(1000)).err(),
        };
        assert_eq!(refused, expected, "step {at_step}");
    }
}

#[test]
fn requests_keep_to_the_interval() {
    play(vec![
        (5, Request::Get, None),
        (6, Request::Get, Some(PushRefusal::Throttled)),
        // The first push after a request for subscriptions may come early.
        (10, Request::Push(good()), None),
        (11, Request::Push(good()), Some(PushRefusal::Throttled)),
        (1009, Request::Push(good()), Some(PushRefusal::Throttled)),
        (1010, Request::Push(good()), None),
        (2009, Request::Get, Some(PushRefusal::Throttled)),
        (2010, Request::Get, None),
    ]);
}

#[test]
fn refused_push_may_request_subscription_immediately() {
    let wrong = Push { subscription_id: 1, ..good() };
    let unknown = Push { is_codec_known: false, ..good() };
    let large = Push { is_too_large: true, ..good() };
    play(vec![
        (0, Request::Push(wrong), Some(PushRefusal::UnknownSubscription)),
        (1, Request::Get, None),
        (2, Request::Get, Some(PushRefusal::Throttled)),
        (1000, Request::Push(unknown), Some(PushRefusal::UnsupportedCompression)),
        (1001, Request::Get, None),
        (3000, Request::Push(large), Some(PushRefusal::TooLarge)),
        (3001, Request::Get, Some(PushRefusal::Throttled)),
    ]);
}

#[test]
fn last_push_may_come_early_and_ends_pushes() {
    let last = Push { terminating: true, ..good() };
    play(vec![
        (0, Request::Push(good()), None),
        (1, Request::Push(last), None),
        (2000, Request::Push(last), Some(PushRefusal::Terminated)),
        (3000, Request::Push(good()), Some(PushRefusal::Terminated)),
        (4000, Request::Push(good()), None),
    ]);
}

#[test]
fn changed_subscriptions_replace_instances() {
    let mut instances = Instances::default();
    assert!(instances.get(&at(0), &requested(1000)).is_ok());
    let changed = Offer { version: 1, ..at(1) };
    assert!(instances.is_new(&changed));
    let id = instances.get(&changed, &requested(2000)).expect("the instance is new");
    assert_eq!(id, requested(2000).subscription_id(ID));
    let refused = instances.push(&Offer { version: 1, ..at(2) }, &good(), || unreachable!());
    assert_eq!(refused, Err(PushRefusal::UnknownSubscription));
}

#[test]
fn instances_end_with_connection_or_silence() {
    let mut instances = Instances::default();
    assert!(instances.get(&at(0), &requested(1000)).is_ok());
    instances.disconnected(ID);
    assert!(instances.get(&at(1), &requested(1000)).is_ok());
    instances.expire(60_000);
    assert_eq!(instances.len(), 1);
    instances.expire(60_001);
    assert!(instances.is_empty());
    assert!(instances.get(&at(60_002), &requested(100_000)).is_ok());
    // Three intervals.
    instances.expire(360_001);
    assert_eq!(instances.len(), 1);
    assert!(instances.is_new(&at(360_002)));
}

#[test]
fn invented_telemetry_instances_are_not_stored() {
    let mut instances = Instances::default();
    for number in 0..INSTANCES_MAX as u128 + 10 {
        let offer = Offer { instance_id: Uuid::from_bytes(number.to_be_bytes()), ..at(0) };
        assert!(instances.get(&offer, &requested(1000)).is_ok());
    }
    assert_eq!(instances.len(), INSTANCES_MAX);
    assert!(instances.is_new(&Offer { instance_id: Uuid::from_bytes(9_u128.to_be_bytes()), ..at(0) }));
}
