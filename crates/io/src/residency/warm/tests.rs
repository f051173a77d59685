//! Tests of the warmer.

use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::residency::{self, Residency};
use crate::sys::calls;
use crate::tests::{ALL_MEANS, chilled, content, file_of};

const LEN: u64 = 6 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

fn warmer(threads: usize, queued: usize) -> (Warmer, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    (Warmer::new(WarmerLimits { threads, queued }, Arc::clone(&counters)), counters)
}

fn request(file: &Arc<File>, offset: u64, len: u64) -> Warm {
    let extent = Extent { file: Arc::clone(file), offset, len };
    Warm::of(extent, Vec::new())
}

/// Submits and waits for the end; how many bytes are there.
fn warm(warmer: &Warmer, warm: Warm) -> io::Result<u64> {
    follow(warmer, warm).map(|warmed| warmed.there)
}

fn follow(warmer: &Warmer, warm: Warm) -> io::Result<Warmed> {
    let (sender, receiver) = mpsc::channel();
    warmer.submit(warm, move |outcome| sender.send(outcome).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn warmed_range_is_resident() {
    if crate::tests::blind("warmed_range_is_resident") {
        return;
    }
    let file = file_of(&content(LEN as usize));
    let (warmer, counters) = warmer(2, 10);
    let range = request(&file, 4097, LEN - 5000);
    let extent = range.extent.clone();
    let cold = chilled(&file);
    assert_eq!(residency::of(&extent, ALL_MEANS) != Residency::Resident, cold);
    assert_eq!(warm(&warmer, range).unwrap(), LEN - 5000);
    assert_eq!(residency::of(&extent, ALL_MEANS), Residency::Resident);
    assert_eq!(counters.snapshot().warmed(), LEN - 5000);
}

#[test]
fn warm_threads_run_at_lower_priority() {
    let file = file_of(&content(4096));
    let (warmer, _) = warmer(1, 10);
    let (sender, receiver) = mpsc::channel();
    let here = || rustix::process::getpriority_process(None).unwrap();
    let before = here();
    let submitted = warmer.submit(request(&file, 0, 4096), move |_| sender.send(here()).unwrap());
    submitted.unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), NICE);
    assert_eq!(here(), before);
}

#[test]
fn warmer_reads_ahead_and_drops_passed_pages() {
    if crate::tests::blind("warmer_reads_ahead_and_drops_passed_pages") {
        return;
    }
    let file = file_of(&content(LEN as usize));
    let (warmer, counters) = warmer(1, 10);
    let cold = chilled(&file);
    let mut first = request(&file, 0, 4096);
    first.ahead.push(Extent { file: Arc::clone(&file), offset: LEN - (1 << 20), len: 1 << 20 });
    warm(&warmer, first).unwrap();
    // Pages that are still being read in count.
    let ahead = calls::cached_pages(file.as_fd(), LEN - (1 << 20), 1 << 20);
    assert!(ahead.is_ok_and(|pages| pages == 256) || calls::cached_pages(file.as_fd(), 0, 0).is_err());

    let whole = Extent { file: Arc::clone(&file), offset: 0, len: LEN };
    warm(&warmer, request(&file, 0, LEN)).unwrap();
    let mut last = request(&file, 0, 0);
    last.behind.push(whole.clone());
    assert_eq!(warm(&warmer, last).unwrap(), 0);
    assert_eq!(residency::of(&whole, ALL_MEANS) == Residency::Cold, cold);
    assert_eq!(counters.snapshot().dropped_behind(), LEN);
}

#[test]
fn warming_past_file_end_is_short() {
    let file = file_of(&content(10_000));
    let (warmer, _) = warmer(1, 10);
    assert_eq!(warm(&warmer, request(&file, 9_000, 5_000)).unwrap(), 1_000);
    assert_eq!(warm(&warmer, request(&file, 20_000, 5_000)).unwrap(), 0);
    assert!(warm(&warmer, request(&file, u64::MAX - 5, 100)).is_err());
}

#[test]
fn without_a_sink_pages_are_read() {
    let file = file_of(&content(LEN as usize));
    let whole = Extent { file: Arc::clone(&file), offset: 3, len: LEN - 3 };
    chilled(&file);
    assert_eq!(bring_in(&whole, None).unwrap(), LEN - 3);
    assert_eq!(residency::of(&whole, ALL_MEANS), Residency::Resident);
    // A sink that takes no pages, and a file that gives none, lead there too.
    let refuses = File::open("/dev/null").unwrap();
    assert_eq!(bring_in(&whole, Some(&refuses)).unwrap(), LEN - 3);
}

/// A request whose end waits for the gate: it keeps its thread meanwhile.
fn block(warmer: &Warmer, file: &Arc<File>) -> mpsc::Sender<()> {
    let (entered, wait) = mpsc::channel();
    let (gate, opened) = mpsc::channel::<()>();
    let done = move |_| {
        entered.send(()).unwrap();
        let _ = opened.recv();
    };
    warmer.submit(request(file, 0, 1), done).unwrap();
    wait.recv_timeout(PATIENCE).unwrap();
    gate
}

