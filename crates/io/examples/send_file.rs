//! Sends a file over TCP after a short header, and says which way its bytes went.
//!
//! ```text
//! nc -l 9000 >/dev/null &
//! cargo run --release -p levada-io --example send_file -- FILE 127.0.0.1:9000
//! ```
//!
//! It shows the whole use of the crate: probe once, an engine a thread, and a transfer that is
//! stepped whenever the socket can take more. An async runtime would wait for the socket where this
//! waits in `poll`.

use std::error::Error;
use std::fs::File;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};

use levada_io::{Caps, Counters, Engine, Extent, Piece, Transfer, Turn};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(address), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: send_file FILE ADDRESS".into());
    };
    let file = Arc::new(File::open(&path).map_err(|error| format!("{path}: {error}"))?);
    let len = file.metadata()?.len();
    let socket = TcpStream::connect(&address).map_err(|error| format!("{address}: {error}"))?;
    socket.set_nonblocking(true)?;

    let counters = Arc::new(Counters::default());
    let mut engine = Engine::new(&Caps::probe(), Arc::clone(&counters));
    let mut transfer = Transfer::new([
        Piece::Bytes(Bytes::from(format!("{len} bytes follow\n"))),
        Piece::Extent(Extent { file, offset: 0, len }),
    ]);
    loop {
        let budget = transfer.turn_bytes();
        match transfer.step(&mut engine, socket.as_fd(), budget)? {
            Turn::Done => break,
            Turn::Yield | Turn::Cold => {}
            Turn::Blocked => {
                poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None)?;
            }
        }
    }

    for sample in counters.snapshot().samples().filter(|sample| sample.value > 0) {
        let label = sample.label.map_or(String::new(), |(name, value)| format!("{{{name}={value}}}"));
        println!("{}{label} {}", sample.metric, sample.value);
    }
    Ok(())
}
