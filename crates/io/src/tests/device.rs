//! Sends by reference on a device that takes references: `ifb`, which needs no network card and
//! drops what it gets. Transmit only.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};

use super::links::{Place, in_namespaces, run, skipped};
use super::{content, cramped};
use crate::buf::BufferPool;
use crate::ring::{Event, Memory, Operation, Ring, RingOptions};

const NAME: &str = "tests::device::references_are_not_copied_on_supporting_device";

const MESSAGES: usize = 500;
const BYTES: usize = 65_000;

/// Over loopback the kernel always copies; that it says otherwise here shows that the report is
/// one.
#[test]
fn references_are_not_copied_on_supporting_device() {
    if cramped(NAME) {
        return;
    }
    if let Place::Outside = in_namespaces(NAME) {
        return;
    }
    let added = Command::new("ip").args(["link", "add", "ifb9", "type", "ifb"]).output().unwrap();
    if !added.status.success() {
        return skipped(NAME, &String::from_utf8_lossy(&added.stderr));
    }
    run("ip link set lo up && ip link set ifb9 mtu 65535 up && ip addr add 10.9.0.1/24 dev ifb9 && \
         ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev ifb9 nud permanent");
    let mut ring = match Ring::new(&RingOptions::default()) {
        Ok(ring) => ring,
        Err(error) => return skipped(NAME, &error.to_string()),
    };
    let pool = BufferPool::new(BYTES, 8).unwrap();
    let registered = ring.register_buffers(&pool).map(|()| &pool);
    if let Err(error) = &registered {
        skipped(&format!("{NAME}, registered buffers"), &error.to_string());
    }
    let bytes = Bytes::from(content(BYTES));
    let plain = send(&mut ring, "10.9.0.2:9", false, || Some(Memory::Bytes(bytes.clone())));
    assert_eq!(plain.released, 0);
    let sources: [(&str, Option<&BufferPool>); 2] =
        [("SEND_ZC", None), ("SEND_ZC, registered", registered.ok())];
    for (name, pool) in sources {
        if name != "SEND_ZC" && pool.is_none() {
            continue;
        }
        let memory = || match pool {
            None => Some(Memory::Bytes(bytes.clone())),
            Some(pool) => pool.take().map(|mut buffer| {
                buffer.set_len(BYTES);
                Memory::Buffer(buffer)
            }),
        };
        let cost = send(&mut ring, "10.9.0.2:9", true, memory);
        assert_eq!((cost.released, cost.copied), (MESSAGES, 0), "{name}");
        let ratio = cost.micros / plain.micros;
        println!("measured: {name} of {BYTES} bytes costs {ratio:.2} of the CPU time of send, on ifb");
        let listening = UdpSocket::bind("127.0.0.1:0").unwrap();
        let over_loopback = send(&mut ring, &listening.local_addr().unwrap().to_string(), true, memory);
        assert_eq!(over_loopback.copied, over_loopback.released, "{name}: loopback copies");
    }
}

/// Cost of messages.
struct Cost {
    /// CPU time of this thread, of the best of some rounds.
    micros: f64,
    released: usize,
    copied: usize,
}

fn send(ring: &mut Ring, to: &str, zero_copy: bool, mut memory: impl FnMut() -> Option<Memory>) -> Cost {
    const ROUNDS: usize = 5;
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(to).unwrap();
    let socket = Arc::new(socket);
    let mut cost = Cost { micros: f64::INFINITY, released: 0, copied: 0 };
    for _ in 0..ROUNDS {
        let start = clock_gettime(ClockId::ThreadCPUTime);
        let mut sent = 0;
        while sent < MESSAGES / ROUNDS || ring.in_flight() > 0 {
            while sent < MESSAGES / ROUNDS
                && ring.in_flight() < 16
                && let Some(memory) = memory()
            {
                let send = Operation::send(Arc::clone(&socket), memory);
                ring.push(if zero_copy { send.zero_copy() } else { send }).unwrap();
                sent += 1;
            }
            ring.submit_and_wait(1, None).unwrap();
            for completion in ring.reap() {
                if let Event::Released { copied, .. } = completion.event {
                    cost.released += 1;
                    cost.copied += usize::from(copied);
                }
            }
        }
        let spent = clock_gettime(ClockId::ThreadCPUTime) - start;
        cost.micros = cost.micros.min(spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3);
    }
    cost
}
