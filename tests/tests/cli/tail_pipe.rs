//! `tail -F app.log | levada produce logs` and `levada consume logs -G readers` run while the
//! broker is restarted again and again: no line is lost, none is shown twice.
//!
//! Suite: long; 3 s
//! Soak: lasts 30 s

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use levada_testing::long_run;
use levada_tests::node::Kind;
use levada_tests::tool::Conversation;
use levada_tests::{Node, await_some, paths, process};
use rustix::process::Signal;

/// Duration of a long run for each unit of its scale. A short run restarts the broker immediately.
const LONG_RUN: Duration = Duration::from_secs(30);
/// Number of restarts in one run.
const RESTARTS: u32 = 10;
/// Number of lines that are written without a pause.
const BURST: usize = 100;
const LIMIT: Duration = Duration::from_secs(120);

/// The pipe on the producing side. Dropping it ends both processes.
struct Pipe {
    tail: Child,
    produce: Child,
}

impl Pipe {
    fn open(node: &Node, file: &Path) -> Self {
        let mut tail = Command::new("tail");
        tail.args(["-n", "+1", "-F"]).arg(file).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut tail = tail.spawn().expect("tail");
        let lines = tail.stdout.take().expect("stdout was asked for");
        let mut produce = Command::new(paths::binary());
        produce.args(["produce", "logs", "--brokers", &node.bootstrap()]).stdin(lines);
        Self { tail, produce: produce.spawn().expect("levada produce") }
    }

    /// Ends the input; the producer must end well.
    fn close(mut self) {
        self.tail.kill().expect("the process is ours");
        let status =
            await_some("the end of levada produce", LIMIT, || self.produce.try_wait().expect("wait"));
        assert!(status.success(), "levada produce: {status}");
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for child in [&mut self.tail, &mut self.produce] {
            // Both fail only if the process has ended already, which is the goal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The lines that were written and those that were shown.
struct Ledger {
    log: File,
    written: usize,
    shown: Vec<bool>,
    /// The last line of each partition.
    last: [Option<usize>; 3],
}

impl Ledger {
    fn write(&mut self) {
        let lines: String =
            (self.written..self.written + BURST).map(|number| format!("line {number}\n")).collect();
        self.log.write_all(lines.as_bytes()).expect("room");
        self.written += BURST;
        self.shown.resize(self.written, false);
    }

    /// Takes what the consumer prints until every line has been shown.
    fn catch_up(&mut self, consumer: &mut Conversation) {
        while self.shown.contains(&false) {
            let line = consumer.line(LIMIT);
            let mut words = line.split(' ');
            let (partition, number) = (words.next(), words.nth(1));
            let partition: usize = partition.and_then(|word| word.parse().ok()).expect("a partition");
            let number: usize = number.and_then(|word| word.parse().ok()).expect("a number");
            assert!(!self.shown[number], "line {number} is shown twice");
            self.shown[number] = true;
            assert!(self.last[partition] < Some(number), "partition {partition} is out of order: {line}");
            self.last[partition] = Some(number);
        }
    }
}

#[test]
fn no_line_is_lost_or_repeated_across_restarts() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let between = long_run(LONG_RUN).unwrap_or_default() / RESTARTS;
    let mut node = Node::started();
    node.levada("topic create logs --partitions 3").run();
    let file = node.scratch().join("app.log");
    let log = File::create(&file).expect("room");
    let mut ledger = Ledger { log, written: 0, shown: Vec::new(), last: [None; 3] };
    let pipe = Pipe::open(&node, &file);
    let mut command = node.levada("consume logs -G readers");
    let mut consumer = command.args(["-f", "%p %v\\n"]).spawn();
    for restart in 0..RESTARTS {
        let since = Instant::now();
        // At least once: only then are both connected, and a first connection is not repeated.
        loop {
            ledger.write();
            ledger.catch_up(&mut consumer);
            if since.elapsed() >= between {
                break;
            }
        }
        ledger.write();
        match restart % 2 {
            0 => node.kill(),
            _ => drop(node.stop()),
        }
        ledger.write();
        node.start();
        ledger.write();
        ledger.catch_up(&mut consumer);
    }
    pipe.close();
    process::signal(consumer.pid(), Signal::INT);
    assert_eq!(consumer.finish(LIMIT), [""; 0], "lines that were never written");
    let said = node.levada("consume logs -G readers --exit").run();
    assert_eq!(said.stdout, "", "everything that was shown is committed");
    println!("{} lines", ledger.written);
}
