//! Runs external programs: kcat, the Java tools, Python scripts. A program that fails or exceeds
//! its deadline fails the test and shows its output.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{await_some, paths};

/// A program to be run.
pub struct Tool {
    command: Command,
    name: String,
    limit: Duration,
    stdin: Stdio,
    stdout: Option<File>,
}

/// Output of a program.
#[derive(Debug)]
pub struct Said {
    /// Standard output; empty if it went to a file.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Tool {
    /// The main class of one of the Java tools.
    pub fn java(class: &str) -> Self {
        Self::jvm(&paths::class_path(), paths::kafka_flags(), class)
    }

    /// A program of `tests/java`. It logs nothing.
    pub fn own_java(class: &str) -> Self {
        Self::own_java_at("OFF", class)
    }

    /// A program of `tests/java` whose standard output has the lines of Kafka's log from this level
    /// on.
    pub fn own_java_at(level: &str, class: &str) -> Self {
        let level = format!("-Dlog4j2.level={level}");
        let flags = paths::JVM_FLAGS.into_iter().map(str::to_owned).chain([level]);
        Self::jvm(&paths::own_class_path(), flags.collect(), class)
    }

    /// A program of `tests/java` with the classes of the next Kafka version.
    pub fn newer_java(class: &str) -> Self {
        let flags = paths::JVM_FLAGS.into_iter().chain(["-Dlog4j2.level=OFF"]);
        Self::jvm(&paths::newer_class_path(), flags.map(str::to_owned).collect(), class)
    }

    /// A program of `tests/newer-kafka`. It logs nothing.
    pub fn newer_source(name: &str) -> Self {
        let flags = paths::JVM_FLAGS.into_iter().chain(["-Dlog4j2.level=OFF"]);
        let source = paths::newer_program(name).display().to_string();
        Self::jvm(&paths::newer_class_path(), flags.map(str::to_owned).collect(), &source)
    }

    fn jvm(class_path: &str, flags: Vec<String>, class: &str) -> Self {
        let mut command = Command::new("java");
        command.arg("-Xmx512m").args(flags).arg("-cp").arg(class_path).arg(class);
        Self::new(command, class.rsplit('.').next().unwrap_or(class))
    }

    /// A script of `tests/python`.
    pub fn python(script: &str) -> Self {
        let mut command = Command::new(paths::python());
        command.arg("-B").arg(paths::script(script)).env("PYTHONUNBUFFERED", "1");
        Self::new(command, script)
    }

    /// A script of `tests/python` that needs Confluent's serializers.
    pub fn schemas_python(script: &str) -> Self {
        let mut command = Command::new(paths::schemas_python());
        command.arg("-B").arg(paths::script(script)).env("PYTHONUNBUFFERED", "1");
        Self::new(command, script)
    }

    /// A schema registry, which still needs its address.
    pub fn schema_registry() -> Self {
        let mut command = Command::new(paths::newer_java());
        command.args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar"]);
        command.arg(paths::schema_registry());
        Self::new(command, "apicurio")
    }

    /// A program of `tests/go`; none if there was no Go to build it with.
    pub fn go(program: &str) -> Option<Self> {
        let path = paths::go_program(program);
        path.exists().then(|| Self::new(Command::new(path), program))
    }

    /// A program in JavaScript, with the packages of `tests/javascript`; none if they could not be
    /// installed.
    pub fn node(program: &Path) -> Option<Self> {
        let mut command = Command::new("node");
        command.arg(program).env("NODE_PATH", paths::javascript()?.join("node_modules"));
        Some(Self::new(command, "node"))
    }

    /// kcat.
    pub fn kcat() -> Self {
        Self::new(Command::new("kcat"), "kcat")
    }

    /// The stacks of all threads of a Java process.
    pub fn stacks(pid: u32) -> Self {
        let mut tool = Self::new(Command::new("jstack"), "jstack");
        tool.arg(pid.to_string());
        tool
    }

    /// promtool.
    pub fn promtool() -> Self {
        Self::new(Command::new(paths::prometheus("promtool")), "promtool")
    }

    /// A Prometheus server, which still needs its configuration.
    pub fn prometheus() -> Self {
        Self::new(Command::new(paths::prometheus("prometheus")), "prometheus")
    }

    /// A server of the protocol of S3 over a directory.
    pub fn object_server() -> Self {
        Self::new(Command::new(paths::object_server()), "s3s-fs")
    }

