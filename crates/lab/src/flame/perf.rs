//! Samples by perf, a process beside this one that is told over a pipe when to look.

use std::fs::File;
use std::io::{BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};

use super::{FREQUENCY, Stacks};
use crate::error::LabError;

/// perf, looking at this process when told to.
pub(super) struct Perf {
    child: Child,
    data: PathBuf,
    orders: File,
    answers: File,
}

/// So long perf may take to answer.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

impl Perf {
    /// Starts perf with its files in `dir`; none if it cannot be had or may not look.
    pub(super) fn start(dir: &Path) -> Option<Perf> {
        let (orders, answers, data) = (dir.join("orders"), dir.join("answers"), dir.join("data"));
        for path in [&orders, &answers] {
            rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).ok()?;
        }
        // Opened both ways, so that nobody waits for the other.
        let both_ways = |path: &Path| File::options().read(true).write(true).open(path).ok();
        let (order_file, answer_file) = (both_ways(&orders)?, both_ways(&answers)?);
        let mut command = Command::new("perf");
        command.args([
            "record",
            "--quiet",
            "-e",
            "cpu-clock",
            "-g",
            "--delay=-1",
            "-F",
            &FREQUENCY.to_string(),
        ]);
        command.arg(format!("--control=fifo:{},{}", orders.display(), answers.display()));
        command.arg("-p").arg(std::process::id().to_string()).arg("-o").arg(&data);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let mut perf = Perf { child, data, orders: order_file, answers: answer_file };
        // The first answer comes when perf has attached itself. perf that may not look has ended by then.
        match perf.order("disable") {
            true => Some(perf),
            false => {
                perf.end();
                None
            }
        }
    }

    pub(super) fn enable(&mut self) {
        self.order("enable");
    }

    pub(super) fn disable(&mut self) {
        self.order("disable");
    }

    /// Whether perf has done as told.
    fn order(&mut self, order: &str) -> bool {
        if writeln!(self.orders, "{order}").is_err() {
            return false;
        }
        let mut answer = [0; 16];
        let mut fds = [PollFd::from_borrowed_fd(self.answers.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&PATIENCE)) == Ok(1)
            && rustix::io::read(&self.answers, &mut answer)
                .is_ok_and(|count| answer[..count].starts_with(b"ack"))
    }

    /// Ends perf. It writes its file when it is interrupted.
    fn end(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.child.wait();
    }

    /// Ends, and reads what was seen.
    pub(super) fn finish(mut self) -> Result<Stacks, LabError> {
        self.end();
        let mut script = Command::new("perf");
        script.args(["script", "--no-inline", "-i"]).arg(&self.data);
        let script = script.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let script = script.map_err(LabError::step("cannot run perf script"))?;
        let mut folded = Vec::new();
        let collapsed =
            Folder::from(Options::default()).collapse(BufReader::new(&script.stdout[..]), &mut folded);
        collapsed.map_err(LabError::step("cannot read what perf script says"))?;
        let text = String::from_utf8_lossy(&folded);
        let stack = |line: &str| {
            let (stack, count) = line.rsplit_once(' ')?;
            Some((stack.to_owned(), count.parse().ok()?))
        };
        Ok(text.lines().filter_map(stack).collect())
    }
}
