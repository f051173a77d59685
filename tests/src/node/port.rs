//! Free ports, claimed against other tests.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::sync::Mutex;

use rustix::fs::FlockOperation;

/// A free port of the loopback address. It is below the range from which the kernel takes the ports
/// of clients: while a broker is down between two starts, no client must happen to get its port.
pub fn free_port() -> SocketAddr {
    let mut random = std::iter::repeat_with(|| rand::random_range(20_000..32_000));
    let address = random.find_map(|port: u16| {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        (claim(port) && std::net::TcpListener::bind(address).is_ok()).then_some(address)
    });
    address.expect("the sequence has no end")
}

/// Maximum number of claims that a process keeps: more than the ports of the brokers that one test
/// runs at the same time.
const CLAIMS_MAX: usize = 64;

/// Claims a port against other tests, of this process or another, that have chosen it and not yet
/// listened on it.
fn claim(port: u16) -> bool {
    static CLAIMS: Mutex<VecDeque<File>> = Mutex::new(VecDeque::new());
    let dir = std::env::temp_dir().join("levada-test-ports");
    fs::create_dir_all(&dir).expect("a directory for claims");
    let file = File::create(dir.join(port.to_string())).expect("a file for a claim");
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    let mut claims = CLAIMS.lock().expect("nobody panics with the lock");
    claims.push_back(file);
    if claims.len() > CLAIMS_MAX {
        claims.pop_front();
    }
    true
}
