//! Tests of the error of a topic whose partitions have no leader.

use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::{Led, fault};

#[test]
fn a_partition_without_a_leader_is_named() {
    fn check(topic: i16, partitions: &[i16], led: Led<'_>, expected: (i16, &str)) {
        let mut answer = MetadataResponseTopic::default();
        answer.error_code = topic;
        for (index, code) in (0..).zip(partitions) {
            let mut partition = MetadataResponsePartition::default();
            (partition.partition_index, partition.error_code) = (index, *code);
            answer.partitions.push(partition);
        }
        let (code, what) = fault("pay", &answer, led);
        assert_eq!((code, what.to_string().as_str()), expected, "{led:?}");
    }
    check(0, &[0, 0], Led::Every, (0, "topic pay"));
    check(0, &[0, 5], Led::Every, (5, "pay/1"));
    check(0, &[0, 5, 5, 5], Led::Every, (5, "pay/1 and 2 other partitions"));
    check(3, &[], Led::Every, (3, "topic pay"));
    check(0, &[0, 5], Led::These(&[]), (0, "topic pay"));
    check(0, &[5, 5], Led::These(&[]), (5, "pay/0 and 1 other partition"));
    check(0, &[0, 5], Led::These(&[0]), (0, "topic pay"));
    check(0, &[0, 5], Led::These(&[1]), (5, "pay/1"));
    check(0, &[0, 5], Led::These(&[7]), (0, "topic pay"));
    check(3, &[], Led::These(&[]), (3, "topic pay"));
}
