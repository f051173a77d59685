//! A page of a mapping that cannot be brought in, because the file was cut or its disk failed,
//! raises `SIGBUS`. Here that becomes a mark on the mapping: the handler puts a page of zeroes in
//! its place, and the access continues.
//!
//! Only accesses inside [`Watched::touch`] are covered. Any other `SIGBUS` goes to the former
//! handler.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// State for the handler, complete before its installation.
struct Installed {
    page_bytes: usize,
    previous: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

thread_local! {
    /// The mapping that this thread is accessing. Neither initialised lazily nor dropped, so that
    /// the signal handler may read it.
    static TOUCHED: Cell<*const Watched> = const { Cell::new(ptr::null()) };
}

/// Range of a mapping, and a mark if a page of it was lost.
#[derive(Debug)]
pub(super) struct Watched {
    start: usize,
    bytes: usize,
    lost: AtomicBool,
}

impl Watched {
    /// Watches a mapping of `bytes` bytes at `start`, which must be the caller's for as long as
    /// this value lives: its pages may be replaced.
    pub(super) fn new(start: usize, bytes: usize) -> Self {
        INSTALLED.get_or_init(install);
        Self { start, bytes, lost: AtomicBool::new(false) }
    }

    /// Runs one access to the mapping, which must not panic.
    pub(super) fn touch<T>(&self, access: impl FnOnce() -> T) -> T {
        TOUCHED.set(self);
        // The handler runs on this thread, during the access: it must see the set values.
        compiler_fence(Ordering::SeqCst);
        let value = access();
        compiler_fence(Ordering::SeqCst);
        TOUCHED.set(ptr::null());
        value
    }

    /// True if bytes that were read may be zeroes instead of the file's, or written bytes are lost.
    /// The mark is permanent.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Puts zeroes where the page of `address` should be; returns true if the page is in a watched
    /// mapping. Runs in the handler: a system call and an atomic.
    fn replace(&self, address: usize, page_bytes: usize) -> bool {
        if !(self.start..self.start + self.bytes).contains(&address) {
            return false;
        }
        let page = (address - address % page_bytes) as *mut libc::c_void;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page lies in the mapping that the creator of `self` owns and is alive, since
        // its thread is just touching it; the page has no content to lose, and is only ever reached
        // as atomic words, for which zeroes are values, or written to.
        let mapped = unsafe { libc::mmap(page, page_bytes, prot, flags, -1, 0) };
        self.lost.store(true, Ordering::Relaxed);
        mapped == page
    }
}

fn install() -> Installed {
    let page_bytes = rustix::param::page_size();
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a zeroed `sigaction` is a valid one: no flags, no mask, the default handler.
    let installed = unsafe { action.assume_init_mut() };
    installed.sa_sigaction = on_sigbus as *const () as usize;
    installed.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both are valid `sigaction`s that outlive the call, and the handler is one for
    // `SA_SIGINFO`.
    let done = unsafe { libc::sigaction(libc::SIGBUS, action.as_ptr(), previous.as_mut_ptr()) };
    debug_assert_eq!(done, 0, "SIGBUS may be handled");
    // SAFETY: it was zeroed, which is a valid `sigaction`, and at most overwritten with another
    // one.
    Installed { page_bytes, previous: unsafe { previous.assume_init() } }
}

/// Async-signal-safe: a thread-local without initialiser, atomics, `mmap` and `sigaction`.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: `__errno_location` is always valid on a thread that runs.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is the thread's own errno.
    let before = unsafe { *errno };
    // SAFETY: the kernel gives a handler with `SA_SIGINFO` a valid `siginfo_t`.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: null, or set by `touch` on this thread, which has not returned, so that the mapping's
    // owner is borrowed.
    let touched = unsafe { TOUCHED.get().as_ref() };
    // Set before the first mapping is made; a signal before that is not for us either way.
    let installed = INSTALLED.get();
    let replaced =
        touched.zip(installed).is_some_and(|(touched, own)| touched.replace(address, own.page_bytes));
    if let Some(installed) = installed.filter(|_| !replaced) {
        // SAFETY: `previous` is what the kernel gave us for this signal; the access is tried again
        // and ends up there.
        unsafe { libc::sigaction(signal, &raw const installed.previous, ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}
