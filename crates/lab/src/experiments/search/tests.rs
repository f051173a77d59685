//! Every method finds the batch, and reads the expected number of bytes.

use super::*;
use crate::method::limits::Scale;
use crate::tests::tiny;

fn searches() -> (Bench, Searches) {
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap();
    let searches = Searches::new(&bench).unwrap();
    (bench, searches)
}

#[test]
fn every_method_finds_every_batch() {
    let (bench, mut searches) = searches();
    tiny(&bench, &mut searches);
}

#[test]
fn number_of_reads_depends_on_the_method() {
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
    // The start after the batch shows that the batch is the right one; its header is read last.
    check(by_base_offset, batches + 2, (batches + 1) * start + header);
}

#[test]
fn every_method_finds_the_last_batch() {
    let (_bench, searches) = searches();
    let (last, from) = (searches.positions.len() - 1, searches.positions[searches.positions.len() - 2]);
    for (name, search) in WAYS {
        let found = search(&searches.file, from, last as i64 * RECORDS, &mut Reads::default()).unwrap();
        assert_eq!(found.0, searches.positions[last], "{name}");
    }
}

#[test]
fn search_refuses_an_offset_before_the_position() {
    let (_bench, searches) = searches();
    for search in [by_base_offset, by_window] {
        assert!(search(&searches.file, searches.positions[1], 0, &mut Reads::default()).is_err());
    }
}

#[test]
fn missing_jars_skip_only_kafka_cases() {
    let (bench, searches) = searches();
    let mut searches = searches.beside_kafka(&bench, std::path::Path::new("/nowhere"));
    assert_eq!(searches.cases().len(), WANTED.len() * (WAYS.len() + kafka::WAYS.len()));
    tiny(&bench, &mut searches);
}
