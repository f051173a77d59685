//! Reach of the copies, by table.

use super::*;
use crate::expiry::tests::{copied, segment};

#[test]
fn the_latest_epoch_with_a_copy_decides() {
    let mut cache = SegmentCache::default();
    assert_eq!(highest_copied(&cache, &[(0, 0)], 100), None);
    assert_eq!(first_copied(&cache, &[(0, 0)]), None);
    copied(&mut cache, &segment(1, (10, 19), &[(1, 10)]));
    copied(&mut cache, &segment(2, (20, 39), &[(1, 20), (2, 30)]));
    let lineage = [(0, 0), (1, 10), (2, 30), (3, 50)];
    assert_eq!(highest_copied(&cache, &lineage, 100), Some(39));
    assert_eq!(first_copied(&cache, &lineage), Some(10));
    // The log has lost a part of what a former leader has copied.
    assert_eq!(highest_copied(&cache, &[(1, 10), (2, 30), (3, 35)], 100), Some(34));
    assert_eq!(highest_copied(&cache, &[(1, 10), (4, 25)], 100), Some(24));
    assert_eq!(highest_copied(&cache, &[(1, 10), (2, 30)], 35), Some(34));
    assert_eq!(highest_copied(&cache, &[(7, 10)], 35), None);
}
