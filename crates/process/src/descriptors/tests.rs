//! Numbers of descriptors.

use std::net::TcpListener;

use super::*;

#[test]
fn connection_waits_for_descriptor_outside_the_reserve() {
    assert_eq!(Reserve::of(1 << 20).kept, 1024);
    assert_eq!(Reserve::of(100).kept, 25);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let stream = connect();
    let all = Reserve { first: 0, kept: 1 };
    let stream = all.spare(stream).expect_err("every descriptor is kept");
    let none = Reserve { first: RawFd::MAX, kept: 1 };
    let before = stream.as_raw_fd();
    assert_eq!(none.spare(stream).unwrap().as_raw_fd(), before);
}
