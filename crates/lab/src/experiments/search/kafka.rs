//! Kafka's own search: its class `FileRecords`, in a separate virtual machine, on the same file and
//! for the same offsets.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use crate::harness::bench::Bench;
use crate::harness::program::bare;

const PROGRAM: &str = include_str!("FileRecordsSearch.java");

/// Names of the cases with Kafka, and their names in the program.
pub(super) const WAYS: [(&str, &str); 2] =
    [("Kafka, last offset of each", "each"), ("Kafka, searchForOffsetFromPosition", "search")];

/// A Java virtual machine that has opened the log.
#[derive(Debug)]
pub(super) struct Kafka {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Results of several lookups.
pub(super) struct Searched {
    /// Position and size of each batch.
    pub(super) found: Vec<(u64, u64)>,
    pub(super) took: Vec<Duration>,
    /// Processor time of the thread that executed the lookups.
    pub(super) cpu: Duration,
}

impl Kafka {
    /// Compiles the program and starts it.
    ///
    /// # Errors
    /// The reason why this machine cannot run the program, as text.
    pub(super) fn start(bench: &Bench, libs: &Path, log: &File) -> Result<Self, String> {
        let source = bench.dir().join("FileRecordsSearch.java");
        std::fs::write(&source, PROGRAM)
            .map_err(|error| format!("cannot write {}: {error}", source.display()))?;
        let mut command = bare(Path::new("java"));
        command.arg("-cp").arg(libs.join("*")).arg(&source);
        // The file has no name in a directory.
        command.arg(format!("/proc/{}/fd/{}", std::process::id(), log.as_raw_fd()));
        let said =
            File::create(bench.dir().join("FileRecordsSearch.said")).map_err(|error| error.to_string())?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        let mut child = command.spawn().map_err(|error| format!("cannot run java: {error}"))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("java has no standard streams".to_owned());
        };
        let mut kafka = Self { child, orders, answers: BufReader::new(answers) };
        let mut ready = String::new();
        match kafka.answers.read_line(&mut ready) {
            Ok(_) if ready.trim_end() == "ready" => Ok(kafka),
            _ => {
                let said =
                    std::fs::read_to_string(bench.dir().join("FileRecordsSearch.said")).unwrap_or_default();
                let first = said.lines().next().unwrap_or("the program ended without output").to_owned();
                Err(format!("Kafka's FileRecords of {} failed to start: {first}", libs.display()))
            }
        }
    }

    /// Looks up offsets from file positions on.
    pub(super) fn search(
        &mut self,
        way: &str,
        questions: impl ExactSizeIterator<Item = (u64, i64)>,
    ) -> io::Result<Searched> {
        let count = questions.len();
        let order = questions
            .fold(format!("{way} {count}\n"), |text, (from, offset)| text + &format!("{from} {offset}\n"));
        self.orders.write_all(order.as_bytes())?;
        self.orders.flush()?;
        let mut searched = Searched {
            found: Vec::with_capacity(count),
            took: Vec::with_capacity(count),
            cpu: Duration::ZERO,
        };
        for _ in 0..count {
            let [at, size, ns] = self.numbers()?;
            searched.found.push((at, size));
            searched.took.push(Duration::from_nanos(ns));
        }
        let [cpu_ns] = self.numbers()?;
        searched.cpu = Duration::from_nanos(cpu_ns);
        Ok(searched)
    }

    fn numbers<const N: usize>(&mut self) -> io::Result<[u64; N]> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        numbers.try_into().map_err(|_| io::Error::other(format!("java sent {line:?}")))
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
