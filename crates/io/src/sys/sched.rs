//! Scheduling of the calling thread.

use std::io;

/// `sched_setscheduler(2)` with `SCHED_IDLE`, only for the calling thread.
pub(crate) fn idle_only() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 names the calling thread, and the kernel only reads the parameters, which outlive
    // the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
