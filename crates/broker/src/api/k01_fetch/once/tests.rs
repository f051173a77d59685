//! Tests of `once`.

use levada_wire::fetch::FetchPartition;

use super::*;

fn topic(name: &str, partitions: &[(i32, i64)]) -> FetchTopic {
    let partitions = partitions.iter().map(|(index, fetch_offset)| FetchPartition {
        index: *index,
        current_leader_epoch: -1,
        fetch_offset: *fetch_offset,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        max_bytes: 1,
        replica_directory_id: levada_wire::Uuid::ZERO,
        high_watermark: -1,
    });
    FetchTopic { name: name.into(), partitions: partitions.collect(), ..FetchTopic::default() }
}

#[test]
fn fetch_of_repeated_partition_uses_last_entry() {
    #[track_caller]
    fn check(mut topics: Vec<FetchTopic>, expected: &[FetchTopic]) {
        once(&mut topics);
        assert_eq!(topics, expected);
    }
    let distinct = [topic("a", &[(1, 1), (0, 2)]), topic("b", &[(0, 3)])];
    check(distinct.to_vec(), &distinct);
    check(vec![topic("a", &[(0, 1), (0, 2), (1, 5), (0, 3)])], &[topic("a", &[(0, 3), (1, 5)])]);
    let scattered = vec![topic("a", &[(0, 1)]), topic("b", &[(0, 2)]), topic("a", &[(0, 3)])];
    check(scattered, &[topic("a", &[(0, 3)]), topic("b", &[(0, 2)])]);
    let more = vec![topic("a", &[(0, 1)]), topic("a", &[(0, 2), (1, 4)])];
    check(more, &[topic("a", &[(0, 2)]), topic("a", &[(1, 4)])]);
}
