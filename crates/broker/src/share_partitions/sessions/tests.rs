//! Tests of `sessions`.

use std::net::{IpAddr, Ipv4Addr};

use levada_wire::Uuid;

use super::*;

const T: Uuid = Uuid::from_bytes([1; 16]);

fn key(index: i32) -> PartitionPlace {
    (T, index)
}

fn member(name: &str) -> MemberKey {
    MemberKey { group: "g".into(), member: name.into() }
}

fn owner(last: u8) -> Requester {
    Requester::at(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
}

fn opened(sessions: &mut ShareSessions, name: &str, partitions: &[PartitionPlace]) {
    assert_eq!(sessions.open(member(name), partitions, (1, &owner(1))), (Vec::new(), Ok(())));
}

#[test]
fn share_session_epochs_must_increase_by_one() {
    let mut sessions = ShareSessions::new(10);
    assert_eq!(sessions.proceed(("g", "a"), 1, (&[], &[])).unwrap_err(), ErrorCode::ShareSessionNotFound);
    opened(&mut sessions, "a", &[key(0), key(1)]);
    assert_eq!(sessions.proceed(("g", "a"), 2, (&[], &[])).unwrap_err(), ErrorCode::InvalidShareSessionEpoch);
    assert_eq!(sessions.proceed(("h", "a"), 1, (&[], &[])).unwrap_err(), ErrorCode::ShareSessionNotFound);
    let (_, session) = sessions.proceed(("g", "a"), 1, (&[key(2)], &[key(0)])).unwrap();
    assert_eq!(session.lock().partitions(), [key(1), key(2)]);
    assert!(session.lock().is_at(1));
    let (_, again) = sessions.proceed(("g", "a"), 2, (&[], &[])).unwrap();
    assert!(!again.lock().is_at(1), "a later request has come");
    assert_eq!(sessions.close(&member("a")).unwrap().1, [key(1), key(2)]);
    assert_eq!(sessions.close(&member("a")).unwrap_err(), ErrorCode::ShareSessionNotFound);
    assert!(!sessions.has_group("g") && sessions.connections.is_empty() && sessions.partitions == 0);
}

#[test]
fn share_session_epochs_wrap_to_one() {
    let mut sessions = ShareSessions::new(10);
    opened(&mut sessions, "a", &[]);
    sessions.groups["g"]["a"].session.lock().epoch = i32::MAX;
    sessions.proceed(("g", "a"), i32::MAX, (&[], &[])).unwrap();
    sessions.proceed(("g", "a"), 1, (&[], &[])).unwrap();
}

#[test]
fn responses_repeat_errors_and_new_partitions() {
    let mut sessions = ShareSessions::new(10);
    opened(&mut sessions, "a", &[key(0), key(1)]);
    let (_, session) = sessions.proceed(("g", "a"), 1, (&[key(2)], &[])).unwrap();
    let mut session = session.lock();
    assert!(!session.tell(key(0), false, false), "nothing new");
    assert!(session.tell(key(2), false, false), "it is in the session from now on");
    assert!(!session.tell(key(2), false, false));
    assert!(session.tell(key(1), false, true), "an error");
    assert!(session.tell(key(1), false, false), "the end of the error");
    assert!(session.tell(key(0), true, false), "records");
    assert_eq!(session.partitions(), [key(1), key(2), key(0)], "those with records come last");
    assert!(session.tell(key(9), false, false), "dropped meanwhile");
}

#[test]
fn sessions_end_with_their_connection() {
    let mut sessions = ShareSessions::new(10);
    opened(&mut sessions, "a", &[key(0)]);
    sessions.open(member("b"), &[key(1)], (2, &owner(1))).1.unwrap();
    // The member comes back over another connection, before the end of the first is noticed.
    sessions.open(member("a"), &[key(3)], (2, &owner(1))).1.unwrap();
    assert_eq!(sessions.close_connection(1), []);
    let mut closed = sessions.close_connection(2);
    closed.sort();
    assert_eq!(closed, [(member("a"), vec![key(3)]), (member("b"), vec![key(1)])]);
    assert_eq!((sessions.count, sessions.partitions), (0, 0));
    assert!(sessions.connections.is_empty());
}

#[test]
fn full_session_table_evicts_greedy_clients() {
    let mut sessions = ShareSessions::new(3);
    for name in ["a", "b", "c"] {
        opened(&mut sessions, name, &[key(0)]);
    }
    let refused = (Vec::new(), Err(ErrorCode::ShareSessionLimitReached));
    assert_eq!(sessions.open(member("d"), &[], (1, &owner(1))), refused, "to the greedy");
    sessions.proceed(("g", "a"), 1, (&[], &[])).unwrap();
    let opened = sessions.open(member("x"), &[], (2, &owner(2)));
    assert_eq!(opened, (vec![(member("b"), vec![key(0)])], Ok(())), "the least recently used");
    let again = sessions.open(member("y"), &[], (2, &owner(2)));
    assert_eq!(again, refused, "two and one become one and two");
    assert_eq!(sessions.count, 3);
}

#[test]
fn partitions_of_all_sessions_are_bounded() {
    let mut sessions = ShareSessions::new(3);
    let many: Vec<PartitionPlace> = (0..PARTITIONS_MAX as i32).map(key).collect();
    opened(&mut sessions, "a", &many);
    let (_, refused) = sessions.open(member("b"), &[key(0)], (1, &owner(1)));
    assert_eq!(refused.unwrap_err(), ErrorCode::ShareSessionLimitReached);
    let refused = sessions.proceed(("g", "a"), 1, (&[key(-1)], &[])).unwrap_err();
    assert_eq!(refused, ErrorCode::ShareSessionLimitReached);
    opened(&mut sessions, "a", &[key(0), key(0)]);
    assert_eq!(sessions.partitions, 1, "a partition counts once");
}

#[test]
fn client_with_all_partitions_loses_a_session() {
    let mut sessions = ShareSessions::new(10);
    let quarter = PARTITIONS_MAX as i32 / 4;
    let many: Vec<PartitionPlace> = (0..quarter).map(key).collect();
    for name in ["a", "b", "c", "d"] {
        opened(&mut sessions, name, &many);
    }
    sessions.proceed(("g", "a"), 1, (&[], &[])).unwrap();
    let (evicted, opened) = sessions.open(member("x"), &many[1..], (2, &owner(2)));
    assert_eq!((evicted, opened), (vec![(member("b"), many.clone())], Ok(())));
    let (evicted, opened) = sessions.open(member("y"), &many, (2, &owner(2)));
    assert_eq!((evicted.len(), opened), (1, Ok(())), "three quarters and one");
    let (evicted, refused) = sessions.open(member("z"), &many, (2, &owner(2)));
    assert_eq!((evicted, refused), (Vec::new(), Err(ErrorCode::ShareSessionLimitReached)), "one half each");
}
