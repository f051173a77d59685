//! Tests of the probe.

use super::*;

#[test]
fn every_capability_is_listed_once() {
    let caps = Caps::probe();
    let names: std::collections::BTreeSet<&str> = caps.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 13);
    assert_eq!(caps.iter().count(), 13);
}

#[test]
fn absence_has_a_reason_and_a_remedy() {
    let absent = Support::of(Err("no such call".to_owned()), "update the kernel");
    assert_eq!(absent, Support::Absent { why: "no such call".to_owned(), remedy: "update the kernel" });
    assert!(!absent.works());
    for (name, support) in Caps::probe().iter() {
        if let Support::Absent { why, remedy } = support {
            assert!(!why.is_empty() && !remedy.is_empty(), "{name}");
        }
    }
}

#[test]
fn a_directory_that_takes_no_file_leaves_memory_to_try_on() {
    let caps = Caps::probe_in(std::path::Path::new("/proc/self"));
    assert!(caps.sendfile.works() || !Caps::probe().sendfile.works());
}

#[test]
fn bytes_that_changed_on_the_way_are_no_success() {
    let mut arrived = SAMPLE;
    arrived[7] ^= 1;
    assert!(received(&arrived[..], 8).is_err());
    assert!(received(&SAMPLE[..], 0).is_err());
    assert!(received(&SAMPLE[..], 8).is_ok());
}
