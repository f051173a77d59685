//! Effect of a ring on a server driven by readiness: cold ranges to a socket, small responses,
//! syncs. CPU time of the whole process (kernel workers included, receiver left out), and how long
//! one waits.
//!
//! ```text
//! cargo run --release -p levada-io --example ring_or_threads -- /var/tmp
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_io::buf::BufferPool;
use levada_io::inflow::{Inflow, InflowOptions};
use levada_io::outbox::{Outbox, Outcome, Terms};
use levada_io::residency::{Trail, Warmer, WarmerLimits};
use levada_io::ring::{Caching, Memory, Operation, Ring, RingOptions};
use levada_io::{Caps, Counters, Engine, Extent, Piece, Thresholds, Transfer, Turn};
use rustix::time::{ClockId, clock_gettime};

type Outcomes<T> = Result<T, Box<dyn Error>>;

/// Bytes sent in a round, in responses of this size.
const ROUND_BYTES: u64 = 256 << 20;
const ANSWER_BYTES: u64 = 1 << 20;
const ROUNDS: usize = 5;

fn main() -> Outcomes<()> {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let path = dir.join("ring_or_threads.tmp");
    let written = write(&path).and_then(|()| cold(&path).and_then(|()| syncs(&path)));
    std::fs::remove_file(&path)?;
    written?;
    small_answers()
}

fn write(path: &Path) -> Outcomes<()> {
    let mut file = File::create(path)?;
    let block: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for _ in 0..ROUND_BYTES >> 20 {
        file.write_all(&block)?;
    }
    Ok(file.sync_all()?)
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A connection to a thread that reads everything; it returns its CPU time.
fn connection() -> Outcomes<(TcpStream, std::thread::JoinHandle<Duration>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let mut receiver = listener.accept()?.0;
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        while receiver.read(&mut buffer).is_ok_and(|count| count > 0) {}
        thread_cpu()
    });
    Ok((sender, reader))
}

fn cold(path: &Path) -> Outcomes<()> {
    println!("cold ranges of {} MiB, answers of 1 MiB, median of {ROUNDS} rounds", ROUND_BYTES >> 20);
    let ways = [
        "warmer, splice, dropped behind",
        "ring reads, kept",
        "ring reads, RWF_DONTCACHE",
        "ring reads, O_DIRECT",
        "a thread's reads, O_DIRECT",
    ];
    let mut rounds: Vec<Vec<(f64, f64, Duration, Duration)>> = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (way, measured) in rounds.iter_mut().enumerate() {
            let mut options = File::options();
            if way >= 3 {
                options.custom_flags(libc::O_DIRECT);
            }
            let file = Arc::new(options.read(true).open(path)?);
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            let (sender, reader) = connection()?;
            let (cpu, start) = (process_cpu(), Instant::now());
            let mut waits = match way {
                0 => by_warmer(&file, sender)?,
                1 => by_ring(&file, sender, InflowOptions::default())?,
                2 => by_ring(
                    &file,
                    sender,
                    InflowOptions { caching: Caching::Drop, ..InflowOptions::default() },
                )?,
                3 => by_ring(&file, sender, InflowOptions { alignment: 4096, ..InflowOptions::default() })?,
                _ => by_thread(&file, sender)?,
            };
            let spent = process_cpu() - cpu - reader.join().map_err(|_| "the reader panicked")?;
            let gigabytes = ROUND_BYTES as f64 / 1e9;
            waits.sort_unstable();
            let rate = gigabytes / start.elapsed().as_secs_f64();
            let nearly_all = waits[waits.len() * 99 / 100];
            measured.push((spent.as_secs_f64() / gigabytes, rate, waits[waits.len() / 2], nearly_all));
        }
    }
    for (way, mut measured) in ways.iter().zip(rounds) {
        measured.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (cpu, rate, half, nearly_all) = measured[ROUNDS / 2];
        println!("{way}: {cpu:.3} CPU s/GB, {rate:.2} GB/s, an answer {half:.1?} (p99 {nearly_all:.1?})");
    }
    Ok(())
}

fn answers(file: &Arc<File>) -> impl Iterator<Item = Extent> {
    let extent = |at| Extent { file: Arc::clone(file), offset: at * ANSWER_BYTES, len: ANSWER_BYTES };
    (0..ROUND_BYTES / ANSWER_BYTES).map(extent)
}

/// As the broker does it: a thread waits for the disk, `splice` sends.
fn by_warmer(file: &Arc<File>, sender: TcpStream) -> Outcomes<Vec<Duration>> {
    let counters = Arc::new(Counters::default());
    let mut engine = Engine::new(&Caps::probe(), Arc::clone(&counters));
    engine.report_cold(true);
    let warmer = Warmer::new(WarmerLimits::default(), counters);
    let mut trail = Trail::default();
    let mut waits = Vec::new();
    for extent in answers(file) {
        let start = Instant::now();
        let mut transfer = Transfer::new([Piece::Extent(extent)]);
        loop {
            match transfer.step(&mut engine, sender.as_fd(), 1 << 20)? {
                Turn::Done => break,
                Turn::Cold => {
                    let Some(warm) = transfer.cold(1 << 20) else { continue };
                    let (there, wait) = mpsc::channel();
                    warmer.submit(warm.once(&mut trail), move |warmed| {
                        let _ = there.send(warmed);
                    })?;
                    trail.follow(wait.recv()??);
                }
                Turn::Yield | Turn::Blocked => {}
            }
        }
        waits.push(start.elapsed());
    }
    Ok(waits)
}

