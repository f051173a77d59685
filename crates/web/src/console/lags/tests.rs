//! Sums of the lags of groups.

use levada_wire::messages::describe_share_group_offsets_response::{
    DescribeShareGroupOffsetsResponsePartition, DescribeShareGroupOffsetsResponseTopic,
};

use super::*;

#[test]
fn group_lag_counts_only_known_log_ends() {
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

#[test]
fn a_share_lag_counts_permitted_topics() {
    let partition = |lag: i64, error_code: i16| {
        let mut shown = DescribeShareGroupOffsetsResponsePartition::default();
        (shown.lag, shown.error_code) = (lag, error_code);
        shown
    };
    let group = |id: &'static str, topics: &[(&'static str, &[(i64, i16)])]| {
        let topics = topics.iter().map(|(name, partitions)| {
            let mut shown = DescribeShareGroupOffsetsResponseTopic::default();
            shown.topic_name = StrBytes::from(*name);
            shown.partitions = partitions.iter().map(|one| partition(one.0, one.1)).collect();
            shown
        });
        let mut shown = DescribeShareGroupOffsetsResponseGroup::default();
        (shown.group_id, shown.topics) = (StrBytes::from(id), topics.collect());
        shown
    };
    let groups = [
        group("workers", &[("tasks", &[(3, 0), (4, 0), (-1, 0), (9, 3)]), ("secret", &[(100, 0)])]),
        group("idle", &[("tasks", &[(-1, 0)])]),
        group("none", &[]),
    ];
    let lags = share_sums(groups.iter(), |topic| topic != "secret");
    let expected = GroupLag { records: 7, partitions: 2, unknown: 2 };
    assert_eq!(lags, BTreeMap::from([("workers".to_owned(), expected)]));
}
