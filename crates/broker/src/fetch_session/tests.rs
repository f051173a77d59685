//! The rules of KIP-227, case by case.

use super::*;

fn key(index: i32) -> PartitionKey {
    (SessionTopic::Name("t".into()), index)
}

fn wanted(index: i32, fetch_offset: i64) -> (PartitionKey, FetchPartition) {
    let partition = FetchPartition {
        index,
        current_leader_epoch: -1,
        fetch_offset,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        max_bytes: 1000,
        replica_directory_id: Uuid::ZERO,
        high_watermark: i64::MAX,
    };
    (key(index), partition)
}

const QUIET: PartitionState =
    PartitionState { high_watermark: 10, log_start: 0, has_records: false, urgent: false, failed: false };

fn user(name: &str) -> Requester {
    Requester::User(name.into())
}

/// Opens a session for partitions 0 up to `count`, as the first response said nothing new.
fn open(sessions: &mut Sessions, count: i32, now_ms: i64) -> i32 {
    open_for(&user("anybody"), sessions, count, now_ms)
}

fn open_for(owner: &Requester, sessions: &mut Sessions, count: i32, now_ms: i64) -> i32 {
    let told = (0..count).map(|index| {
        let (key, wanted) = wanted(index, 10);
        (key, wanted, QUIET)
    });
    let mut next = sessions.sessions.keys().max().copied().unwrap_or(0);
    let next_id = || {
        next += 1;
        next
    };
    sessions.open(owner, FetchSession::of(false, told.collect()), next_id, now_ms)
}

fn go_on(
    sessions: &mut Sessions,
    (session_id, epoch): (i32, i32),
    changed: Vec<(PartitionKey, FetchPartition)>,
    forgotten: &[PartitionKey],
) -> Result<SessionPlan, ErrorCode> {
    sessions.begin(SessionRequest { session_id, epoch, by_id: false }, || changed, forgotten, 0)
}

fn continued(plan: Result<SessionPlan, ErrorCode>) -> Continued {
    match plan {
        Ok(SessionPlan::Continue(mut continued)) => {
            continued.take_partitions();
            continued
        }
        other => panic!("{other:?}"),
    }
}

fn indexes(continued: &Continued) -> Vec<i32> {
    continued.wanted.iter().map(|((_, index), _)| *index).collect()
}

