//! Requests and answers of a session, one by one.

use levada_wire::Uuid;

use super::*;

fn key(index: i32) -> PartitionKey {
    (Uuid::from_bytes([7; 16]), index)
}

fn asks(index: i32, fetch_offset: i64) -> (PartitionKey, FetchPartition) {
    let partition = FetchPartition {
        index,
        current_leader_epoch: 1,
        fetch_offset,
        last_fetched_epoch: -1,
        log_start_offset: 0,
        max_bytes: 10,
        replica_directory_id: Uuid::ZERO,
        high_watermark: i64::MAX,
    };
    (key(index), partition)
}

const fn answer(error_code: i16, id: i32) -> SessionAnswer {
    SessionAnswer { error_code, id }
}

/// A session 5 with partitions 0 and 1, whose next request has the number 1.
fn opened() -> Session {
    let mut session = Session::default();
    let request = session.request(vec![asks(0, 10), asks(1, 20)]);
    let both = vec![asks(0, 10), asks(1, 20)];
    assert_eq!(request, SessionRequest { id: 0, epoch: 0, send: both, forget: vec![] });
    session.answered(answer(0, 5), [key(0), key(1)].iter()).unwrap();
    session
}

#[test]
fn a_session_names_only_what_has_changed() {
    let mut session = opened();
    let request = session.request(vec![asks(0, 10), asks(1, 21), asks(2, 0)]);
    let changed = vec![asks(1, 21), asks(2, 0)];
    assert_eq!(request, SessionRequest { id: 5, epoch: 1, send: changed, forget: vec![] });
    session.answered(answer(0, 5), [].iter()).unwrap();
    let request = session.request(vec![asks(2, 0)]);
    assert_eq!(request, SessionRequest { id: 5, epoch: 2, send: vec![], forget: vec![key(0), key(1)] });
    session.answered(answer(0, 5), [key(2)].iter()).unwrap();
    assert_eq!(session.request(vec![]).forget, [key(2)]);
}

#[test]
fn a_leader_without_sessions_gets_full_requests() {
    let mut session = Session::default();
    for _ in 0..2 {
        let request = session.request(vec![asks(0, 10)]);
        assert_eq!(request, SessionRequest { id: 0, epoch: 0, send: vec![asks(0, 10)], forget: vec![] });
        session.answered(answer(0, 0), [key(0)].iter()).unwrap();
    }
}

#[test]
fn fetch_session_error_leads_to_full_request() {
    let extra = [key(0), key(9)];
    for (response, told, id) in [
        (answer(ErrorCode::FetchSessionIdNotFound.code(), 0), &[][..], 0),
        (answer(71, 0), &[], 5),
        (answer(0, 5), &extra, 5),
    ] {
        let mut session = opened();
        session.request(vec![asks(0, 10), asks(1, 20)]);
        session.answered(response, told.iter()).unwrap_err();
        let request = session.request(vec![asks(0, 10)]);
        assert_eq!(request, SessionRequest { id, epoch: 0, send: vec![asks(0, 10)], forget: vec![] });
    }
    let mut session = opened();
    session.request(vec![asks(0, 10)]);
    session.lost();
    assert_eq!(session.request(vec![asks(0, 10)]).epoch, 0);
}

#[test]
fn a_full_answer_has_every_partition() {
    for told in [&[key(0)][..], &[key(0), key(2)]] {
        let mut session = Session::default();
        session.request(vec![asks(0, 10), asks(1, 20)]);
        assert_eq!(session.answered(answer(0, 5), told.iter()), Err(SessionFault::Partitions));
        assert_eq!(session.request(vec![asks(0, 10)]).epoch, 0);
    }
}

#[test]
fn fetch_session_epoch_wraps_to_one() {
    let mut session = opened();
    session.epoch = i32::MAX;
    session.request(vec![asks(0, 10)]);
    session.answered(answer(0, 5), [].iter()).unwrap();
    assert_eq!(session.request(vec![asks(0, 10)]).epoch, 1);
}
