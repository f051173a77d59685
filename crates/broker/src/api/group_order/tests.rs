//! Tests of the order of groups; the expected orders are a real Kafka's.

use super::{java_hash, list_in_kafkas_order, members_in_kafkas_order, ordered, table_slot};

#[test]
fn groups_are_ordered_by_partition_slot() {
    // Kafka 4.3 answers requests for these groups in this order, with 50 partitions.
    let partition = |id: &&str| levada_coordination::group::partition_for(id, 50);
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

#[test]
fn java_hash_and_table_slot_match_kafka() {
    assert_eq!(
        [java_hash("g0"), java_hash("orders"), java_hash("\u{1f600}")],
        [3_241, -1_008_770_331, 1_772_899]
    );
    // In tables with 2, 4, 8 and 16 slots.
    for (count, slots) in [(2, [0, 1, 1]), (5, [0, 2, 2]), (10, [0, 5, 4]), (21, [0, 10, 9])] {
        assert_eq!(["g0", "g1", "orders"].map(|text| table_slot(text, count)), slots, "{count}");
    }
}

#[test]
fn groups_and_members_are_listed_by_their_slots() {
    let mut members = vec!["b", "a", "d", "c"];
    members_in_kafkas_order(&mut members, |member| *member);
    assert_eq!(members, ["c", "b", "a", "d"]);
    // Of 50 coordinators in a map of 128 slots, that of partition 0 is in slot 49, that of 1 in 30.
    let mut groups = vec![((0, "y"), 2), ((1, "x"), 1), ((0, "g0"), 2)];
    list_in_kafkas_order(&mut groups, 50, |group| *group);
    assert_eq!(groups, [((1, "x"), 1), ((0, "g0"), 2), ((0, "y"), 2)]);
}
