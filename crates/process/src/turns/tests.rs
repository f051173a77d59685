//! Tests of turns: which requester gets the next place, and the effect of abandoned requests.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use levada_testing::{scaled, seeds};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::*;

fn user(name: &str) -> Requester {
    Requester::User(name.into())
}

/// The result of a future that has nothing to wait for.
fn now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

#[test]
fn new_requester_is_next_despite_queued_requests() {
    let turns = Turns::of(2);
    let mut held: VecDeque<Turn> =
        (0..2).map(|_| turns.try_take(user("greedy")).expect("nobody else wants a place")).collect();
    let mut greedy: Vec<_> = (0..100).map(|_| Box::pin(turns.take(user("greedy")))).collect();
    assert!(greedy.iter_mut().all(|waits| now(waits.as_mut()).is_none()));
    let mut newcomer = pin!(turns.take(user("newcomer")));
    assert!(now(newcomer.as_mut()).is_none());
    held.pop_front();
    let _turn = now(newcomer.as_mut()).expect("the next place is the newcomer's");
    assert!(greedy.iter_mut().all(|waits| now(waits.as_mut()).is_none()));
    held.pop_front();
    assert!(now(greedy[0].as_mut()).is_some(), "requests of one requester keep their order");
}

#[test]
fn requester_has_half_of_the_client_places() {
    let turns = Turns::halved(4);
    let greedy: Vec<_> = (0..9).map_while(|_| turns.try_take(user("greedy"))).collect();
    assert_eq!(greedy.len(), 2);
    let mut waits = pin!(turns.take(user("greedy")));
    assert!(now(waits.as_mut()).is_none());
    let others = [turns.try_take(user("a")), turns.try_take(user("b"))];
    assert!(others.iter().all(Option::is_some), "the other half is free for others");
    drop(others);
    assert!(now(waits.as_mut()).is_none(), "a free place beyond the share stays free");
    drop(greedy);
    assert!(now(waits.as_mut()).is_some());
}

#[test]
fn abandoned_request_leaves_queue_or_returns_its_place() {
    let turns = Turns::of(1);
    let held = turns.try_take(user("a"));
    let mut late = Box::pin(turns.take(user("b")));
    let mut gone = Box::pin(turns.take(user("b")));
    assert!(now(gone.as_mut()).is_none() && now(late.as_mut()).is_none());
    drop(gone);
    drop(held);
    // The last waiter has its place without having been woken.
    drop(late);
    assert!(turns.try_take(user("c")).is_some());
}

#[test]
fn excess_queued_requests_of_one_requester_are_refused() {
    let turns = Turns::of(1);
    let _held = turns.try_take(user("a"));
    let mut waits = pin!(turns.take_if_few(user("b"), 1));
    assert!(now(waits.as_mut()).is_none());
    assert_eq!(now(pin!(turns.take_if_few(user("b"), 1))).map(|turn| turn.is_err()), Some(true));
    assert!(now(pin!(turns.take_if_few(user("c"), 1))).is_none());
}

#[tokio::test]
async fn work_of_disconnected_client_keeps_its_place() {
    let turns = Turns::of(1);
    let (release, released) = mpsc::channel::<()>();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    {
        let mut work = pin!(turns.run(user("a"), move || {
            begun.send(()).unwrap();
            released.recv().unwrap_err()
        }));
        tokio::select! {
            _ = &mut work => panic!("the work waits"),
            begun = begins.recv() => begun.unwrap(),
        }
    }
    assert!(turns.try_take(user("a")).is_none(), "the client is gone, but the work goes on");
    drop(release);
    turns.take(user("a")).await;
}

/// Random requests: no more places than there are, none beyond a share, none free that a request
/// could have, and the next place for one of those with the fewest.
#[test]
fn places_are_shared_fairly_in_random_histories() {
    for seed in seeds(scaled(300)) {
        let mut random = StdRng::seed_from_u64(seed);
        let places = random.random_range(1..6);
        let share = random.random_range(1..=places);
        let mut line = Line::new(places, share);
        let names: Vec<_> = (0..random.random_range(1..5)).map(|name| user(&name.to_string())).collect();
        let mut taken: Vec<Requester> = Vec::new();
        let mut waiting: Vec<(u64, Requester)> = Vec::new();
        for _ in 0..200 {
            let requester = names[random.random_range(0..names.len())].clone();
            match random.random_range(0..5) {
                0 | 1 => match line.enter(&requester, 8, ()) {
                    Entry::Place => taken.push(requester),
                    Entry::Waits(ticket) => waiting.push((ticket, requester)),
                    Entry::Full => {
                        assert_eq!(waiting.iter().filter(|(_, other)| *other == requester).count(), 8);
                    }
                },
                2 | 3 if !taken.is_empty() => {
                    let gone = taken.swap_remove(random.random_range(0..taken.len()));
                    let has =
                        |taken: &[Requester], one: &Requester| taken.iter().filter(|t| *t == one).count();
                    let could =
                        waiting.iter().map(|(_, one)| has(&taken, one)).filter(|count| *count < share);
                    let fewest = could.min();
                    let next = line.leave(&gone).map(|(next, ())| next);
                    assert_eq!(next.as_ref().map(|next| has(&taken, next)), fewest, "seed {seed}");
                    if let Some(next) = next {
                        let at = waiting.iter().position(|(_, one)| *one == next).expect("it waits");
                        waiting.remove(at);
                        taken.push(next);
                    }
                }
                _ if !waiting.is_empty() => {
                    let (ticket, gone) = waiting.remove(random.random_range(0..waiting.len()));
                    line.give_up(&gone, ticket);
                }
                _ => {}
            }
            assert!(taken.len() <= places, "seed {seed}");
            for name in &names {
                let has = taken.iter().filter(|one| *one == name).count();
                assert!(has == line.has(name) && has <= share, "seed {seed}");
                let waits = waiting.iter().any(|(_, one)| one == name);
                assert!(!waits || taken.len() == places || has == share, "a place is free, seed {seed}");
            }
        }
    }
}
