//! The low-water mark holds back what is less.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use super::*;

#[test]
fn a_receive_waits_for_the_low_water_mark() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (sender, _) = listener.accept().unwrap();
    receive_low_water(&receiver, 1000).unwrap();
    let ready = || {
        let mut poll = [rustix::event::PollFd::new(&receiver, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut poll, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    };
    rustix::io::write(&sender, &[1; 999]).unwrap();
    assert!(!ready());
    rustix::io::write(&sender, &[1; 1]).unwrap();
    assert!(ready());
    assert_eq!(receiver.read(&mut [0; 4096]).unwrap(), 1000);
    assert!(receive_low_water(&receiver, usize::MAX).is_err());
}
