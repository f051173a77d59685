//! The latencies of small readers exclude the setup of their connections.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use super::*;
use crate::harness::payload::checksum;

#[test]
fn small_file_p99_excludes_connection_setup() {
    const READERS: u32 = 3;
    let file = SiteFile { name: "small".to_owned(), len: 3, checksum: checksum(b"abc") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| answered(address, &file, READERS).map(|open| open.len()));
        for _ in 0..READERS {
            let (mut stream, _) = listener.accept().unwrap();
            let request = BufReader::new(stream.try_clone().unwrap()).lines().next();
            let request = request.expect("the reader sends a request first").unwrap();
            assert_eq!(request, "GET /small HTTP/1.1");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        }
        assert_eq!(clients.join().unwrap().unwrap(), READERS as usize);
    });
}