#[test]
fn request_epoch_opens_continues_or_closes_session() {
    let mut sessions = Sessions::new(10);
    assert!(matches!(go_on(&mut sessions, (0, 0), vec![], &[]), Ok(SessionPlan::Open)));
    assert!(matches!(go_on(&mut sessions, (0, -1), vec![], &[]), Ok(SessionPlan::Sessionless)));
    let unknown = go_on(&mut sessions, (5, 1), vec![], &[]).unwrap_err();
    assert_eq!(unknown, ErrorCode::FetchSessionIdNotFound);

    let id = open(&mut sessions, 2, 0);
    let too_new = go_on(&mut sessions, (id, 2), vec![], &[]).unwrap_err();
    assert_eq!(too_new, ErrorCode::InvalidFetchSessionEpoch);
    let by_id = SessionRequest { session_id: id, epoch: 1, by_id: true };
    let mixed = sessions.begin(by_id, Vec::new, &[], 0).unwrap_err();
    assert_eq!(mixed, ErrorCode::FetchSessionTopicIdError);
    // Neither used the epoch up.
    assert_eq!(indexes(&continued(go_on(&mut sessions, (id, 1), vec![], &[]))), [0, 1]);
    assert_eq!(go_on(&mut sessions, (id, 1), vec![], &[]).unwrap_err(), ErrorCode::InvalidFetchSessionEpoch);

    // A request that closes it, and one that takes everything out of it.
    assert!(matches!(go_on(&mut sessions, (id, -1), vec![], &[]), Ok(SessionPlan::Sessionless)));
    assert_eq!(go_on(&mut sessions, (id, 2), vec![], &[]).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
    let id = open(&mut sessions, 1, 0);
    assert!(matches!(go_on(&mut sessions, (id, 1), vec![], &[key(0)]), Ok(SessionPlan::Sessionless)));
    assert_eq!(go_on(&mut sessions, (id, 2), vec![], &[]).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
}

#[test]
fn fetch_session_returns_changes_and_reorders_partitions() {
    let mut sessions = Sessions::new(10);
    let id = open(&mut sessions, 3, 0);
    let turn = continued(go_on(&mut sessions, (id, 1), vec![wanted(1, 11), wanted(9, 0)], &[key(2)]));
    assert_eq!(indexes(&turn), [0, 1, 9]);
    assert_eq!(turn.wanted[1].1.fetch_offset, 11);
    let answer = |seen: [PartitionState; 3]| -> Vec<_> { [0, 1, 9].into_iter().map(key).zip(seen).collect() };
    // Partition 9 is new to the session: the client does not know its end.
    assert_eq!(turn.finish(&answer([QUIET, QUIET, QUIET])), Ok(vec![false, false, true]));

    let with_data = PartitionState { has_records: true, ..QUIET };
    let turn = continued(go_on(&mut sessions, (id, 2), vec![], &[]));
    assert_eq!(turn.finish(&answer([with_data, QUIET, QUIET])), Ok(vec![true, false, false]));
    let turn = continued(go_on(&mut sessions, (id, 3), vec![], &[]));
    assert_eq!(indexes(&turn), [1, 9, 0]);

    // Each of these is sent; after an error the former answer counts as changed.
    for (news, again) in [
        (PartitionState { high_watermark: 11, ..QUIET }, false),
        (PartitionState { high_watermark: 11, log_start: 3, ..QUIET }, false),
        (PartitionState { high_watermark: 11, log_start: 3, urgent: true, ..QUIET }, true),
        (PartitionState { high_watermark: -1, log_start: -1, failed: true, ..QUIET }, true),
    ] {
        assert_eq!(turn.finish(&[(key(1), news)]), Ok(vec![true]), "{news:?}");
        assert_eq!(turn.finish(&[(key(1), news)]), Ok(vec![again]), "{news:?} again");
    }
    assert_eq!(turn.finish(&[(key(1), QUIET)]), Ok(vec![true]));
    // A request that came meanwhile has used the epoch.
    continued(go_on(&mut sessions, (id, 4), vec![], &[]));
    assert_eq!(turn.finish(&[(key(1), QUIET)]), Err(ErrorCode::InvalidFetchSessionEpoch));
}

#[test]
fn busy_fetch_session_does_not_block_requests() {
    let mut sessions = Sessions::new(10);
    let (one, other) = (open(&mut sessions, 2, 0), open(&mut sessions, 2, 0));
    let turn = continued(go_on(&mut sessions, (one, 1), vec![], &[]));
    let reading = turn.session.lock();
    continued(go_on(&mut sessions, (other, 1), vec![], &[]));
    let late = go_on(&mut sessions, (one, 2), vec![], &[]).unwrap_err();
    assert_eq!(late, ErrorCode::InvalidFetchSessionEpoch);
    drop(reading);
    continued(go_on(&mut sessions, (one, 2), vec![], &[]));
}

#[test]
fn full_session_cache_evicts_idle_and_small() {
    let mut sessions = Sessions::new(2);
    let (small, large) = (open(&mut sessions, 1, 0), open(&mut sessions, 5, 0));
    // Both are young: there is no room.
    assert_eq!(open(&mut sessions, 9, EVICTION_MS), 0);
    // Old, but in use: a larger one takes the place of the smallest.
    let asked = |session_id| SessionRequest { session_id, epoch: 1, by_id: false };
    for id in [small, large] {
        continued(sessions.begin(asked(id), Vec::new, &[], EVICTION_MS + 1));
    }
    assert_eq!(open(&mut sessions, 1, EVICTION_MS + 1), 0);
    let third = open(&mut sessions, 2, EVICTION_MS + 1);
    assert_ne!(third, 0);
    assert!(!sessions.sessions.contains_key(&small));
    // Idle for long: it gives way to any new session.
    assert_ne!(open(&mut sessions, 1, 2 * EVICTION_MS + 2), 0);
    assert_eq!(sessions.sessions.len(), 2);
    assert_eq!(Sessions::new(0).open(&user("anybody"), FetchSession::of(false, Vec::new()), || 7, 0), 0);
}

#[test]
fn fetch_session_epoch_restarts_at_one() {
    assert_eq!((next_epoch(0), next_epoch(7), next_epoch(i32::MAX)), (1, 8, 1));
}

#[test]
fn fetch_sessions_bound_their_partitions() {
    let mut sessions = Sessions::new(10);
    let most = 5;
    let each = bytes_of(&key(0));
    sessions.bytes_max = 5 * each;
    assert_eq!(open(&mut sessions, most + 1, 0), 0);
    let first = open(&mut sessions, most - 1, 0);
    let second = open(&mut sessions, 1, 0);
    assert!(first > 0 && second > 0);
    assert_eq!(open(&mut sessions, 1, 0), 0, "nothing is left, and nothing gives way yet");
    let grown = go_on(&mut sessions, (second, 1), vec![wanted(1, 0)], &[]).unwrap_err();
    assert_eq!(grown, ErrorCode::FetchSessionIdNotFound);
    assert!(open(&mut sessions, 1, 0) > 0, "the session that grew has made room");
    // Sessions that were idle for long are evicted, as many as necessary.
    assert!(open(&mut sessions, most, EVICTION_MS + 1) > 0);
    assert_eq!((sessions.sessions.len(), sessions.bytes), (1, 5 * each));
}

#[test]
fn greedy_client_loses_sessions_to_others() {
    let (eve, bob) = (user("eve"), user("bob"));
    for (slots, partitions) in [(8, 1), (1000, 10)] {
        let mut sessions = Sessions::new(slots);
        sessions.bytes_max = 80 * bytes_of(&key(0));
        for _ in 0..8 {
            assert_ne!(open_for(&eve, &mut sessions, partitions, 0), 0, "all is free for one client");
        }
        assert_eq!(open_for(&eve, &mut sessions, partitions, 0), 0);
        for _ in 0..4 {
            assert_ne!(open_for(&bob, &mut sessions, partitions, 0), 0);
        }
        assert_eq!(open_for(&bob, &mut sessions, partitions, 0), 0, "both have as much");
        assert_eq!(open_for(&eve, &mut sessions, partitions, 0), 0);
        let of_eve = sessions.sessions.values().filter(|stored| stored.owner == eve).count();
        assert_eq!((of_eve, sessions.sessions.len()), (4, 8));
        assert_ne!(open_for(&user("third"), &mut sessions, partitions, 0), 0);
    }
}

#[test]
fn topic_names_count_as_session_memory() {
    let mut sessions = Sessions::new(1000);
    let mut opened = 0;
    for number in 0..10_000 {
        let (_, wanted) = wanted(0, 0);
        let name = format!("{number:032767}");
        let told = vec![((SessionTopic::Name(name.into()), 0), wanted, QUIET)];
        if sessions.open(&user("anybody"), FetchSession::of(false, told), || number + 1, 0) == 0 {
            break;
        }
        opened += 1;
    }
    assert!(opened > 100 && opened * 32_767 <= BYTES_MAX, "{opened} sessions with names of 32 767 bytes");
    assert!(sessions.bytes <= BYTES_MAX);
}

#[test]
fn idle_sessions_end() {
    let mut sessions = Sessions::new(10);
    let (idle, used) = (open(&mut sessions, 2, 0), open(&mut sessions, 2, 0));
    let both = sessions.bytes;
    sessions.begin(SessionRequest { session_id: used, epoch: 1, by_id: false }, Vec::new, &[], 1).unwrap();
    sessions.end_idle(IDLE_MS);
    assert_eq!(sessions.sessions.len(), 2);
    sessions.end_idle(IDLE_MS + 1);
    assert!(sessions.sessions.contains_key(&used) && !sessions.sessions.contains_key(&idle));
    assert_eq!(sessions.bytes * 2, both);
    sessions.end_idle(IDLE_MS + 2);
    assert!(sessions.sessions.is_empty() && sessions.idle.is_empty() && sessions.bytes == 0);
}
