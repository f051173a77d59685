//! Listening sockets that a service manager passes to the broker (socket activation: `LISTEN_FDS`).
//! Their names identify the listeners.

use std::net::TcpListener;

use levada_process::handed;

/// Name of the socket for `/healthz` and `/metrics`.
pub(super) const HTTP: &str = "http";

/// The reason why the sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HandedError {
    /// No listener has the name of a socket.
    #[error(
        "LISTEN_FDNAMES: no listener has the name of socket {name:?}; set FileDescriptorName= to one of {known}, or add the listener"
    )]
    Unknown {
        /// The name of the socket.
        name: String,
        /// The names that a socket may have.
        known: String,
    },
    /// Two sockets have the name of one listener.
    #[error(
        "LISTEN_FDNAMES: listener {name} was passed more than one socket; use one ListenStream= for it, and define another listener for each further address"
    )]
    Repeated {
        /// The name of the sockets.
        name: String,
    },
    /// A socket is of another kind.
    #[error("LISTEN_FDS: socket {name:?} cannot be used: {source}; expected a listening TCP socket")]
    Unusable {
        /// The name of the socket.
        name: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Unclaimed sockets, by name.
#[derive(Default)]
pub(super) struct Handed {
    sockets: Vec<(String, TcpListener)>,
}

impl Handed {
    /// Takes the sockets that the environment names, if it names any for this process.
    pub(super) fn take() -> Result<Self, HandedError> {
        let sockets = handed::sockets(|descriptors, index| {
            let socket = descriptors.take_tcp_listener(index)?;
            if let Some(socket) = &socket {
                socket.set_nonblocking(true)?;
            }
            Ok(socket)
        });
        let sockets = sockets.map_err(|(name, source)| HandedError::Unusable { name, source })?;
        Ok(Self { sockets })
    }

    /// The socket of this name, in upper or lower case.
    pub(super) fn claim(&mut self, name: &str) -> Option<TcpListener> {
        let place = self.sockets.iter().position(|(given, _)| given.eq_ignore_ascii_case(name))?;
        Some(self.sockets.swap_remove(place).1)
    }

    /// Fails if a socket is left over. `known` are the names that were claimed.
    pub(super) fn finish(self, known: &[&str]) -> Result<(), HandedError> {
        match self.sockets.into_iter().next() {
            None => Ok(()),
            Some((name, _)) if known.iter().any(|known| known.eq_ignore_ascii_case(&name)) => {
                Err(HandedError::Repeated { name })
            }
            Some((name, _)) => Err(HandedError::Unknown { name, known: known.join(", ") }),
        }
    }
}
