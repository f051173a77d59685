//! Set-up options of a ring.

/// The size of a ring, and the thread that does its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingOptions {
    /// Number of operations one submission takes; a longer chain cannot be linked.
    pub entries: u32,
    /// Maximum number of operations in flight, rounded up to a power of two.
    pub in_flight: u32,
    /// Thread that does the work.
    pub mode: Mode,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { entries: 128, in_flight: 1024, mode: Mode::Deferred }
    }
}

/// Threads that start operations and post completions. The first two exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The thread that owns the ring, in its own calls (`SINGLE_ISSUER | DEFER_TASKRUN`, Linux
    /// 6.1), without interrupts.
    Deferred,
    /// A kernel thread (`SQPOLL`) that takes operations without a call, and sleeps after `idle_ms`
    /// without one. It occupies a whole processor while it is awake.
    Polled {
        /// Idle time in ms after which the kernel thread sleeps.
        idle_ms: u32,
    },
    /// Any thread that the kernel interrupts, as in Linux before 6.1.
    Plain,
}
