//! Growth of the cost of work with its size. Other work on the machine does not count.

/// Processor time of this thread. The kernel brings the figure up to date when the thread yields.
fn processor_ns() -> u64 {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}

/// The processor time of work of eight times the size, as a multiple of that of the size: about
/// 8 if the cost is linear, 64 if it is quadratic.
pub fn growth<R, W: FnOnce() -> R>(size: usize, prepare: impl Fn(usize) -> W) -> f64 {
    let once = |size| {
        let work = prepare(size);
        let begun = processor_ns();
        let result = work();
        let cost = processor_ns() - begun;
        drop(result);
        cost
    };
    let best = |size| (0..3).map(|_| once(size)).min().unwrap_or(0).max(1) as f64;
    best(8 * size) / best(size)
}
