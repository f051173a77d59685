//! Sockets that a service manager passes to the process, and the addresses that claim them.

use std::io;

use levada_process::handed;

use super::{Address, Bound};

/// Unclaimed sockets, in the order of the service manager.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    sockets: Vec<(String, Bound)>,
    /// Socket names that belong to an address; the address without a name does not use them.
    reserved: Vec<String>,
}

impl Handed {
    /// Claims all sockets that the environment names for this process. `addresses` contains those
    /// that will claim sockets.
    ///
    /// # Errors
    /// A socket is of a kind that cannot be served.
    pub(crate) fn take<'a>(addresses: impl Iterator<Item = &'a Address>) -> io::Result<Self> {
        let sockets = handed::sockets(|descriptors, index| match descriptors.take_tcp_listener(index) {
            Ok(tcp) => Ok(tcp.map(Bound::Tcp)),
            Err(_) => Ok(descriptors.take_unix_listener(index)?.map(Bound::Unix)),
        });
        let sockets = sockets.map_err(|(_, error)| error)?;
        let reserved = addresses.filter_map(|address| match address {
            Address::Inherited(name) => name.clone(),
            Address::Tcp(..) | Address::Unix(_) => None,
        });
        Ok(Self { sockets, reserved: reserved.collect() })
    }

    /// The sockets of a name; without a name, all sockets whose name no address has.
    ///
    /// # Errors
    /// There is no such socket.
    pub(super) fn claim(&mut self, name: Option<&str>) -> io::Result<Vec<Bound>> {
        let reserved = &self.reserved;
        let is_claimed = |given: &str| match name {
            Some(name) => given == name,
            None => !reserved.iter().any(|reserved| reserved == given),
        };
        let known: Vec<&str> = self.sockets.iter().map(|(given, _)| given.as_str()).collect();
        let absent = match (name, known.as_slice()) {
            (_, []) => "no socket was handed over (LISTEN_FDS)".to_owned(),
            (None, _) => "other addresses name all sockets that were handed over".to_owned(),
            (Some(_), known) => format!("LISTEN_FDNAMES has other names: {}", known.join(", ")),
        };
        let (claimed, rest) =
            std::mem::take(&mut self.sockets).into_iter().partition(|(given, _)| is_claimed(given));
        self.sockets = rest;
        let claimed: Vec<(String, Bound)> = claimed;
        if claimed.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, absent));
        }
        Ok(claimed.into_iter().map(|(_, socket)| socket).collect())
    }

    /// Name of a socket that no address has claimed.
    pub(crate) fn left_over(&self) -> Option<&str> {
        self.sockets.first().map(|(name, _)| name.as_str())
    }
}
