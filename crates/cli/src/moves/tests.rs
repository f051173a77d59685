//! Tests of plans in files, of their checks, of throttles and of progress.

mod executed;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::progress::Sample;
use super::*;
use crate::layout::{Member, Placed};
use crate::settings::Change;

fn one(place: (&str, i32), from: &[i32], to: &[i32]) -> Move {
    Move {
        topic: place.0.to_owned(),
        partition: place.1,
        from: from.to_vec(),
        to: to.to_vec(),
        bytes: Some(100),
    }
}

/// Brokers 1 to 4, of which 4 is fenced, and the partition clicks/0 on 1 and 2.
fn layout() -> Layout {
    let member = |id| (id, Member { fenced: Some(id == 4), ..Member::default() });
    let placed = Placed { leader: Some(1), replicas: vec![1, 2], in_sync: vec![1, 2], ..Placed::default() };
    Layout {
        brokers: (1..=4).map(member).collect(),
        partitions: BTreeMap::from([(("clicks".to_owned(), 0), placed)]),
    }
}

#[test]
fn plans_are_read_in_both_forms() {
    let layout = layout();
    let expected = vec![Move { bytes: None, ..one(("clicks", 0), &[1, 2], &[2, 3]) }];
    for text in [
        r#"{"version":1,"partitions":[{"topic":"clicks","partition":0,"replicas":[2,3],"log_dirs":["any","any"]}]}"#,
        r#"{"executed":false,"complete":null,"moves":[{"topic":"clicks","partition":0,"from":[1,2],"to":[2,3],"bytes":7}]}"#,
    ] {
        assert_eq!(plan::parse(text, &layout), Ok(expected.clone()), "{text}");
    }
    let back = plan::way_back(&expected);
    assert_eq!(plan::parse(&back, &layout), Ok(Vec::new()), "nothing has moved: {back}");
}