#[test]
fn full_warm_queue_returns_the_request() {
    let file = file_of(b"bytes");
    let (warmer, _) = warmer(1, 2);
    let gate = block(&warmer, &file);
    let (sender, receiver) = mpsc::channel();
    for number in 0..2 {
        let sender = sender.clone();
        warmer.submit(request(&file, 0, 5), move |_| sender.send(number).unwrap()).unwrap();
    }
    let QueueFull(refused) = warmer.submit(request(&file, 1, 4), |_| unreachable!()).unwrap_err();
    assert_eq!((refused.extent.offset, refused.extent.len), (1, 4));
    drop(gate);
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(0), "served in order");
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(1));
}

#[test]
fn one_slow_warm_request_does_not_block_others() {
    let file = file_of(b"bytes");
    let (warmer, _) = warmer(2, 10);
    let gate = block(&warmer, &file);
    for _ in 0..3 {
        assert_eq!(warm(&warmer, request(&file, 0, 5)).unwrap(), 5);
    }
    assert_eq!(warmer.shared.lock().threads, 2);
    drop(gate);
}

#[test]
fn dropped_warmer_discards_waiting_requests() {
    let file = file_of(b"bytes");
    let (warmer, _) = warmer(1, 10);
    let gate = block(&warmer, &file);
    let (sender, receiver) = mpsc::channel();
    warmer.submit(request(&file, 0, 5), move |_| sender.send(()).unwrap()).unwrap();
    drop(warmer);
    assert!(receiver.recv_timeout(PATIENCE).is_err(), "neither called nor dropped");
    drop(gate);
}

#[test]
fn pages_read_once_are_dropped() {
    if crate::tests::blind("pages_read_once_are_dropped") {
        return;
    }
    const STEP: u64 = 1 << 20;
    let file = file_of(&content(24 << 20));
    let (warmer, counters) = warmer(1, 10);
    let cold = chilled(&file);
    let mut trail = Trail::default();
    for number in 0..24 {
        let warmed = follow(&warmer, request(&file, number * STEP, STEP).once(&mut trail)).unwrap();
        trail.follow(warmed);
    }
    if !cold {
        return;
    }
    // The last request dropped what was ripe before it.
    assert!(trail.len() <= Trail::LAG_BYTES + (2 << 20) + STEP, "{}", trail.len());
    assert_eq!(counters.snapshot().dropped_behind() + trail.len(), 24 * STEP);
    let start = Extent { file: Arc::clone(&file), offset: 0, len: 16 << 20 };
    assert_eq!(residency::of(&start, ALL_MEANS) == Residency::Cold, cold);
}

#[test]
fn warmer_keeps_previously_resident_pages() {
    if crate::tests::blind("warmer_keeps_previously_resident_pages") {
        return;
    }
    const STEP: u64 = 1 << 20;
    const ALL: u64 = 24 * STEP;
    let file = file_of(&content(ALL as usize));
    file.sync_all().unwrap();
    let gap = Extent { file: Arc::clone(&file), offset: 9 * STEP + 8192, len: 4096 * 10 };
    drop_from_cache(&gap);
    if residency::of(&gap, ALL_MEANS) != Residency::Cold {
        return;
    }
    let (warmer, counters) = warmer(1, 10);
    let mut trail = Trail::default();
    for number in 0..24 {
        let mut step = request(&file, number * STEP, STEP);
        step.ahead.push(Extent { file: Arc::clone(&file), offset: (number + 1) * STEP, len: STEP });
        let warmed = follow(&warmer, step.once(&mut trail)).unwrap();
        trail.follow(warmed);
    }
    let last = Warm::behind(trail.finish()).unwrap();
    assert_eq!(
        last.behind.iter().map(|extent| (extent.offset, extent.len)).collect::<Vec<_>>(),
        [(gap.offset, gap.len)]
    );
    warm(&warmer, last).unwrap();
    assert_eq!(counters.snapshot().dropped_behind(), gap.len);
    let whole = Extent { file: Arc::clone(&file), offset: 0, len: ALL };
    assert_eq!(residency::cached_bytes(&whole), Some(ALL - gap.len));
    assert!(Warm::behind(Vec::new()).is_none());
}

#[test]
fn panicking_warm_job_ends_no_thread() {
    let file = file_of(&content(1 << 20));
    let (warmer, _) = warmer(1, 10);
    let (sender, receiver) = mpsc::channel();
    let panics = move |_| {
        sender.send(()).unwrap();
        panic!("on purpose");
    };
    warmer.submit(request(&file, 0, 4096), panics).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!(warm(&warmer, request(&file, 0, 1 << 20)).unwrap(), 1 << 20, "the only thread still works");
}
