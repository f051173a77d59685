//! Sums of the lags of groups.

use super::*;

#[test]
fn a_lag_counts_known_ends_of_logs() {
    let at = |topic: &str, index: i32| (topic.to_owned(), index);
    let committed = vec![
        ("billing".to_owned(), at("orders", 0), 10),
        ("billing".to_owned(), at("orders", 1), 5),
        ("billing".to_owned(), at("clicks", 0), 7),
        ("done".to_owned(), at("orders", 0), 40),
    ];
    let ends = BTreeMap::from([(at("orders", 0), 30), (at("clicks", 0), 8)]);
    let lags = sums(&committed, &ends);
    assert_eq!(lags["billing"], GroupLag { records: 21, partitions: 2, unknown: 1 });
    // The end was asked for before the offset was committed.
    assert_eq!(lags["done"], GroupLag { records: 0, partitions: 1, unknown: 0 });
}
