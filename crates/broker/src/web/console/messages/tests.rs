//! Tests of the offsets with which a page begins.

use super::*;

#[test]
fn a_topic_that_was_created_again_between_two_requests_has_a_page() {
    assert_eq!(within(7, (1000, 0)), 1000);
    assert_eq!((within(7, (0, 5)), within(7, (8, 9)), within(7, (0, 9))), (5, 8, 7));
}
