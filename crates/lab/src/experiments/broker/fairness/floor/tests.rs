//! The bare loop responds with the bytes of its files.

use std::os::unix::fs::FileExt;

use super::*;
use crate::experiments::broker::harness::connection::Connection as Client;
use crate::experiments::broker::harness::frames::{self, TopicPartition, Wanted};
use crate::experiments::broker::harness::topic::Filled;
use crate::method::limits::Scale;

#[test]
fn concurrent_readers_receive_their_requested_batches() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path(), Scale::Tiny).unwrap();
    let filled = |name: &str, batch_len: usize, batches| {
        let place = TopicPartition { topic: name.to_owned(), partition: 0 };
        let filled = Filled { place, batch_len, records: 3, batches };
        let file = tempfile::tempfile().unwrap();
        for batch in 0..batches {
            file.write_all_at(&vec![batch as u8 + 1; batch_len], (batch * batch_len) as u64).unwrap();
        }
        (filled, file)
    };
    let ((small, small_file), (large, large_file)) = (filled("small", 4000, 5), filled("large", 16_000, 200));
    let topics = [
        Fetches { filled: &small, file: &small_file, max_bytes: 4000 },
        Fetches { filled: &large, file: &large_file, max_bytes: 1 << 30 },
    ];
    beside(&bench, &topics, |address| {
        let mut clients = [Client::open(address)?, Client::open(address)?];
        for batch in 0..5 {
            for (client, fetches) in clients.iter_mut().rev().zip(topics.iter().rev()) {
                let offset = fetches.filled.offset(batch);
                let wanted = Wanted { offset, max_bytes: fetches.max_bytes, max_wait_ms: 0 };
                client.send(&frames::fetch(&fetches.filled.place, wanted)?)?;
            }
            for (client, fetches) in clients.iter_mut().zip(&topics) {
                let body = client.receive_whole()?;
                let (len, records) = frames::fetched(&body, &fetches.filled.place)?;
                assert_eq!((len, records.len()), (fetches.range(batch).1, len));
                let chunks = records.chunks(fetches.filled.batch_len).enumerate();
                chunks.for_each(|(at, chunk)| {
                    assert!(chunk.iter().all(|byte| usize::from(*byte) == batch + at + 1))
                });
            }
        }
        Ok(())
    })
    .unwrap();
}
