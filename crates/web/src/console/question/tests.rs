//! Sizes of logs that move.

use levada_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};

use super::*;

#[test]
fn moving_log_is_counted_at_its_current_size() {
    let directory = |size: i64, is_future: bool| {
        let mut partition = DescribeLogDirsPartition::default();
        (partition.partition_size, partition.is_future_key) = (size, is_future);
        let mut topic = DescribeLogDirsTopic::default();
        (topic.name, topic.partitions) = (StrBytes::from("clicks"), vec![partition]);
        let mut directory = DescribeLogDirsResult::default();
        directory.topics = vec![topic];
        directory
    };
    let mut answer = DescribeLogDirsResponse::default();
    answer.results = vec![directory(10, false), directory(4, true)];
    let found: Vec<_> = sizes(&answer).collect();
    assert_eq!(found, [(("clicks".to_owned(), 0), 10)]);
}
