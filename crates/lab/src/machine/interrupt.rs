//! Ctrl-C: the current run completes, the record keeps all measured values, and temporary files are
//! removed.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Leaders of the process groups that must end with this process.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// The user's request to stop.
#[derive(Debug)]
pub struct Interrupt;

impl Interrupt {
    /// Handles SIGINT and SIGTERM for the rest of the process. The first signal requests a stop.
    /// The second one ends the measured programs and this process immediately; files without a name
    /// are removed even then.
    pub fn catch() {
        // The call fails only if other code already handles the signals, which then end the
        // process.
        let _ = ctrlc::set_handler(|| {
            if ASKED.swap(true, Ordering::Relaxed) {
                end(&GROUPS.lock());
                std::process::exit(130);
            }
        });
    }

    /// True if the user requested a stop.
    pub fn asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }
}

/// The process group of a measured program. No signal from the terminal reaches the group, so that
/// the current run completes. The group ends with this process.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    leader: i32,
}

impl ProcessGroup {
    /// Registers the group of a leader. The caller drops the value when the leader has ended.
    pub(crate) fn of(leader: &Child) -> Self {
        let leader = leader.id().cast_signed();
        GROUPS.lock().insert(leader);
        Self { leader }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        GROUPS.lock().remove(&self.leader);
    }
}

fn end(groups: &BTreeSet<i32>) {
    for group in groups.iter().filter_map(|leader| Pid::from_raw(*leader)) {
        // The call fails only if the group has ended already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;

    #[test]
    fn second_signal_kills_every_measured_program() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let leader = child.id().cast_signed();
        let group = ProcessGroup::of(&child);
        assert!(GROUPS.lock().contains(&leader));
        // Only this group, because other tests have programs of their own.
        end(&BTreeSet::from([leader]));
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        drop(group);
        assert!(!GROUPS.lock().contains(&leader));
    }
}
