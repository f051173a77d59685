//! Measured programs: their environment, addresses and limits.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::{io, iter};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::error::LabError;

/// Returns a command without `LEVADA_` variables and with its own process group. Ctrl-C at a
/// terminal reaches only the laboratory, which completes its run. A program that may outlive this
/// process also needs a [`ProcessGroup`](crate::machine::interrupt::ProcessGroup).
pub(crate) fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.process_group(0);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LEVADA_") {
            command.env_remove(name);
        }
    }
    command
}

/// Ports of measured programs. The kernel uses other ports for outgoing connections, one of which
/// could otherwise take a port before its program listens on it.
const PORTS: Range<u16> = 10_000..20_000;

/// Returns free addresses. Each call continues after the ports of the previous one, so that
/// programs which do not listen yet have different ports.
pub(crate) fn free_addresses<const N: usize>() -> Result<[SocketAddr; N], LabError> {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::random()));
    let next = || {
        let port = PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS.len() as u16;
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    };
    let mut candidates = iter::repeat_with(next).take(PORTS.len());
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for address in &mut addresses {
        let free = candidates.find(|candidate| TcpListener::bind(candidate).is_ok());
        *address = free.ok_or_else(|| {
            let cause = io::Error::from(io::ErrorKind::AddrInUse);
            LabError::step(format!("no port from {} to {} is free", PORTS.start, PORTS.end - 1))(cause)
        })?;
    }
    Ok(addresses)
}

/// Raises the limit of open descriptors to `wanted` or the hard limit, for this process and its
/// children.
pub(crate) fn allow_descriptors(wanted: u64) -> Result<(), LabError> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        setrlimit(Resource::Nofile, limit).map_err(LabError::step("cannot raise the limit of open files"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, getpgid};

    use super::*;

    #[test]
    fn measured_program_has_its_own_process_group() {
        let mut child = bare(Path::new("sleep")).arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let group = getpgid(Some(pid));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(group.unwrap(), pid);
    }
}
