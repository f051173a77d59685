//! Memory that a server needs for each idle connection, without the kernel's own memory for
//! sockets. The server must be new, because a process does not return used memory.

use crate::error::LabError;
use crate::harness::process;
use crate::method::experiment::{Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// Number of connections before the first measurement of memory.
const WARM_UP: usize = 10;

pub(super) fn metrics() -> Vec<Metric> {
    vec![
        Metric::less("kib_per_connection", "memory a connection", "KiB"),
        Metric::less("resident_mb", "memory", "MB"),
    ]
}

/// Measures process `pid` with this number of connections. `answered` opens a connection and
/// receives one response on it; `again` receives another response.
pub(super) fn run<C>(
    pid: u32,
    (count, pass): (usize, Pass),
    answered: impl Fn() -> Result<C, LabError>,
    again: impl Fn(&mut C) -> Result<(), LabError>,
) -> Result<Outcome, LabError> {
    let connections = |count| (0..count).map(|_| answered()).collect::<Result<Vec<C>, _>>();
    // Exclude the allocations that happen only for the first requests.
    let first = connections(WARM_UP)?;
    let before = process::resident_bytes(pid);
    let mut open = connections(count)?;
    let after = process::resident_bytes(pid);
    if pass == Pass::Integrity {
        open.iter_mut().try_for_each(again)?;
        let what = format!("{} connections answered again", open.len());
        return Ok(Outcome::Checked(Verdict { sound: open.len() == count, what }));
    }
    drop((first, open));
    let kib = after.saturating_sub(before) as f64 / 1024.0 / count as f64;
    Ok(Outcome::Measured(Metrics::from([
        ("kib_per_connection".to_owned(), kib),
        ("resident_mb".to_owned(), after as f64 / 1e6),
    ])))
}
