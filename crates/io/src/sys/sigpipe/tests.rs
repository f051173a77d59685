//! Tests of the signal mask, in child processes where the signal would kill.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::tests::{caps, child, content, engine, extent, file_of, role, sockets};
use crate::{Thresholds, Transfer, TransferError};

fn take_default() {
    // SAFETY: restores the default disposition, which runs no code of ours; this process runs this
    // test only.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    assert_ne!(before, libc::SIG_ERR);
    assert!(!is_ignored());
}

#[test]
fn rust_programs_ignore_sigpipe_from_start() {
    assert!(is_ignored());
}

#[test]
fn send_to_closed_socket_is_error_without_signal() {
    const NAME: &str = "sys::sigpipe::tests::send_to_closed_socket_is_error_without_signal";
    if role().is_none() {
        for path in ["splice", "sendfile", "copy"] {
            let output = child(NAME, path);
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("survived"), "{path}: {:?}", output.status);
        }
        // Without the engine the same call kills: the engine's care is needed.
        assert_eq!(child(NAME, "bare").status.signal(), Some(libc::SIGPIPE));
        return;
    }
    take_default();
    let path = role().unwrap();
    let file = file_of(&content(100_000));
    let (sender, receiver) = sockets(true, false);
    drop(receiver);
    if path == "bare" {
        for _ in 0..10 {
            let _ = rustix::fs::sendfile(&sender, &file, Some(&mut 0), 1000);
        }
        return;
    }
    let mut engine = engine(&caps(path == "splice", path == "sendfile"), Thresholds::default());
    for _ in 0..10 {
        let error = Transfer::new([extent(&file, 0, 100_000)]).step(&mut engine, sender.as_fd(), 1 << 20);
        if !matches!(error, Ok(_) | Err(TransferError::Peer { .. })) {
            panic!("{error:?}");
        }
    }
    assert!(!is_pending());
    println!("survived");
}

#[test]
fn sigpipe_guard_restores_mask_and_keeps_older_signals() {
    const NAME: &str = "sys::sigpipe::tests::sigpipe_guard_restores_mask_and_keeps_older_signals";
    if role().is_none() {
        let output = child(NAME, "alone");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    take_default();
    let raise = || {
        // SAFETY: raising a blocked signal runs no code.
        let raised = unsafe { libc::raise(libc::SIGPIPE) };
        assert_eq!(raised, 0);
    };
    let outer = SigpipeGuard::new();
    raise();
    assert!(is_pending());
    drop(SigpipeGuard::new());
    assert!(is_pending(), "a signal that was pending before was swallowed");
    drop(outer);
    assert!(!is_pending());
    let mut mask = empty_set();
    // SAFETY: a null new set changes nothing; `mask` is valid for writing a set.
    let asked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask) };
    // SAFETY: `mask` is an initialised set and the signal number is valid.
    let blocked = unsafe { libc::sigismember(&mask, libc::SIGPIPE) };
    assert_eq!((asked, blocked), (0, 0));
}
