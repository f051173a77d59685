//! Scheduling priority of threads that share a processor.

use std::io;

use crate::sys::sched;

/// Gives the calling thread the lowest priority (`SCHED_IDLE`): it runs almost only when no other
/// thread needs its processor.
///
/// # Errors
/// Not allowed here: containers may filter the system call.
pub fn last() -> io::Result<()> {
    sched::idle_only()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_calling_thread_lowers_its_priority() {
        // Field 41 of stat is the policy; 5 is SCHED_IDLE.
        let policy = |path: &str| -> u32 {
            let stat = std::fs::read_to_string(path).unwrap();
            let behind_the_name = stat.rsplit(") ").next().unwrap();
            behind_the_name.split_whitespace().nth(38).unwrap().parse().unwrap()
        };
        std::thread::scope(|scope| {
            let stepped_back = scope.spawn(|| super::last().map(|()| policy("/proc/thread-self/stat")));
            match stepped_back.join().unwrap() {
                Ok(now) => assert_eq!(now, 5),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
            }
        });
        assert_eq!(policy("/proc/thread-self/stat"), 0);
    }
}
