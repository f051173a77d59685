//! The client receives every response, in whatever parts it arrives.

use std::net::TcpListener;
use std::sync::mpsc;

use super::*;

/// Sends a response of `len` bytes in two parts. The second part follows when the client has taken
/// the first, or waits while the first is in the socket.
fn in_two_parts(len: usize, first: usize, expected: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut connection = Connection::open(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let waiting = |connection: &Connection| rustix::io::ioctl_fionread(&connection.stream).unwrap();
    let response = [&u32::try_from(len - 4).unwrap().to_be_bytes(), &vec![7; len - 4][..]].concat();
    server.write_all(&response[..first]).unwrap();
    while waiting(&connection) < first as u64 {
        std::thread::yield_now();
    }
    let (tell, told) = mpsc::channel();
    let watched = connection.sender().unwrap();
    std::thread::spawn(move || {
        tell.send(None).unwrap();
        let body = connection.receive(expected).map(|head| head.len()).unwrap();
        tell.send(Some(body)).unwrap();
    });
    assert_eq!(told.recv().unwrap(), None);
    // A blocking receive takes the first part before it sleeps; a receive that polls leaves it in
    // the socket.
    for _ in 0..1000 {
        if rustix::io::ioctl_fionread(&watched).unwrap() == 0 {
            break;
        }
        std::thread::yield_now();
    }
    server.write_all(&response[first..]).unwrap();
    let answered =
        told.recv_timeout(TIMEOUT / 3).expect("the client waits for more bytes than the response has");
    assert!(answered.is_some_and(|head| head <= len));
}

#[test]
fn client_receives_responses_that_arrive_in_two_parts() {
    // A small response; one above the low-water mark; one that is longer than the returned head.
    for (len, first, expected) in [(4186, 90, 4186), (70_000, 30_000, 70_000), (300_000, 60_000, 20_000)] {
        in_two_parts(len, first, expected);
    }
}
