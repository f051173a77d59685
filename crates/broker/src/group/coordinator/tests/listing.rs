//! Lists of groups by many filters.

use std::time::{Duration, Instant};

use crate::group::coordinator::{ListFilter, ListedGroup};

#[test]
fn a_hundred_thousand_filters_cost_each_group_little() {
    let group = ListedGroup {
        group_id: "g".to_owned(),
        protocol_type: "consumer".to_owned(),
        state: "Stable",
        group_type: "classic",
    };
    let names: Vec<String> = (0..131_071).map(|number| format!("{number:06}")).collect();
    let names = || names.iter().map(String::as_str);
    let (without, with) = (ListFilter::of(names(), []), ListFilter::of(names().chain([" stable "]), []));
    let began = Instant::now();
    for _ in 0..20_000 {
        assert!(!without.lets_through(&group) && with.lets_through(&group));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
