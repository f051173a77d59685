//! Sends memory by reference with `SEND_ZC`, and says what that saved: CPU time a message, and
//! whether the kernel copied after all.
//!
//! Over loopback it always copies. A device that shows a true zero-copy send without a network
//! card, in a network namespace of its own (transmit only: the device drops what it gets):
//!
//! ```text
//! unshare -Urn sh -c 'ip link add ifb9 type ifb && ip link set ifb9 mtu 65535 up &&
//!   ip addr add 10.9.0.1/24 dev ifb9 &&
//!   ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev ifb9 nud permanent &&
//!   cargo run --release -p levada-io --example serve_memory -- 10.9.0.2:9 65000'
//! ```

use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;

use levada_io::buf::BufferPool;
use levada_io::ring::{Event, Memory, Operation, Ring, RingOptions};
use rustix::time::{ClockId, clock_gettime};

/// Number of messages of each kind; enough for measurements in nanoseconds.
const MESSAGES: usize = 20_000;

/// Number of messages in flight.
const WINDOW: u16 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9".to_owned());
    let bytes: usize = arguments.next().map_or(Ok(65_000), |bytes| bytes.parse())?;
    println!("{MESSAGES} messages of {bytes} bytes to {address}, transmit only");
    for (name, zero_copy, registered) in
        [("send", false, false), ("SEND_ZC", true, false), ("SEND_ZC, registered buffers", true, true)]
    {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(&address)?;
        let mut ring = Ring::new(&RingOptions::default())?;
        let pool = BufferPool::new(bytes, WINDOW)?;
        if registered {
            ring.register_buffers(&pool)?;
        }
        let start = clock_gettime(ClockId::ThreadCPUTime);
        let copied = send(&mut ring, &pool, &Arc::new(socket), zero_copy)?;
        let spent = clock_gettime(ClockId::ThreadCPUTime) - start;
        let micros = (spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3) / MESSAGES as f64;
        println!("{name}: {micros:.2} µs of CPU a message, {copied} copied by the kernel after all");
    }
    Ok(())
}

/// Sends all messages and returns how many the kernel copied although it was to refer to them.
fn send(
    ring: &mut Ring,
    pool: &BufferPool,
    socket: &Arc<UdpSocket>,
    zero_copy: bool,
) -> Result<usize, Box<dyn Error>> {
    let (mut sent, mut copies) = (0, 0);
    while sent < MESSAGES || ring.in_flight() > 0 {
        while sent < MESSAGES
            && let Some(mut buffer) = pool.take()
        {
            buffer.set_len(buffer.capacity());
            let send = Operation::send(Arc::clone(socket), Memory::Buffer(buffer));
            ring.push(if zero_copy { send.zero_copy() } else { send })?;
            sent += 1;
        }
        ring.submit_and_wait(1, None)?;
        for completion in ring.reap() {
            match completion.event {
                // No server listens on loopback: the error is expected.
                Event::Done { .. } | Event::Sent { .. } => {}
                // The buffer goes back to its pool here.
                Event::Released { copied, .. } => copies += usize::from(copied),
            }
        }
    }
    Ok(copies)
}
