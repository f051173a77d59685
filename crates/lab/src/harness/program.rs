//! Measured programs: their environment, addresses and limits.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::error::LabError;

/// A command that inherits no setting of ours.
pub(crate) fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LEVADA_") {
            command.env_remove(name);
        }
    }
    command
}

/// Free ports, taken all at once so that they differ.
pub(crate) fn free_addresses<const N: usize>() -> Result<[SocketAddr; N], LabError> {
    let bind = || TcpListener::bind("127.0.0.1:0").map_err(LabError::step("no port is free"));
    let listeners = (0..N).map(|_| bind()).collect::<Result<Vec<_>, _>>()?;
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    for (address, listener) in addresses.iter_mut().zip(&listeners) {
        *address = listener.local_addr().map_err(LabError::step("a listener has an address"))?;
    }
    Ok(addresses)
}

/// Raises the limit of open descriptors, for this process and those that it starts.
pub(crate) fn allow_descriptors(wanted: u64) -> Result<(), LabError> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        setrlimit(Resource::Nofile, limit).map_err(LabError::step("cannot raise the limit of open files"))?;
    }
    Ok(())
}
