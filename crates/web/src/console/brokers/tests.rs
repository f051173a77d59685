//! Leaderships and replicas of brokers.

use levada_wire::messages::metadata_response::MetadataResponsePartition;

use super::*;

#[test]
fn leaders_and_replicas_count_for_their_brokers() {
    let partition = |leader: i32, isr: &[i32]| {
        let mut partition = MetadataResponsePartition::default();
        partition.leader_id = leader;
        (partition.replica_nodes, partition.isr_nodes) = (vec![1, 2], isr.to_vec());
        partition
    };
    let mut topic = MetadataResponseTopic::default();
    topic.partitions = vec![partition(1, &[1, 2]), partition(1, &[1]), partition(-1, &[2])];
    let loads = loads(&[topic], &Adding::default());
    assert_eq!(loads[&1], Load { leaders: 2, replicas: 3, out_of_sync: 1 });
    assert_eq!(loads[&2], Load { leaders: 0, replicas: 3, out_of_sync: 1 });
}

#[test]
fn the_fullest_directory_decides() {
    let directory = |usable: i64| {
        let mut directory = DescribeLogDirsResult::default();
        directory.usable_bytes = usable;
        directory
    };
    assert_eq!(least_free(&[directory(10), directory(-1), directory(4)]), Some(4));
    assert_eq!(least_free(&[directory(-1)]), None, "an old broker does not tell");
}
