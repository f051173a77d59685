//! Shares that hold, and shares that are exceeded.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Share, check, shares};
use crate::suite::catalogue::{Suite, head};

fn suite(name: &str, line: &str) -> Suite {
    let head = head(&format!("//! {name}.\n//!\n//! Suite: {line}\n")).unwrap();
    Suite { folder: "storage".to_owned(), name: name.to_owned(), head }
}

#[test]
fn share_limit_applies_to_sum_of_suites() {
    let limits = BTreeMap::from([("base".to_owned(), 100), ("queues".to_owned(), 30)]);
    let mut some = vec![
        suite("a", "short; 60 s"),
        suite("b", "long, alone; 20 s; share queues"),
        suite("c", "soak, alone; 900 s; share queues"),
    ];
    let share = |name: &str, used, limit| Share { name: name.to_owned(), used, limit };
    assert_eq!(shares(&limits, &some), Ok(vec![share("base", 30.0, 100), share("queues", 20.0, 30)]));
    some.push(suite("d", "long; 22 s; share queues"));
    let error = shares(&limits, &some).unwrap_err();
    assert!(error.contains("share `queues` has 30 s, and its suites announce 31 s"), "{error}");
    some[0].head.share = "tiers".to_owned();
    assert!(shares(&limits, &some).unwrap_err().contains("no share `tiers`"));
}

#[test]
fn every_share_of_the_budget_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert!(check(root).unwrap().iter().any(|share| share.used > 0.0));
}
