//! Blocks `SIGPIPE` for the calling thread.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// True if the process ignores `SIGPIPE`, as Rust's runtime does at the start by default.
pub(crate) fn is_ignored() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; `action` is valid for writing one `sigaction`.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: `action` was zeroed, which is a valid `sigaction`, and at most overwritten with
    // another one.
    let action = unsafe { action.assume_init() };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// While it exists, a `SIGPIPE` that a system call of this thread raises stays pending; dropping it
/// discards that signal and restores the thread's mask. A signal that was pending before stays
/// pending.
#[derive(Debug)]
pub(crate) struct SigpipeGuard {
    mask: libc::sigset_t,
    pending_before: bool,
    /// Signal masks belong to threads, so this may not move to another one.
    thread: PhantomData<*const ()>,
}

impl SigpipeGuard {
    pub(crate) fn new() -> Self {
        let pending_before = is_pending();
        let only_pipe = only_sigpipe();
        let mut mask = empty_set();
        // SAFETY: both sets are initialised and outlive the call.
        let blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &only_pipe, &mut mask) };
        debug_assert_eq!(blocked, 0, "SIG_BLOCK with a valid set cannot fail");
        Self { mask, pending_before, thread: PhantomData }
    }
}

impl Drop for SigpipeGuard {
    fn drop(&mut self) {
        if !self.pending_before {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: set and time are initialised and outlive the call; a null info pointer is
            // allowed. It waits for nothing.
            unsafe { libc::sigtimedwait(&only_sigpipe(), ptr::null_mut(), &now) };
        }
        // SAFETY: `mask` is what `new` got from the kernel on this thread (`SigpipeGuard` is not
        // `Send`); a null old set is allowed.
        let restored = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, ptr::null_mut()) };
        debug_assert_eq!(restored, 0, "SIG_SETMASK with a valid set cannot fail");
    }
}

fn is_pending() -> bool {
    let mut pending = empty_set();
    // SAFETY: `pending` is valid for writing a set.
    unsafe { libc::sigpending(&mut pending) };
    // SAFETY: `pending` is an initialised set and the signal number is valid.
    (unsafe { libc::sigismember(&pending, libc::SIGPIPE) }) == 1
}

fn only_sigpipe() -> libc::sigset_t {
    let mut set = empty_set();
    // SAFETY: `set` is an initialised set and the signal number is valid.
    unsafe { libc::sigaddset(&mut set, libc::SIGPIPE) };
    set
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is valid for writing a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` initialises the whole set and cannot fail for a valid pointer.
    unsafe { set.assume_init() }
}

#[cfg(test)]
mod tests;
