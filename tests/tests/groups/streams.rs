//! A Kafka Streams application counts words exactly once, while it and the broker are killed.
//!
//! Suite: long; 50 s; needs java, kcat, python
//! Soak: scale 4, repeated
//! Soak: controllers 3

use std::time::Duration;

use levada_testing::{scaled, seed};
use levada_tests::tool::Conversation;
use levada_tests::words::{self, Words};
use levada_tests::{Node, Tool, await_some, process};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(120);
const CRASHES: usize = 5;

/// A broker, an application that counts, and a writer of words.
struct Scene {
    node: Node,
    random: StdRng,
    /// None between its death and its successor's start.
    application: Option<Conversation>,
    /// None after the last word.
    speaker: Option<Conversation>,
    words: Words,
}

impl Scene {
    fn set(seed: u64) -> Self {
        let mut node = Node::new()
            .option("group.initial.rebalance.delay.ms", "0")
            .option("group.min.session.timeout.ms", "1000")
            .option("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
            // The changelog is compacted all the time, and so are the coordinators' own topics.
            .option("log.roll.ms", "300")
            .option("log.cleaner.min.cleanable.ratio", "0.01")
            .option("log.cleaner.backoff.ms", "100");
        node.start();
        for topic in words::TOPICS {
            Tool::python("topics.py").args([&node.bootstrap(), topic, "3"]).run();
        }
        let application = start(&node, "state");
        let speaker = Some(words::writer(&node.bootstrap()).spawn());
        let [random, words] = [seed, !seed].map(StdRng::seed_from_u64);
        Self { node, random, application: Some(application), speaker, words: Words::new(words) }
    }

    fn say(&mut self, lines: usize) {
        for _ in 0..lines {
            self.speaker.as_mut().expect("it runs").say(&self.words.line());
        }
    }

    /// Has the application count for a while, and leaves it with words to count.
    fn go_on(&mut self) {
        self.say(200);
        let mut application = self.application.take().expect("it runs");
        while application.line_now().is_some() {}
        for _ in 0..self.random.random_range(2..8) {
            while !application.line(LIMIT).starts_with("counted") {}
            self.say(10);
        }
        self.application = Some(application);
        std::thread::sleep(Duration::from_micros(self.random.random_range(0..60_000)));
    }

    /// Continues until a member that was considered dead has noticed it and has part of the work
    /// again.
    fn take_back(&mut self, woken: &mut Conversation) {
        self.say(100);
        let mut application = self.application.take().expect("it runs");
        let mut noticed = false;
        await_some("the woken one to count", LIMIT, || {
            while let Some(line) = application.line_now() {
                if line.starts_with("counted") {
                    self.say(10);
                }
            }
            while let Some(line) = woken.line_now() {
                noticed |= line == "REBALANCING";
                if noticed && line.starts_with("counted") {
                    return Some(());
                }
            }
            None
        });
        self.application = Some(application);
    }

    /// Ends the input and then the application; each word must have been counted as often as it was
    /// written.
    fn check(&mut self) {
        let (all, bootstrap) = (self.words.len(), self.node.bootstrap());
        self.speaker.take().expect("it runs").finish(LIMIT);
        await_some("every word counted", LIMIT, || (words::counts(&bootstrap).len() >= all).then_some(()));
        self.application.take().expect("it runs").finish(LIMIT);
        let counts = words::counts(&bootstrap);
        println!("{all} words said, {} counts committed", counts.len());
        self.words.assert_counted(&counts);
    }

    fn crash(&mut self) {
        let (broker, application) =
            [(true, false), (false, true), (true, true)][self.random.random_range(0..3)];
        println!("kill broker: {broker}, application: {application}");
        if broker {
            self.node.kill();
        }
        if application {
            self.application.take().expect("it runs").kill();
            // Its machine may be lost with it: then no successor has the names of its producers,
            // and only time ends its transactions.
            if self.random.random_bool(0.3) {
                println!("state lost");
                std::fs::remove_dir_all(self.node.scratch().join("state")).expect("a state directory");
            }
        }
        if broker {
            self.node.start();
        }
        if application {
            self.application = Some(start(&self.node, "state"));
        }
    }
}

/// Starts the application; `state` is the directory of its state.
fn start(node: &Node, state: &str) -> Conversation {
    let mut tool = words::application(&node.bootstrap(), &node.scratch().join(state));
    tool.arg("main.consumer.session.timeout.ms=2000");
    tool.args(["main.consumer.heartbeat.interval.ms=300", "producer.transaction.timeout.ms=4000"]);
    tool.spawn()
}

#[test]
fn streams_word_count_is_exact_across_crashes() {
    let mut scene = Scene::set(seed());
    for _ in 0..scaled(CRASHES) {
        scene.go_on();
        scene.crash();
    }
    scene.check();
    reset(&scene.node);
    scene.node.stop();
}

/// A member that does not answer is removed, and others do its work; when it wakes it must not
/// finish the work that it had begun.
#[test]
fn paused_streams_application_counts_nothing_twice() {
    let mut scene = Scene::set(seed());
    for state in ["second", "third"] {
        scene.go_on();
        let mut paused = scene.application.take().expect("it runs");
        process::signal(paused.pid(), Signal::STOP);
        while paused.line_now().is_some() {}
        scene.application = Some(start(&scene.node, state));
        scene.go_on();
        process::signal(paused.pid(), Signal::CONT);
        scene.take_back(&mut paused);
        paused.kill();
    }
    scene.check();
    scene.node.stop();
}

/// Kafka's tool puts the application back to its beginning: its members out, its positions to the
/// start, its internal topics away.
fn reset(node: &Node) {
    let mut resetter = Tool::java("org.apache.kafka.tools.StreamsResetter");
    resetter.args(["--bootstrap-server", &node.bootstrap(), "--application-id", "word-count", "--force"]);
    resetter.args(["--input-topics", "lines"]);
    let said = await_some("the reset", LIMIT, || match resetter.outcome() {
        (Some(0), said) => Some(said.stdout),
        // The last member left between the tool's two requests about the group, which the tool does
        // not expect.
        (_, said) if said.stderr.contains("leaving members should not be empty") => None,
        (code, said) => panic!("StreamsResetter: {code:?}\n{}\n{}", said.stdout, said.stderr),
    });
    let internal = ["word-count-totals-changelog", "word-count-words-repartition"];
    assert!(said.contains("Topic: lines Partition: 2 Offset: 0"), "{said}");
    assert!(internal.iter().all(|topic| said.contains(topic)), "{said}");
    await_some("no internal topics", LIMIT, || {
        let listing = Tool::kcat().args(["-L", "-b", &node.bootstrap()]).run().stdout;
        (!internal.iter().any(|topic| listing.contains(topic))).then_some(())
    });
}
