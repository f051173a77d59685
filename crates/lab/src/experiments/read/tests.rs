//! Every method reads every byte, in any order.

use super::*;
use crate::method::limits::Scale;
use crate::tests::tiny;

#[test]
fn every_method_reads_every_byte() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    tiny(&bench, &mut Reads::new(&bench).unwrap());
}

#[test]
fn faults_reading_more_than_a_block_are_reported() {
    let said = not_cold(128, 2048).expect("a caveat");
    assert!(said.contains("device: 128,") && said.contains("2048 blocks"), "{said}");
    assert!(said.contains("one fault brought in 2048 KiB"), "{said}");
    assert!(not_cold(0, 2048).expect("a caveat").contains("read ahead as a whole"));
    assert_eq!(not_cold(2048, 2048), None, "each block waited");
    assert_eq!(not_cold(65536, 2048), None, "each page waited");
}

#[test]
fn shares_contain_each_block_once() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let reads = Reads::new(&bench).unwrap();
    for setting in SETTINGS {
        let mut seen = Vec::new();
        for share in reads.shares(setting) {
            let mut keep = |block: Block<'_>| seen.push(block.number);
            ReadMethod::Pread.ready(&reads.file, BLOCK_BYTES).unwrap().read(&share, &mut keep).unwrap();
        }
        let in_order = seen.is_sorted();
        assert_eq!(in_order, setting.in_order, "{}", setting.group);
        seen.sort_unstable();
        assert_eq!(seen, (0..reads.blocks).collect::<Vec<_>>(), "{}", setting.group);
    }
}

#[test]
fn check_detects_a_changed_block() {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let mut reads = Reads::new(&bench).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&*reads.file, b"other", 1000).unwrap();
    let case = reads.cases().swap_remove(0);
    let Outcome::Checked(verdict) = reads.run(&case, Pass::Integrity).unwrap() else { panic!() };
    assert!(!verdict.sound, "{verdict:?}");
}

#[test]
fn touch_faults_every_page_of_a_buffer() {
    // Page faults of this thread so far.
    let faults = || -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let mut fields = stat.rsplit(") ").next().unwrap().split_whitespace();
        fields.nth(7).unwrap().parse().unwrap()
    };
    // The kernel allocates zero pages on their first access: 2 MiB together if it has huge pages.
    let fresh = vec![0; 256 << 20];
    let before = faults();
    way::touch(&fresh);
    assert!(faults() - before >= 100, "{} faults", faults() - before);
}
