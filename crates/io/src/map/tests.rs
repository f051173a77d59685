//! Tests of the file mapping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

fn mapped(len: usize) -> (File, FileMap) {
    let file = tempfile::tempfile().unwrap();
    let map = FileMap::create(&file, len).unwrap();
    (file, map)
}

fn content(file: &File, len: usize) -> Vec<u8> {
    use std::os::unix::fs::FileExt;

    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn map_allocates_real_blocks() {
    let (file, map) = mapped(10_000);
    assert_eq!(map.len(), 10_000);
    assert!(!map.is_empty());
    let meta = file.metadata().unwrap();
    assert_eq!(meta.len(), 10_000);
    assert!(std::os::unix::fs::MetadataExt::blocks(&meta) * 512 >= 10_000, "sparse");
}

#[test]
fn zeroes_replace_a_missing_fallocate() {
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"kept", 0).unwrap();
    write_zeroes(&file, 9_001).unwrap();
    let bytes = content(&file, 9_001);
    assert_eq!(&bytes[..4], b"kept");
    assert!(bytes[4..].iter().all(|byte| *byte == 0));
    assert_eq!(file.metadata().unwrap().len(), 9_001);
}

#[test]
fn writes_reach_the_file_and_a_second_map() {
    let (file, map) = mapped(64);
    map.write_bytes(4, &0x0102_0304_u32.to_be_bytes());
    map.write_bytes(11, &0x1112_1314_1516_1718_u64.to_be_bytes());
    map.flush().unwrap();
    let mut expected = vec![0; 64];
    expected[4..8].copy_from_slice(&[1, 2, 3, 4]);
    expected[11..19].copy_from_slice(&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    assert_eq!(content(&file, 64), expected);
    let again = FileMap::open(&file, 64).unwrap();
    assert_eq!(again.read_u32_be(4), 0x0102_0304);
    assert_eq!(again.read_u64_be(11), 0x1112_1314_1516_1718);
}

#[test]
fn map_keeps_the_sign_of_values() {
    let (_file, map) = mapped(12);
    map.write_bytes(4, &(-6_i64).to_be_bytes());
    assert_eq!(map.read_i64_be(4), -6);
}

#[test]
fn open_refuses_a_short_file() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(9).unwrap();
    assert_eq!(FileMap::open(&file, 10).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(FileMap::open(&file, 0).is_err());
}

#[test]
#[should_panic(expected = "4 bytes at 61 lie outside a map of 64")]
fn a_position_outside_panics() {
    mapped(64).1.read_u32_be(61);
}

#[test]
#[should_panic(expected = "outside a map")]
fn a_position_that_overflows_panics() {
    mapped(64).1.read_u32_be(usize::MAX - 1);
}

#[test]
fn published_entries_are_whole_for_other_threads() {
    const ENTRIES: usize = 20_000;
    let (_file, map) = mapped(ENTRIES * 12);
    let shared = Arc::new((map, AtomicUsize::new(0)));
    let reader = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            let (map, published) = &*shared;
            loop {
                let count = published.load(Ordering::Acquire);
                if count > 0 {
                    let last = count - 1;
                    assert_eq!(map.read_u64_be(last * 12), last as u64 * 0x1_0000_0001);
                    assert_eq!(map.read_u32_be(last * 12 + 8), u32::try_from(last).unwrap());
                }
                if count == ENTRIES {
                    break;
                }
            }
        })
    };
    let (map, published) = &*shared;
    for entry in 0..ENTRIES {
        map.write_bytes(entry * 12, &(entry as u64 * 0x1_0000_0001).to_be_bytes());
        map.write_bytes(entry * 12 + 8, &u32::try_from(entry).unwrap().to_be_bytes());
        published.store(entry + 1, Ordering::Release);
    }
    reader.join().unwrap();
}

proptest! {
    #[test]
    fn behaves_like_a_byte_array(
        len in 1_usize..200,
        writes in prop::collection::vec((0_usize..200, prop::collection::vec(any::<u8>(), 0..30)), 0..20),
    ) {
        let (file, map) = mapped(len);
        let mut model = vec![0; len];
        for (pos, bytes) in writes.iter().filter(|(pos, bytes)| pos + bytes.len() <= len) {
            map.write_bytes(*pos, bytes);
            model[*pos..pos + bytes.len()].copy_from_slice(bytes);
        }
        let mut seen = vec![0; len];
        map.read_bytes(0, &mut seen);
        prop_assert_eq!(&seen, &model);
        prop_assert_eq!(content(&file, len), model);
    }
}

#[test]
fn truncated_file_under_mapping_is_reported_lost() {
    let (file, map) = mapped(40_000);
    let (_other_file, other) = mapped(40_000);
    map.write_bytes(20_000, &7_u32.to_be_bytes());
    other.write_bytes(20_000, &8_u32.to_be_bytes());
    file.set_len(10_000).unwrap();
    assert_eq!(map.read_u32_be(4), 0);
    assert!(!map.is_lost(), "that page is there");
    assert_eq!(map.read_u32_be(20_000), 0);
    assert!(map.is_lost());
    map.write_bytes(36_000, &9_u32.to_be_bytes());
    assert_eq!(map.read_u32_be(36_000), 9);
    assert_eq!(file.metadata().unwrap().len(), 10_000);
    assert_eq!((other.read_u32_be(20_000), other.is_lost()), (8, false));
    let again = FileMap::open(&file, 10_000).unwrap();
    assert_eq!((again.read_u32_be(4), again.is_lost()), (0, false));
}

#[test]
fn mapping_losses_are_detected_on_every_thread() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let (file, map) = mapped(8192);
                    file.set_len(0).unwrap();
                    assert_eq!((map.read_u32_be(8188), map.is_lost()), (0, true));
                }
            });
        }
    });
}

#[test]
fn mapped_bytes_match_the_file_for_every_access() {
    let (file, map) = mapped(3 << 20);
    map.write_bytes(2_500_001, b"levada");
    for access in
        [Access::Random, Access::Usual, Access::Sequential, Access::Needed, Access::Populated, Access::Huge]
    {
        let other = match FileMap::open_for(&file, 3 << 20, access) {
            Ok(map) => map,
            Err(error) if access == Access::Huge => {
                eprintln!("skipped: {error}");
                continue;
            }
            Err(error) => panic!("{access:?}: {error}"),
        };
        let mut bytes = [0; 6];
        other.read_bytes(2_500_001, &mut bytes);
        assert_eq!(&bytes, b"levada", "{access:?}");
    }
}
