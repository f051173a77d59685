//! The latencies of small readers exclude the setup of their connections.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;

use super::*;

#[test]
fn small_reader_p99_excludes_connection_setup() {
    const READERS: u32 = 3;
    let place = TopicPartition { topic: "small".to_owned(), partition: 0 };
    let filled = Filled { place, batch_len: 100, records: 1, batches: 4 };
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&[7; 400], 0).unwrap();
    let fetches = Fetches { filled: &filled, file: &file, max_bytes: 100 };
    let wanted = Wanted { offset: 0, max_bytes: SMALL_BYTES, max_wait_ms: 0 };
    let mut request = vec![0; frames::fetch(&filled.place, wanted).unwrap().len()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| answered(address, &filled, READERS).map(|open| open.len()));
        for _ in 0..READERS {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut request).expect("the reader sends a fetch first");
            fetches.copy(&stream, &fetches.header(100).unwrap(), (0, 100)).unwrap();
        }
        assert_eq!(clients.join().unwrap().unwrap(), READERS as usize);
    });
}
