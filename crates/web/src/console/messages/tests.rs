//! Tests of the offsets with which a page begins.

use super::*;

#[test]
fn the_last_records_come_from_all_partitions() {
    let share = |limit, lengths: &[i64]| share(limit, lengths.iter().copied());
    assert_eq!(share(50, &[1000]), 50);
    assert_eq!(share(50, &[1000, 1000, 1000]), 17);
    assert_eq!(share(50, &[1000, 1, 0]), 49, "short logs leave their part to the others");
    assert_eq!(share(50, &[1000, 20, 2]), 28);
    assert_eq!(share(1, &[5, 5, 5]), 1);
    assert_eq!(share(50, &[3, 4, -7]), 50, "all of them");
    assert_eq!(share(50, &[]), 50);
}

#[test]
fn page_offset_is_clamped_for_recreated_topic() {
    assert_eq!(within(7, (1000, 0)), 1000);
    assert_eq!((within(7, (0, 5)), within(7, (8, 9)), within(7, (0, 9))), (5, 8, 7));
}
