//! The process of a job: its output in a file, its time limit, and its processor time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::Times;

/// The process of a job, or one after the other.
pub(super) struct Child<'a> {
    command: &'a mut Command,
    times: Times,
    output: &'a Path,
    used: Duration,
}

impl<'a> Child<'a> {
    /// Nothing runs yet. `output` will be made.
    pub(super) fn new(command: &'a mut Command, times: Times, output: &'a Path) -> Self {
        Self { command, times, output, used: Duration::ZERO }
    }

    /// Processor time of the ended child processes, and of those for which they have waited.
    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// Runs the command with its output in the file, once and then again until the time is over or
    /// it fails.
    pub(super) fn execute(&mut self) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", self.output.display());
        let file = File::create(self.output).map_err(failed)?;
        let began = Instant::now();
        loop {
            let copies = file.try_clone().and_then(|out| Ok((out, file.try_clone()?)));
            let (out, errors) = copies.map_err(failed)?;
            self.command.stdin(Stdio::null()).stdout(out).stderr(errors);
            self.execute_once()?;
            if began.elapsed() >= self.times.lasts {
                return Ok(());
            }
        }
    }

    /// Runs a failed measurement once more, because the machine may have been busy. The first
    /// output moves to another file, whose path is returned.
    pub(super) fn measure_again(&mut self) -> (Result<(), String>, Option<PathBuf>) {
        let first = self.output.with_extension("first.txt");
        if let Err(error) = fs::rename(self.output, &first) {
            return (Err(format!("{}: {error}", first.display())), None);
        }
        (self.execute(), Some(first))
    }

    fn execute_once(&mut self) -> Result<(), String> {
        let name = self.command.get_program().to_string_lossy().into_owned();
        let failed = |error| format!("{name}: {error}");
        let mut child = self.command.spawn().map_err(failed)?;
        let (began, limit) = (Instant::now(), self.times.limit());
        while !has_ended(&child).map_err(failed)? {
            if began.elapsed() > limit {
                // The process may be ending at this moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} minutes", limit.as_secs() / 60));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.used += processor_time(child.id()).unwrap_or_default();
        let status = child.wait().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(status.to_string()) }
    }
}

/// True if the process has ended; its figures remain until it is waited for.
fn has_ended(child: &process::Child) -> std::io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(rustix::process::waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
}

fn processor_time(process: u32) -> Option<Duration> {
    let ticks = parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Reads `/proc/PID/stat`: ticks in user mode and in the kernel, then those of the children. The
/// name, in parentheses, may contain spaces.
fn parse(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let ticks: Vec<u64> =
        rest.split_whitespace().skip(11).take(4).map_while(|word| word.parse().ok()).collect();
    (ticks.len() == 4).then(|| ticks.iter().sum())
}

#[cfg(test)]
mod tests;
