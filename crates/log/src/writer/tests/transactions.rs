//! Answers to readers of committed data while the log changes under them, and where it has gaps.

use super::*;

#[test]
fn aborted_transactions_remain_known_after_segment_removal() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    abort(&mut writer, 9).unwrap();
    writer.roll(NOW_MS).unwrap();
    plain(&mut writer).unwrap();
    writer.close().unwrap();
    for retired in [true, false] {
        let copy = Kit::new();
        for file in fs::read_dir(kit.dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&file, copy.dir.path().join(file.file_name().unwrap())).unwrap();
        }
        let options = OpenOptions { clean: true, ..OpenOptions::new(copy.dir.path()) };
        let mut writer = Writer::open(options, NOW_MS).unwrap().0;
        let partition = writer.partition().clone();
        let slice = partition.read(0, 1 << 20, 4, true).unwrap();
        let gone = writer.advance_log_start(3).unwrap();
        assert_eq!(gone.count(), 1);
        if retired {
            gone.retire().unwrap().remove().unwrap()
        } else {
            gone.remove().unwrap()
        }
        let aborted = partition.aborted_in(&slice, 0, 4).unwrap();
        assert_eq!(aborted.iter().map(|one| one.producer_id).collect::<Vec<_>>(), [9], "{retired}");
    }
}

#[test]
fn aborted_transactions_remain_known_after_directory_rename() {
    let kit = Kit::new();
    let mut writer = kit.open(0);
    append(&mut writer, records(Builder::new().producer(9, 0, 0).transactional(), 2)).unwrap();
    abort(&mut writer, 9).unwrap();
    writer.close().unwrap();
    let options = OpenOptions { clean: true, ..OpenOptions::new(kit.dir.path()) };
    let writer = Writer::open(options, NOW_MS).unwrap().0;
    let partition = writer.partition().clone();
    let slice = partition.read(0, 1 << 20, 3, true).unwrap();
    let renamed = kit.dir.path().with_extension("renamed");
    partition.leave(|| fs::rename(kit.dir.path(), &renamed)).unwrap();
    let aborted = partition.aborted_in(&slice, 0, 3).unwrap();
    fs::rename(&renamed, kit.dir.path()).unwrap();
    assert_eq!(aborted.iter().map(|one| one.producer_id).collect::<Vec<_>>(), [9]);
}

#[test]
fn read_in_gap_before_stable_offset_waits() {
    let kit = Kit::new();
    // As compaction leaves it: offsets 0 and 1, then 10 and 11.
    let batch = |base| records(Builder::new().base_offset(base), 2);
    fs::write(kit.dir.path().join("00000000000000000000.log"), [batch(0), batch(10)].concat()).unwrap();
    let mut writer = kit.open(0);
    assert_eq!(writer.partition().log_end(), 12);
    writer.roll(NOW_MS).unwrap();
    plain(&mut writer).unwrap();
    let partition = writer.partition();
    let found = |offset, upto| {
        let slice = partition.read(offset, 1 << 20, upto, true).unwrap();
        (!slice.is_empty(), slice.sealed, slice.base_offset)
    };
    for (offset, upto) in [(2, 5), (5, 10), (2, 11)] {
        assert_eq!(found(offset, upto), (false, false, offset), "{offset} {upto}");
    }
    assert_eq!(found(2, 12), (true, true, 10));
    assert_eq!(
        found(0, 5),
        (true, true, 0),
        "what lies before the gap is there, and no more of it will come"
    );
}
