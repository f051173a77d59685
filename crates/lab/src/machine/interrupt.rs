//! Ctrl-C: the current run completes, measured values are kept, and temporary files are removed.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Process groups that end with this process, by their leaders.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// The user's request to stop.
#[derive(Debug)]
pub struct Interrupt;

impl Interrupt {
    /// Handles SIGINT and SIGTERM for the rest of the process. The first one requests a stop, the
    /// second one ends the measured programs and the process immediately; files without a name are
    /// removed even then.
    pub fn catch() {
        // Other code handles the signals, and ends the process.
        let _ = ctrlc::set_handler(|| {
            if ASKED.swap(true, Ordering::Relaxed) {
                end(&GROUPS.lock());
                std::process::exit(130);
            }
        });
    }

    /// True if a stop was requested.
    pub fn asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }
}

/// The process group of a measured program. A signal from the terminal does not reach it, so that
/// the present run completes; it ends with this process all the same.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    leader: i32,
}

impl ProcessGroup {
    /// Of the leader of a group. Drop it when the leader has ended.
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
        // The group may have ended already, which is the goal.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_second_signal_leaves_no_measured_program_behind() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let leader = child.id().cast_signed();
        let group = ProcessGroup::of(&child);
        assert!(GROUPS.lock().contains(&leader));
        // Other tests have programs of their own.
        end(&BTreeSet::from([leader]));
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        drop(group);
        assert!(!GROUPS.lock().contains(&leader));
    }
}
