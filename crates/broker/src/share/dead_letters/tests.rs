//! Rounds of dead letters, without a broker.

use levada_coordination::share_partition::DeadLetterReason;
use levada_wire::error_code::ErrorCode;

use super::*;

fn letter(first: i64, last: i64) -> DeadLetter {
    DeadLetter { first, last, delivery_count: 1, reason: DeadLetterReason::Rejected }
}

#[test]
fn send_round_reports_each_dead_letter_once() {
    let mut round = Round::new(vec![letter(0, 4), letter(6, 6), letter(8, 9)]);
    assert!(!round.is_over() && round.take_done().is_empty());
    round.place = Place { letter: 1, offset: 6 };
    assert_eq!(round.take_done(), [(0, 4)]);
    round.place = Place { letter: 2, offset: 9 };
    assert_eq!(round.take_done(), [(6, 6)]);
    assert_eq!(round.give_up(), 1, "the first record of the last one is written");
    assert!(round.is_over());
    assert_eq!(round.take_done(), [(8, 9)]);
    assert!(round.take_done().is_empty());
}

#[test]
fn whole_send_rounds_may_be_abandoned() {
    let mut round = Round::new(vec![letter(3, 5), letter(7, 7)]);
    assert_eq!(round.give_up(), 4);
    assert_eq!(round.take_done(), [(3, 5), (7, 7)]);
}

#[test]
fn only_transient_faults_are_retried() {
    let lasting = [
        Fault::NoTopic("g".to_owned()),
        Fault::Name { topic: "t".to_owned(), prefix: "dlq.".to_owned() },
        Fault::OwnTopic("t".to_owned()),
        Fault::NotEnabled("t".to_owned()),
        Fault::Missing("t".to_owned()),
        Fault::Refused(ErrorCode::MessageTooLarge),
        Fault::Refused(ErrorCode::TopicAuthorizationFailed),
        Fault::Refused(ErrorCode::InvalidRecord),
    ];
    assert!(lasting.iter().all(|fault| !fault.is_transient()));
    let passing = [
        Fault::BeingCreated("t".to_owned()),
        Fault::Leaderless("t".to_owned(), 0),
        Fault::Unreachable(2),
        Fault::Refused(ErrorCode::NotLeaderOrFollower),
        Fault::Refused(ErrorCode::NotEnoughReplicas),
        Fault::Refused(ErrorCode::RequestTimedOut),
    ];
    assert!(passing.iter().all(Fault::is_transient));
}
