//! Samples by perf, a separate process that starts and stops sampling on commands over a pipe.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};

use super::{FREQUENCY, Seen};
use crate::error::LabError;

/// perf, which samples a process on command.
pub(super) struct Perf {
    child: Child,
    data: PathBuf,
    orders: File,
    answers: File,
}

/// Common prefix of the tracepoints of system calls.
const TRACEPOINT: &str = "syscalls:sys_enter_";

/// Limit for an answer of perf on a busy machine, and the polling interval.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);

impl Perf {
    /// Starts perf to sample stacks of this process, with its files in `dir`. None if perf is not
    /// available or not permitted.
    pub(super) fn sampling(dir: &Path) -> Option<Self> {
        let frequency = FREQUENCY.to_string();
        let what = ["record", "--quiet", "-e", "cpu-clock", "-g", "-F", &frequency];
        Self::start(dir, std::process::id(), &what)
    }

    /// Starts perf to sample stacks of another process. perf finds the frames by unwinding tables,
    /// because the program may have no frame pointers.
    pub(super) fn sampling_other(dir: &Path, pid: u32) -> Option<Self> {
        let frequency = FREQUENCY.to_string();
        let what = ["record", "--quiet", "-e", "cpu-clock", "--call-graph", "dwarf,8192", "-F", &frequency];
        Self::start(dir, pid, &what)
    }

    /// Starts perf to count system calls by their tracepoints.
    pub(super) fn counting(dir: &Path, calls: &[&str]) -> Option<Self> {
        let tracepoints: Vec<String> = calls.iter().map(|call| format!("{TRACEPOINT}{call}")).collect();
        Self::start(dir, std::process::id(), &["stat", "-x,", "-e", &tracepoints.join(",")])
    }

    fn start(dir: &Path, pid: u32, what: &[&str]) -> Option<Self> {
        let (orders, answers, data) = (dir.join("orders"), dir.join("answers"), dir.join("data"));
        for path in [&orders, &answers] {
            rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).ok()?;
        }
        // Open for read and write, so that neither side waits for the other.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let both_ways =
            |path: &Path| File::options().read(true).write(true).custom_flags(flags).open(path).ok();
        let (order_file, answer_file) = (both_ways(&orders)?, both_ways(&answers)?);
        let mut command = Command::new("perf");
        command.args(what).arg("--delay=-1");
        command.arg(format!("--control=fifo:{},{}", orders.display(), answers.display()));
        command.arg("-p").arg(pid.to_string()).arg("-o").arg(&data);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let mut perf = Self { child, data, orders: order_file, answers: answer_file };
        // The first answer comes once perf has attached itself. Without permission, perf ends
        // instead.
        if perf.order("disable") {
            Some(perf)
        } else {
            perf.end();
            None
        }
    }

    pub(super) fn enable(&mut self) {
        self.order("enable");
    }

    pub(super) fn disable(&mut self) {
        self.order("disable");
    }

    /// Sends a command to perf. Returns true once perf has executed it.
    fn order(&mut self, order: &str) -> bool {
        if writeln!(self.orders, "{order}").is_err() {
            return false;
        }
        let mut answer = [0; 16];
        let start = Instant::now();
        loop {
            // Not `poll`, because perf may count that system call.
            match (&self.answers).read(&mut answer) {
                Ok(count) => return answer[..count].starts_with(b"ack"),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return false,
                Err(_) if start.elapsed() > PATIENCE || !matches!(self.child.try_wait(), Ok(None)) => {
                    return false;
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Interrupts perf, which then writes its file, and waits for its end.
    fn end(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The call fails only if the process has ended already.
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.child.wait();
    }

    /// Ends perf and returns the number of each system call.
    pub(super) fn counted(mut self) -> Result<Seen, LabError> {
        self.end();
        let text = std::fs::read_to_string(&self.data)
            .map_err(LabError::step("cannot read the output of perf stat"))?;
        // `COUNT,,syscalls:sys_enter_CALL,…`
        let call = |line: &str| {
            let mut fields = line.split(',');
            let count = fields.next()?.parse().ok()?;
            Some((fields.nth(1)?.strip_prefix(TRACEPOINT)?.to_owned(), count))
        };
        Ok(text.lines().filter_map(call).collect())
    }

    /// Ends perf and returns the number of samples of each stack.
    pub(super) fn sampled(mut self) -> Result<Seen, LabError> {
        self.end();
        let mut script = Command::new("perf");
        script.args(["script", "--no-inline", "-i"]).arg(&self.data);
        let script = script.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let script = script.map_err(LabError::step("cannot run perf script"))?;
        let mut folded = Vec::new();
        let mut options = Options::default();
        options.annotate_kernel = true;
        let collapsed = Folder::from(options).collapse(BufReader::new(&script.stdout[..]), &mut folded);
        collapsed.map_err(LabError::step("cannot read the output of perf script"))?;
        let text = String::from_utf8_lossy(&folded);
        let stack = |line: &str| {
            let (stack, count) = line.rsplit_once(' ')?;
            Some((stack.to_owned(), count.parse().ok()?))
        };
        Ok(text.lines().filter_map(stack).collect())
    }
}
