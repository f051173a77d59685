//! Every way finds the batch, and reads what it is said to read.

use super::*;
use crate::method::limits::Scale;
use crate::tests::tiny;

fn searches() -> (Bench, Searches) {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let searches = Searches::new(&bench).unwrap();
    (bench, searches)
}

#[test]
fn every_way_finds_every_batch() {
    let (bench, mut searches) = searches();
    tiny(&bench, &mut searches);
}

#[test]
fn what_is_read_follows_from_the_way() {
    let (_bench, searches) = searches();
    let check = |search: Search, calls: u64, bytes: u64| {
        let mut reads = Reads::default();
        let last = (BATCHES as i64) * RECORDS - 1;
        let found = search(&searches.file, 0, last, &mut reads).unwrap();
        assert_eq!(found.0, searches.positions[BATCHES - 1]);
        assert_eq!((reads.calls, reads.bytes), (calls, bytes));
    };
    let (batches, start, header) = (BATCHES as u64, START_LEN as u64, HEADER_LEN as u64);
    check(by_last_offset, 2 * batches, batches * (start + header));
    // One start beyond the batch shows that it is the one, and its header is read at the end.
    check(by_base_offset, batches + 2, (batches + 1) * start + header);
}

#[test]
fn the_last_batch_of_the_log_is_found() {
    let (_bench, searches) = searches();
    let (last, from) = (searches.positions.len() - 1, searches.positions[searches.positions.len() - 2]);
    for (name, search) in WAYS {
        let found = search(&searches.file, from, last as i64 * RECORDS, &mut Reads::default()).unwrap();
        assert_eq!(found.0, searches.positions[last], "{name}");
    }
}

#[test]
fn an_offset_before_the_position_is_an_error() {
    let (_bench, searches) = searches();
    for search in [by_base_offset, by_window] {
        assert!(search(&searches.file, searches.positions[1], 0, &mut Reads::default()).is_err());
    }
}

#[test]
fn missing_kafka_jars_leave_out_only_kafka() {
    let (bench, searches) = searches();
    let mut searches = searches.beside_kafka(&bench, std::path::Path::new("/nowhere"));
    assert_eq!(searches.cases().len(), WANTED.len() * (WAYS.len() + kafka::WAYS.len()));
    tiny(&bench, &mut searches);
}
