//! The fetching side of sessions against the serving side of this broker, and the choice of
//! threads.

use std::collections::BTreeSet;

use levada_base::Requester;
use levada_cluster::replication::fetcher::session::{Session, SessionAnswer};
use levada_wire::Uuid;
use levada_wire::fetch::FetchPartition;

use super::*;
use crate::fetch_session::{
    FetchSession, PartitionState, SessionPlan, SessionRequest, SessionTopic, Sessions,
};

const TOPIC: Uuid = Uuid::from_bytes([3; 16]);
const STATE: PartitionState =
    PartitionState { high_watermark: 5, log_start: 0, has_records: false, urgent: false, failed: false };

fn wants(index: i32, fetch_offset: i64) -> FetchPartition {
    FetchPartition {
        index,
        current_leader_epoch: 1,
        fetch_offset,
        last_fetched_epoch: 0,
        log_start_offset: 0,
        max_bytes: 1,
        replica_directory_id: Uuid::ZERO,
        high_watermark: i64::MAX,
    }
}

/// The next of a sequence of numbers that looks random.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// The partitions that the serving side reads for a request, and its response.
fn serve(
    sessions: &mut Sessions,
    request: &levada_cluster::replication::fetcher::session::SessionRequest,
) -> (BTreeSet<(i32, i64)>, SessionAnswer, Vec<PartitionKey>) {
    let named = |key: &PartitionKey| (SessionTopic::Id(key.0), key.1);
    let asked = SessionRequest { session_id: request.id, epoch: request.epoch, by_id: true };
    let wanted = || request.send.iter().map(|(key, one)| (named(key), one.clone())).collect();
    let forgotten: Vec<_> = request.forget.iter().map(named).collect();
    let all = |list: &[(PartitionKey, FetchPartition)]| {
        list.iter().map(|(_, one)| (one.index, one.fetch_offset)).collect::<BTreeSet<_>>()
    };
    match sessions.begin(asked, wanted, &forgotten, 0) {
        Err(error) => (BTreeSet::new(), SessionAnswer { error_code: error.code(), id: 0 }, Vec::new()),
        Ok(SessionPlan::Sessionless) => {
            (all(&request.send), SessionAnswer { error_code: 0, id: 0 }, Vec::new())
        }
        Ok(SessionPlan::Open) => {
            let told = request.send.iter().map(|(key, one)| (named(key), one.clone(), STATE)).collect();
            let mut id = 40;
            let random = || {
                id += 1;
                id
            };
            let id = sessions.open(&Requester::Broker, FetchSession::of(true, told), random, 0);
            let keys = request.send.iter().map(|(key, _)| *key).collect();
            (all(&request.send), SessionAnswer { error_code: 0, id }, keys)
        }
        Ok(SessionPlan::Continue(mut continued)) => {
            continued.take_partitions();
            let fetched = continued.wanted.iter().map(|(_, one)| (one.index, one.fetch_offset)).collect();
            continued.finish(&[]).unwrap();
            (fetched, SessionAnswer { error_code: 0, id: continued.session_id }, Vec::new())
        }
    }
}

#[test]
fn fetch_sessions_agree_with_full_requests() {
    for mut seed in 0..200 {
        let (mut client, mut server) = (Session::default(), Sessions::new(2));
        for _ in 0..60 {
            let mut wanted = BTreeSet::new();
            for index in 0..6 {
                if !next(&mut seed).is_multiple_of(3) {
                    wanted.insert((index, (next(&mut seed) % 3) as i64));
                }
            }
            let list = wanted.iter().map(|(index, offset)| ((TOPIC, *index), wants(*index, *offset)));
            let request = client.request(list.collect());
            if wanted.is_empty() && request.forget.is_empty() {
                continue;
            }
            match next(&mut seed) % 8 {
                // The request, or its response, is lost.
                0 => client.lost(),
                1 => {
                    serve(&mut server, &request);
                    client.lost();
                }
                // The leader has started again.
                2 => server = Sessions::new(2),
                _ => {}
            }
            let (fetched, answer, keys) = serve(&mut server, &request);
            if client.answered(answer, keys.iter()).is_ok() {
                assert_eq!(fetched, wanted, "{request:?}");
            } else {
                assert_eq!(client.request(Vec::new()).epoch, 0, "the next request opens a session");
            }
        }
    }
}

#[test]
fn partitions_of_topic_spread_over_fetcher_threads() {
    let used = |threads| (0..12).map(|index| thread_of(&(TOPIC, index), threads)).collect::<BTreeSet<_>>();
    assert_eq!([1, 3, 4].map(|threads| used(threads).len()), [1, 3, 4]);
}

fn in_sync(leader: i32) -> WorkerId {
    WorkerId { leader, is_in_sync: true, number: 0 }
}

#[test]
fn catching_up_replica_has_separate_fetcher_thread() {
    let mut state = State::default();
    let (fetch, catch_up) = (in_sync(7), WorkerId { is_in_sync: false, ..in_sync(7) });
    let idle = || Ok(Worker::idle());
    state.follow((TOPIC, 0), fetch, idle);
    state.follow((TOPIC, 1), catch_up, idle);
    let numbers = |state: &State| -> Vec<_> {
        state.workers.iter().map(|(id, worker)| (*id, worker.partitions)).collect()
    };
    assert_eq!(numbers(&state), vec![(catch_up, 1), (fetch, 1)]);
    // Once it has caught up, its former thread ends.
    state.follow((TOPIC, 1), fetch, idle);
    assert_eq!(numbers(&state), vec![(fetch, 2)]);
    assert_eq!(state.ending.len(), 1);
    // The other one falls behind.
    state.follow((TOPIC, 0), catch_up, idle);
    assert_eq!(numbers(&state), vec![(catch_up, 1), (fetch, 1)]);
}

#[test]
fn failed_fetcher_thread_start_is_retried() {
    let (mut state, partition, id) = (State::default(), (TOPIC, 0), in_sync(7));
    let fails = || Err(io::Error::from(io::ErrorKind::WouldBlock));
    state.follow(partition, id, fails);
    assert_eq!(state.pending, HashMap::from([(partition, id)]));
    assert!(state.placed.is_empty() && state.workers.is_empty());
    state.follow(partition, id, || Ok(Worker::idle()));
    assert!(state.pending.is_empty());
    assert_eq!((state.placed.get(&partition), state.workers[&id].partitions), (Some(&id), 1));
    // Another leader, whose thread cannot be started either; then none.
    state.follow(partition, in_sync(8), fails);
    assert_eq!((state.pending.get(&partition), state.workers.len()), (Some(&in_sync(8)), 0));
    state.forget(&partition);
    assert!(state.pending.is_empty());
}