#[test]
fn senseless_move_plans_are_refused() {
    fn check(entries: &str, expected: &str) {
        let refused = plan::parse(&format!(r#"{{"moves":[{entries}]}}"#), &layout()).unwrap_err();
        assert!(refused.contains(expected), "{entries}: {refused}");
    }
    let to = |replicas: &str| format!(r#"{{"topic":"clicks","partition":0,"to":[{replicas}]}}"#);
    check(&format!("{},{}", to("3"), to("2")), "clicks/0 is named twice");
    check(r#"{"topic":"clicks","partition":7,"to":[1]}"#, "there is no partition clicks/7");
    check(r#"{"topic":"clicks","partition":0,"from":[3],"to":[1]}"#, "has 1,2 now; make a new plan");
    check(r#"{"topic":"clicks","partition":0,"to":[1],"log_dirs":["/d"]}"#, "only \"any\"");
    check(r#"{"topic":"clicks"}"#, "expected {\"partitions\"");
    assert!(plan::parse("", &layout()).is_err());
}

#[test]
fn targets_are_distinct_brokers_that_serve() {
    fn check(to: &[i32], expected: Option<&str>) {
        let checked = checks::targets(&layout(), &one(("clicks", 0), &[1, 2], to));
        let said = checked.err().map(|failure| failure.line().to_owned());
        assert_eq!(said.is_some(), expected.is_some(), "{to:?}: {said:?}");
        assert!(said.is_none_or(|said| said.contains(expected.unwrap())), "{to:?}");
    }
    check(&[3, 1], None);
    check(&[], Some("is empty"));
    check(&[3, 3], Some("names a broker twice"));
    check(&[3, 9], Some("the cluster has no broker 9"));
    check(&[1, 4], Some("broker 4 is fenced"));
    let stays = one(("clicks", 0), &[4, 2], &[4, 3]);
    assert!(checks::targets(&layout(), &stays).is_ok(), "a fenced broker keeps its replica");
}

#[test]
fn fewer_replicas_than_min_insync_are_refused() {
    fn check(to: &[i32], least: usize, is_allowed: bool) {
        let checked = checks::enough(&one(("clicks", 0), &[1, 2, 3], to), least);
        assert_eq!(checked.is_ok(), is_allowed, "{to:?} {least}: {checked:?}");
    }
    check(&[1, 2], 2, true);
    check(&[1], 2, false);
    check(&[1], 1, true);
    check(&[4, 5, 6], 4, true);
}

#[test]
fn loss_of_replicas_is_told() {
    let told = |to: &[i32], least| {
        let least = BTreeMap::from([("clicks".to_owned(), least)]);
        checks::fewer(&[one(("clicks", 0), &[1, 2, 3], to)], &least)
    };
    assert_eq!(told(&[4, 5, 6], 2), None);
    assert_eq!(told(&[4, 5], 1).as_deref(), Some("1 partition gets fewer replicas than now"));
    let refusing = told(&[4, 5], 2).unwrap();
    assert!(refusing.contains("acks=all are refused while one of the brokers is down"), "{refusing}");
}

#[test]
fn a_throttle_names_senders_and_receivers() {
    let moves =
        [one(("a", 0), &[1, 2], &[2, 3]), one(("a", 1), &[1], &[4, 5]), one(("b", 0), &[1, 2], &[2, 1])];
    let entries = throttle::entries(&moves);
    let expected = ["0:1,0:2,1:1", "0:3,1:4,1:5"].map(str::to_owned);
    assert_eq!(entries, BTreeMap::from([("a".to_owned(), expected)]), "b has nothing to copy");
}

#[test]
fn foreign_throttle_entries_are_kept() {
    let key = || "k".to_owned();
    let subtract = Change::Subtract(key(), "0:1,0:2".to_owned());
    assert_eq!(throttle::removal("k", Some("0:1,0:2"), "0:1,0:2"), Change::Delete(key()));
    assert_eq!(throttle::removal("k", None, "0:1,0:2"), Change::Delete(key()));
    assert_eq!(throttle::removal("k", Some("5:1,0:1,0:2"), "0:1,0:2"), subtract);
}

#[test]
fn move_progress_counts_missing_bytes() {
    let place = ("clicks".to_owned(), 0);
    let moving = Ongoing { replicas: vec![2, 3, 1], adding: vec![3], removing: vec![1] };
    assert_eq!((moving.target(), moving.origin()), (vec![2, 3], vec![2, 1]));
    let present = BTreeMap::from([(place.clone(), moving)]);
    let sample = |sizes: &[(i32, u64)]| {
        let sizes = sizes.iter().map(|(id, bytes)| ((place.clone(), *id), *bytes)).collect();
        Sample::of(&layout(), &present, &sizes)
    };
    let line = |sample: &Sample, rate| progress::line(3, sample, rate);
    let half = sample(&[(1, 2048), (3, 1024)]);
    assert_eq!(line(&half, None), "2 of 3 partitions have moved; 1.00 KiB left");
    assert_eq!(line(&half, Some(512)), "2 of 3 partitions have moved; 1.00 KiB left, 512 B/s, about 2s");
    assert!(line(&half, Some(4096)).ends_with("4.00 KiB/s, about 250ms"), "less than a second");
    assert_eq!(line(&sample(&[(1, 2048)]), None), "2 of 3 partitions have moved; 2.00 KiB left");
    assert_eq!(
        line(&sample(&[(3, 1024)]), None),
        "2 of 3 partitions have moved",
        "the leader's size is not known"
    );
}

#[test]
fn a_rate_needs_time_and_progress() {
    let start = Instant::now();
    let at = |seconds, bytes| (start + Duration::from_secs(seconds), bytes);
    let rate = |samples: &[(Instant, u64)]| progress::rate(&VecDeque::from(samples.to_vec()));
    assert_eq!(rate(&[at(0, 1000), at(2, 500), at(4, 200)]), Some(200));
    assert_eq!(rate(&[at(0, 1000)]), None);
    assert_eq!(rate(&[at(0, 1000), at(5, 1000)]), None);
    assert_eq!(rate(&[at(0, 1000), at(5, 2000)]), None);
}