    /// A browser that shows nothing and keeps to itself.
    pub fn chromium() -> Self {
        let mut tool = Self::new(Command::new("chromium"), "chromium");
        tool.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--virtual-time-budget=10000",
        ]);
        tool
    }

    /// The binary under test.
    pub fn levada() -> Self {
        Self::new(Command::new(paths::binary()), "levada")
    }

    fn new(command: Command, name: &str) -> Self {
        // Only a program that hangs needs as long, on however busy a machine.
        let limit = Duration::from_secs(600);
        Self { command, name: name.to_string(), limit, stdin: Stdio::null(), stdout: None }
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<str>) -> &mut Self {
        self.command.arg(argument.as_ref());
        self
    }

    /// Adds arguments.
    pub fn args<const N: usize>(&mut self, arguments: [&str; N]) -> &mut Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of its environment.
    pub fn variable(&mut self, name: &str, value: &str) -> &mut Self {
        self.command.env(name, value);
        self
    }

    /// Reads standard input from a file.
    pub fn stdin(&mut self, path: &Path) -> &mut Self {
        self.stdin = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into();
        self
    }

    /// Writes standard output to a file.
    pub fn stdout(&mut self, path: &Path) -> &mut Self {
        let file = File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.stdout = Some(file);
        self
    }

    /// Lets the program run no longer than this.
    pub fn within(&mut self, limit: Duration) -> &mut Self {
        self.limit = limit;
        self
    }

    /// Runs to the end; fails the test if the program does.
    pub fn run(&mut self) -> Said {
        let (code, said) = self.outcome();
        assert_eq!(code, Some(0), "{}:\n{}\n{}", self.name, said.stdout, said.stderr);
        said
    }

    /// Runs to the end; returns the exit code and the output.
    pub fn outcome(&mut self) -> (Option<i32>, Said) {
        let stdin = std::mem::replace(&mut self.stdin, Stdio::null());
        let stdout = self.stdout.take().map_or_else(Stdio::piped, Stdio::from);
        self.command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        let text = |reader: Option<JoinHandle<String>>| {
            reader.map(|reader| reader.join().expect("no panic")).unwrap_or_default()
        };
        let ended = std::time::Instant::now() + self.limit;
        let status = loop {
            match child.try_wait().expect("wait") {
                Some(status) => break Some(status),
                None if std::time::Instant::now() > ended => break None,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        if status.is_none() {
            // Fails only when the process has ended this instant.
            let _ = child.kill();
            child.wait().expect("wait");
        }
        let said = Said { stdout: text(stdout), stderr: text(stderr) };
        let Some(status) = status else {
            panic!("{} still ran after {:?}:\n{}\n{}", self.name, self.limit, said.stdout, said.stderr)
        };
        (status.code(), said)
    }

    /// Starts the program, to be talked to line by line.
    pub fn spawn(&mut self) -> Conversation {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout was asked for");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Conversation { child, stdin, lines, name: self.name.clone() }
    }
}

fn collect(mut source: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).expect("a pipe can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A program that runs in parallel with the test. Dropping it kills it.
pub struct Conversation {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    name: String,
}

impl Conversation {
    /// The next line of its output; fails the test if none comes in time.
    pub fn line(&mut self, limit: Duration) -> String {
        match self.lines.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("{} said nothing for {limit:?}", self.name),
            Err(RecvTimeoutError::Disconnected) => panic!("{} has ended", self.name),
        }
    }

    /// A line that has been printed already, if any.
    pub fn line_now(&mut self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True if it has ended by itself, which must be well.
    pub fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().expect("wait");
        status.inspect(|status| assert!(status.success(), "{}: {status}", self.name)).is_some()
    }

    /// Writes a line to the program's standard input.
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// Waits until it ends by itself, which must be well.
    pub fn finish(mut self, limit: Duration) -> Vec<String> {
        self.await_end(limit);
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv() {
            lines.push(line);
        }
        lines
    }

    /// Closes its standard input, and waits until it ends by itself, which must be well.
    pub fn await_end(&mut self, limit: Duration) {
        self.stdin = None;
        let status = await_some(&self.name, limit, || self.child.try_wait().expect("wait"));
        assert!(status.success(), "{}: {status}", self.name);
    }

    /// Kills it without an orderly end.
    pub fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("wait");
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Both fail only if the process has ended already, which is the goal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
