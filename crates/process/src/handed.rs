//! Listening sockets that a service manager passes to the process (socket activation:
//! `LISTEN_FDS`), with their names (`LISTEN_FDNAMES`).

use std::io;

use listenfd::ListenFd;

/// Name that systemd gives to a socket without one.
const NAMELESS: &str = "unknown";

/// Takes all sockets that the environment names for this process, in the order of the service
/// manager. `take` takes the socket of an index, as a socket of a kind that the program serves.
///
/// # Errors
/// Name of the first socket that `take` refuses, and the reason.
pub fn sockets<T>(
    take: impl Fn(&mut ListenFd, usize) -> io::Result<Option<T>>,
) -> Result<Vec<(String, T)>, (String, io::Error)> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut descriptors = ListenFd::from_env();
    let mut sockets = Vec::new();
    for index in 0..descriptors.len() {
        let name = names.next().filter(|name| !name.is_empty()).unwrap_or(NAMELESS).to_owned();
        match take(&mut descriptors, index) {
            Ok(socket) => sockets.extend(socket.map(|socket| (name, socket))),
            Err(error) => return Err((name, error)),
        }
    }
    Ok(sockets)
}
