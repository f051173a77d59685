//! Runs jobs in parallel. The output of each goes to a file and is printed as a whole when the job
//! has ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::child::Child;
use super::idle::Idle;
use super::queue::Queue;
use super::summary::{self, Record};
use super::verdict::Verdict;
use super::{Company, Job, Then};

/// The pause after which the running jobs are named although none has ended.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The time over which the processors' idle share is measured.
const MEASURE: Duration = Duration::from_secs(3);

/// Messages of Cargo's to programs: they are read, not printed.
const MESSAGE: &str = "{\"reason\":";

/// Runs all jobs, at most `beside` shared ones immediately; their outputs stay in files of
/// `folder`. Fails if one of them does, after the others have run.
pub(crate) fn run(jobs: Vec<Job>, beside: usize, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut runner = Runner::new(beside, folder);
    for job in jobs {
        runner.add(job);
    }
    loop {
        runner.start_ready();
        if runner.running.is_empty() {
            return runner.close();
        }
        match runner.ended.1.recv_timeout(MEASURE) {
            Ok(ended) => runner.take(ended),
            Err(RecvTimeoutError::Timeout) => runner.observe(),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the runner itself has a sender"),
        }
    }
}

/// A job's end.
struct Ended {
    index: usize,
    /// The reason why it failed, if it did.
    failure: Option<String>,
    /// The first output, if that measurement failed and was repeated.
    first: Option<PathBuf>,
    took: Duration,
    /// Processor time that the job used.
    used: Duration,
}

struct Runner {
    queue: Queue,
    /// Jobs by the queue's indices; `None` once a job has started.
    jobs: Vec<Option<Job>>,
    running: Vec<(usize, Running)>,
    records: Vec<Record>,
    ended: (Sender<Ended>, Receiver<Ended>),
    folder: PathBuf,
    began: Instant,
    idle: Idle,
    /// Idle time of the processors since the start of the run.
    whole: Idle,
    /// Time of the last printed line.
    printed: Instant,
}

/// A started job's parts that are needed at its end.
struct Running {
    name: String,
    again: String,
    then: Option<Then>,
    since: Instant,
    expected: Option<Duration>,
    is_narrated: bool,
    output: PathBuf,
}

impl Running {
    /// Name and seconds so far, with the last line of a narrated job.
    fn describe(&self) -> String {
        let mut text = format!("{} {} s", self.name, self.since.elapsed().as_secs());
        let output = if self.is_narrated { fs::read_to_string(&self.output).ok() } else { None };
        if let Some(line) = output.as_deref().and_then(|output| output.lines().last()) {
            text += &format!(" ({})", line.trim());
        }
        text
    }
}

impl Runner {
    fn new(beside: usize, folder: &Path) -> Self {
        Self {
            queue: Queue::new(beside),
            jobs: Vec::new(),
            running: Vec::new(),
            records: Vec::new(),
            ended: channel(),
            folder: folder.to_owned(),
            began: Instant::now(),
            idle: Idle::new(),
            whole: Idle::new(),
            printed: Instant::now(),
        }
    }

    /// Between two ends of jobs: starts more jobs on idle processors, and prints the names of the
    /// running ones from time to time.
    fn observe(&mut self) {
        if let Some(share) = self.idle.share() {
            self.queue.observe_idle(share);
        }
        if self.printed.elapsed() >= SILENCE_MAX {
            println!("    {} {}", self.clock(), self.running());
            self.printed = Instant::now();
        }
    }

    fn add(&mut self, job: Job) {
        let index = self.queue.add(&job.name, job.needs, job.company);
        assert_eq!(index, self.jobs.len(), "the queue and the list of jobs have the same indices");
        self.jobs.push(Some(job));
    }

    fn start_ready(&mut self) {
        while let Some(index) = self.queue.start_next() {
            let job = self.jobs[index].take().expect("a job starts once");
            let Job { name, company, mut command, again, times, then, check, is_narrated, .. } = job;
            if let Some(reason) = check.and_then(|check| check().err()) {
                self.leave_out(index, name, reason);
                continue;
            }
            let output = self.folder.join(file_name(&name));
            let (sender, path, since) = (self.ended.0.clone(), output.clone(), Instant::now());
            std::thread::spawn(move || {
                let mut child = Child::new(&mut command, times, &path);
                let mut result = child.execute();
                let mut first = None;
                if company == Company::Alone && result.is_err() {
                    (result, first) = child.measure_again();
                }
                let (failure, took, used) = (result.err(), since.elapsed(), child.used());
                // The runner waits for every job that it has started.
                let _ = sender.send(Ended { index, failure, first, took, used });
            });
            let expected = times.expected;
            self.running.push((index, Running { name, again, then, since, expected, is_narrated, output }));
        }
    }

    /// Notes that a job cannot run on this machine. With `CI=true` that is a failure.
    fn leave_out(&mut self, index: usize, name: String, reason: String) {
        let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        println!("\n==> {} {name}: left out: {reason}", self.clock());
        self.queue.finish(index, !is_ci);
        self.records.push(Record::left_out(name, reason, is_ci));
    }

    /// Prints a job's output, adds the jobs that follow from it, and releases its place.
    fn take(&mut self, ended: Ended) {
        let Ended { index, mut failure, first, took, used } = ended;
        let position = self.running.iter().position(|(running, _)| *running == index);
        let (_, job) = self.running.swap_remove(position.expect("only running jobs end"));
        let output = fs::read(&job.output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let output = output.unwrap_or_else(|error| {
            failure.get_or_insert_with(|| format!("{}: {error}", job.output.display()));
            String::new()
        });
        if let Some(then) = job.then.filter(|_| failure.is_none()) {
            match then(&output) {
                Ok(jobs) => jobs.into_iter().for_each(|job| self.add(job)),
                Err(error) => failure = Some(error),
            }
        }
        let verdict = Verdict::new(&output, failure.is_none());
        self.queue.finish(index, failure.is_none());
        let Running { name, again, expected, .. } = job;
        let record = Record { name, verdict, took, used, expected, failure, first, again, left_out: None };
        self.print(&record, &output);
        self.printed = Instant::now();
        // The end of a job changes the load: the earlier share does not apply to the next jobs.
        self.idle = Idle::new();
        self.records.push(record);
    }

    fn print(&self, record: &Record, output: &str) {
        let (all, done) = self.queue.progress();
        println!("\n==> {} [{done} of {all}] {}; {}", self.clock(), record.line(), self.running());
        for line in output.lines().filter(|line| !line.starts_with(MESSAGE)) {
            println!("{line}");
        }
        if let Some(failure) = &record.failure {
            println!("error: {}: {failure}", record.name);
        }
    }

    /// Minutes and seconds since the start.
    fn clock(&self) -> String {
        let seconds = self.began.elapsed().as_secs();
        format!("{}:{:02}", seconds / 60, seconds % 60)
    }

    fn running(&self) -> String {
        let names: Vec<String> = self.running.iter().map(|(_, job)| job.describe()).collect();
        if names.is_empty() {
            "nothing else runs".to_owned()
        } else {
            format!("running: {}", names.join(", "))
        }
    }

    fn close(mut self) -> Result<(), String> {
        let idle = self.whole.share();
        summary::print(self.records, &self.queue.skipped(), self.began.elapsed(), idle)
    }
}

/// A job's name as that of a file.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(plain).collect::<String>() + ".txt"
}

#[cfg(test)]
mod tests;
