//! Tests of the warnings.

use super::*;

#[test]
fn overview_warns_of_low_disk_space() {
    let volume = |free: u64, size: u64| ("/data".to_owned(), free, size);
    assert_eq!(scarce(&volume(10, 100)), None);
    assert_eq!(scarce(&volume(0, 0)), None, "a file system without a size");
    let told = scarce(&volume(9 << 30, 100 << 30)).expect("a warning");
    assert!(told.contains("/data has 9.00 GiB free, 9 %"), "{told}");
}
