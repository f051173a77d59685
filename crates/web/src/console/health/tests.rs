//! Partitions with problems.

use levada_wire::StrBytes;

use super::*;

fn partition(index: i32, leader: i32, isr: &[i32]) -> MetadataResponsePartition {
    let mut partition = MetadataResponsePartition::default();
    (partition.partition_index, partition.leader_id) = (index, leader);
    (partition.replica_nodes, partition.isr_nodes) = (vec![1, 2, 3], isr.to_vec());
    partition
}

fn topic(name: &str, partitions: Vec<MetadataResponsePartition>) -> MetadataResponseTopic {
    let mut topic = MetadataResponseTopic::default();
    (topic.name, topic.partitions) = (Some(StrBytes::from(name)), partitions);
    topic
}

#[test]
fn partitions_with_problems_have_names_and_reasons() {
    let topics = [
        topic("orders", vec![partition(0, 1, &[1, 2, 3]), partition(1, 2, &[2, 1])]),
        topic("<b>clicks", vec![partition(0, -1, &[3])]),
    ];
    let health = Health::of(&topics, &Adding::default());
    assert!(!health.is_good());
    let notices = health.notices().into_string();
    assert!(notices.contains("1 partition that you may see has no leader: &lt;b&gt;clicks/0."), "{notices}");
    assert!(notices.contains("a replica that is not in sync: orders/1."), "{notices}");
    assert_eq!(notices.matches("<a href=\"/brokers#partitions\">").count(), 2, "{notices}");
    let list = health.list().into_string();
    assert!(list.contains("under-replicated</span></td><td>2</td><td>1, 2, 3</td><td>3</td>"), "{list}");
    assert!(list.contains("offline</span></td><td>none</td><td>1, 2, 3</td><td>1, 2</td>"), "{list}");
    assert!(Health::of(&topics[..0], &Adding::default()).is_good());
}

#[test]
fn a_notice_names_the_first_of_many() {
    let many = [topic("t", (0..9).map(|index| partition(index, -1, &[])).collect())];
    let notices = Health::of(&many, &Adding::default()).notices().into_string();
    assert!(
        notices.contains("9 partitions that you may see have no leader: t/0, t/1, t/2, t/3, t/4, and 4 more"),
        "{notices}"
    );
}

#[test]
fn replica_being_added_is_no_problem() {
    let adding = |node| Adding([("orders".to_owned(), [(0, vec![node])].into())].into());
    let topics = [topic("orders", vec![partition(0, 1, &[1, 2])])];
    assert!(Health::of(&topics, &adding(3)).is_good());
    let list = Health::of(&topics, &adding(2)).list().into_string();
    assert!(list.contains("<td>1, 2, 3</td><td>3</td>"), "another one lags: {list}");
    assert!(!Health::of(&[topic("views", topics[0].partitions.clone())], &adding(3)).is_good());
}
