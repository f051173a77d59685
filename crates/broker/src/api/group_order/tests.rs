//! Tests of the order of groups; the expected orders are a real Kafka's.

use super::ordered;

#[test]
fn groups_come_by_the_slots_of_their_partitions() {
    // Kafka 4.3 answers requests for these groups in this order, with 50 partitions.
    let partition = |id: &&str| crate::group::partition_for(id, 50);
    assert_eq!(ordered(vec!["nope", "og", "", "cg"], partition), ["", "og", "cg", "nope"]);
    assert_eq!(ordered(vec!["og", "nope", "", "og"], partition), ["", "og", "og", "nope"]);
}

#[test]
fn groups_of_one_partition_keep_their_order() {
    assert_eq!(ordered(vec!["b", "a", "c"], |_| 0), ["b", "a", "c"]);
}

#[test]
fn partitions_that_share_a_slot_keep_their_order() {
    let groups = vec![(16, "a"), (15, "b"), (0, "c"), (16, "d")];
    let ordered = ordered(groups, |group| group.0);
    assert_eq!(ordered, [(15, "b"), (16, "a"), (16, "d"), (0, "c")], "0 and 16 share one, 15 comes before");
}