/// Reads into registered buffers, and sends from them by plain sends, as on a route that copies.
fn by_ring(file: &Arc<File>, sender: TcpStream, access: InflowOptions) -> Outcomes<Vec<Duration>> {
    let mut ring = Ring::new(&RingOptions::default())?;
    let pool = BufferPool::new(256 << 10, 12)?;
    ring.register_buffers(&pool)?;
    let (counters, thresholds) = (Counters::default(), Thresholds::default());
    let mut outbox = Outbox::new(Arc::new(sender));
    // The next responses are read while one is sent, as the warmer reads ahead.
    let mut inflow = Inflow::new(answers(file), InflowOptions { depth: 8, ..access });
    let mut waits = Vec::new();
    let (mut reads, mut start, mut sent) = (Vec::new(), Instant::now(), 0);
    while sent < ROUND_BYTES {
        while let Some(piece) = inflow.next_piece() {
            outbox.push(piece);
        }
        reads.extend(inflow.submit(&mut ring, &pool));
        let before = outbox.queued_bytes();
        outbox.submit(&mut ring, Terms { budget: 1 << 20, may_refer: false, thresholds: &thresholds });
        ring.submit_and_wait(1, None)?;
        for completion in ring.reap() {
            if reads.contains(&completion.key) {
                reads.retain(|key| *key != completion.key);
                inflow.take_in(completion, &counters)?;
            } else if let Outcome::Failed(error) = outbox.take_in(completion, &counters) {
                return Err(error.into());
            }
        }
        let now = sent + before - outbox.queued_bytes();
        for _ in sent / ANSWER_BYTES..now / ANSWER_BYTES {
            waits.push(start.elapsed());
            start = Instant::now();
        }
        sent = now;
    }
    Ok(waits)
}

/// The same reads by a thread that waits for each, one response ahead.
fn by_thread(file: &Arc<File>, mut sender: TcpStream) -> Outcomes<Vec<Duration>> {
    let pool = BufferPool::new(1 << 20, 3)?;
    let (there, wait) = mpsc::sync_channel(1);
    let file = Arc::clone(file);
    let reader = std::thread::spawn(move || -> std::io::Result<()> {
        for extent in answers(&file) {
            let mut buffer = pool.take().ok_or(std::io::ErrorKind::StorageFull)?;
            let count = file.read_at(buffer.space(), extent.offset)?;
            buffer.set_len(count);
            if there.send(buffer).is_err() {
                break;
            }
        }
        Ok(())
    });
    let (mut waits, mut start) = (Vec::new(), Instant::now());
    for buffer in wait {
        sender.write_all(buffer.filled())?;
        waits.push(start.elapsed());
        start = Instant::now();
    }
    reader.join().map_err(|_| "the reader panicked")??;
    Ok(waits)
}

/// Sends one response of 200 bytes at a time to a socket with free buffer space, like most
/// responses.
fn small_answers() -> Outcomes<()> {
    const ANSWERS: u32 = 50_000;
    let answer = Bytes::from_static(&[7; 200]);
    let (mut sender, reader) = connection()?;
    let cpu = thread_cpu();
    for _ in 0..ANSWERS {
        sender.write_all(&answer)?;
    }
    let plain = (thread_cpu() - cpu) / ANSWERS;
    let sender = Arc::new(sender);
    let mut ring = Ring::new(&RingOptions::default())?;
    let cpu = thread_cpu();
    for _ in 0..ANSWERS {
        ring.push(Operation::send(Arc::clone(&sender), Memory::Bytes(answer.clone())))?;
        ring.submit_and_wait(1, None)?;
        ring.reap();
    }
    let through = (thread_cpu() - cpu) / ANSWERS;
    drop((sender, ring));
    reader.join().map_err(|_| "the reader panicked")?;
    println!("one small answer: {plain:.2?} of CPU by a call, {through:.2?} through a ring");
    Ok(())
}

/// Syncs four files together, each with one page written.
fn syncs(path: &Path) -> Outcomes<()> {
    const SYNCS: u32 = 100;
    let names = [0, 1, 2, 3].map(|at| path.with_extension(at.to_string()));
    let files = names.iter().map(|name| Ok(Arc::new(File::create(name)?))).collect::<Outcomes<Vec<_>>>()?;
    let mut ring = Ring::new(&RingOptions::default())?;
    for through in [false, true] {
        let (cpu, start) = (process_cpu(), Instant::now());
        for _ in 0..SYNCS {
            files.iter().try_for_each(|file| file.write_all_at(&[1; 4096], 0))?;
            if through {
                for file in &files {
                    ring.push(Operation::sync(Arc::clone(file)))?;
                }
                ring.submit_and_wait(files.len(), None)?;
                ring.reap();
            } else {
                std::thread::scope(|scope| {
                    files.iter().for_each(|file| drop(scope.spawn(|| file.sync_data())))
                });
            }
        }
        let (cpu, wait) = ((process_cpu() - cpu) / SYNCS, start.elapsed() / SYNCS);
        let by = if through { "a ring" } else { "threads of their own" };
        println!("four syncs by {by}: {cpu:.0?} of CPU, {wait:.0?}");
    }
    names.iter().for_each(|name| drop(std::fs::remove_file(name)));
    Ok(())
}
