//! Messages of many small pieces and one large body: all in one zero-copy send, against cut by size
//! into runs.
//!
//! ```text
//! cargo run --release -p levada-io --example mixed_load
//! ```
//!
//! Over loopback TCP, where the kernel copies in the end: what differs is the cost of the pieces,
//! not of the body.

use std::error::Error;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use levada_io::outbox::{Outbox, Outcome, Terms};
use levada_io::ring::{Event, Memory, Operation, Ring, RingOptions};
use levada_io::runs::COPIED_PIECES;
use levada_io::{Counters, MemoryPiece, Thresholds};

const PIECE: Bytes = Bytes::from_static(&[7; 16]);
const BODY: Bytes = Bytes::from_static(&[8; 32 << 10]);

/// Number of rounds of each kind, which alternate; the median counts.
const ROUNDS: usize = 7;

/// Messages in a round.
fn messages(pieces: usize) -> usize {
    (50_000 / pieces).clamp(20, 300)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>6}  {:>12}  {:>12}  ratio", "pieces", "one message", "cut by size");
    for pieces in [1, 16, 256, 1024, 2048] {
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            whole.push(round(pieces, send_whole)?);
            cut.push(round(pieces, send_cut)?);
        }
        let median = |rates: &mut Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        };
        let (whole, cut) = (median(&mut whole), median(&mut cut));
        println!("{pieces:>6}  {whole:>10.0}/s  {cut:>10.0}/s  {:.2}", cut / whole);
    }
    Ok(())
}

type Sender = fn(&mut Ring, &Arc<TcpStream>, usize) -> Result<(), Box<dyn Error>>;

/// Messages a second.
fn round(pieces: usize, send: Sender) -> Result<f64, Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = Arc::new(TcpStream::connect(listener.local_addr()?)?);
    let mut receiver = listener.accept()?.0;
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        let mut count = 0;
        while let Ok(got @ 1..) = receiver.read(&mut buffer) {
            count += got;
        }
        count
    });
    let mut ring = Ring::new(&RingOptions::default())?;
    let start = Instant::now();
    for _ in 0..messages(pieces) {
        send(&mut ring, &sender, pieces)?;
    }
    let rate = messages(pieces) as f64 / start.elapsed().as_secs_f64();
    drop((ring, sender));
    let expected = messages(pieces) * (pieces * PIECE.len() + BODY.len());
    match reader.join() {
        Ok(count) if count == expected => Ok(rate),
        other => Err(format!("{other:?} bytes arrived, not {expected}").into()),
    }
}

/// All pieces by reference, as many in a message as it takes.
fn send_whole(ring: &mut Ring, socket: &Arc<TcpStream>, pieces: usize) -> Result<(), Box<dyn Error>> {
    let mut all = vec![PIECE; pieces];
    all.push(BODY);
    for message in all.chunks(COPIED_PIECES) {
        let send = Operation::send(Arc::clone(socket), Memory::Pieces(message.to_vec()));
        let key = ring.push(send.zero_copy())?;
        let mut sent = false;
        while !sent {
            ring.submit_and_wait(1, None)?;
            for completion in ring.reap() {
                match completion.event {
                    Event::Sent { result } if completion.key == key => {
                        result?;
                        sent = true;
                    }
                    Event::Done { result, .. } => return Err(format!("not by reference: {result:?}").into()),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// Small pieces copied together, the body by reference, linked.
fn send_cut(ring: &mut Ring, socket: &Arc<TcpStream>, pieces: usize) -> Result<(), Box<dyn Error>> {
    let (counters, thresholds) = (Counters::default(), Thresholds::default());
    let mut outbox = Outbox::new(Arc::clone(socket));
    (0..pieces).for_each(|_| outbox.push(MemoryPiece::Bytes(PIECE)));
    outbox.push(MemoryPiece::Bytes(BODY));
    while outbox.queued_bytes() > 0 {
        let terms = Terms { budget: 1 << 20, may_refer: true, thresholds: &thresholds };
        let mine = outbox.submit(ring, terms);
        while outbox.is_busy() {
            ring.submit_and_wait(1, None)?;
            // Notifications of earlier messages come in between.
            for completion in ring.reap().into_iter().filter(|completion| mine.contains(&completion.key)) {
                if let Outcome::Failed(error) = outbox.take_in(completion, &counters) {
                    return Err(error.into());
                }
            }
        }
    }
    Ok(())
}
