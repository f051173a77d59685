//! The cost of the costliest requests of a megabyte, for every API and version: memory, processor
//! time, bytes of the response, and the time that another client waits that produces meanwhile. The
//! figures have bounds, and are in docs/operating/hostile-requests.md, which `LEVADA_BLESS=1`
//! writes again. `LEVADA_TEST_APIS=3,24` measures these alone. At scale 10 the broker has ten times
//! as many topics, groups and members.
//!
//! With `LEVADA_TEST_CONTROLLERS=1` the broker is one of a cluster, and the same bounds hold for
//! requests that it forwards. The page has the figures of a broker that is its own controller.
//!
//! Noise of the machine can only make a figure larger. So one that is above its bound is measured
//! again with a broker that has just started, a few times, and the smallest counts. The time of the
//! shard's thread says how long a request can hold up others at most, whatever else the machine
//! does.
//!
//! Costs are measured with a broker on each processor, then the delays of others with one broker
//! and nothing beside it.
//!
//! Suite: long, alone; 85 s
//! Soak: scale 10
//! Soak: controllers 1

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use levada_testing::is_long;
use levada_tests::hostile::{KNOWN, Layout, REQUEST_BYTES, Shape, layouts, shapes, world};
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Decoder, Encoder, Outcome};
use levada_tests::{Node, await_some, paths, process};

const MIB: u64 = 1 << 20;
const MEMORY_MAX: u64 = 32 * REQUEST_BYTES as u64 + 16 * MIB;
const ANSWER_MAX: u64 = 100 * REQUEST_BYTES as u64;
/// Processor time of the shard's thread for a request. If the request is answered elsewhere, the
/// thread receives it and sends the response.
const SHARD_MAX: Duration = Duration::from_millis(50);
/// Processor time of the shard's thread for a request that the shard answers itself, yielding to
/// others in between.
const SHARD_YIELDING_MAX: Duration = Duration::from_millis(250);
/// Time that another client's request may take beyond the longest time that it takes without
/// requests of other clients.
const STALL_MAX: Duration = Duration::from_millis(50);
/// No promise: a request that takes longer than this has a defect.
const CPU_MAX: Duration = Duration::from_secs(3);
/// Number of measurements of a request whose figures are above a bound.
const TRIES: usize = 4;
/// Number of measurements of another client's wait, until it is within its bound.
const STALL_TRIES: usize = 8;
/// Memory that a broker has kept beyond its start before another one is measured.
const KEPT_MAX: u64 = 8 * MIB;

const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;
/// APIs that the shard answers in steps, between which its other connections continue.
const YIELDING: [i16; 2] = [0, 1];
/// APIs whose answers wait for other members.
const WAITING: [i16; 2] = [11, 14];

/// Requests that end the member of the group, or remove the subjects of other requests.
const ENDING: [i16; 6] = [11, 13, 14, 20, 42, 47];

const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";

/// Client that sends the hostile request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    /// A user whom no access control entry lets do anything.
    Stranger,
    /// A user who may do everything.
    Anybody,
}

/// A broker on one processor, so that all clients are on the same shard, with a topic, a group and
/// a transactional id.
struct Target {
    node: Node,
    guarded: std::net::SocketAddr,
    resident: u64,
    /// A member of the group: it goes with its connection.
    _member: Connection,
    processor: usize,
}

impl Target {
    fn start(processor: usize) -> Self {
        let mut node = Node::new()
            .option("node.id", "1")
            .option("auto.create.topics.enable", "true")
            .option("offsets.topic.num.partitions", "1")
            .option("transaction.state.log.num.partitions", "1")
            .option("group.initial.rebalance.delay.ms", "0")
            // Members stay for as long as the broker does.
            .option("group.consumer.max.session.timeout.ms", "3600000")
            .option("group.consumer.session.timeout.ms", "3600000")
            .option("authorizer.class.name", AUTHORIZER)
            .option("super.users", "User:ANONYMOUS")
            .option("inter.broker.listener.name", "PLAINTEXT")
            .option("sasl.enabled.mechanisms", "PLAIN")
            .option(
                "listener.name.client.plain.sasl.jaas.config",
                &format!("{PLAIN} required user_eve=\"eve\";"),
            );
        // The shell stays, so that the broker is its child as below any wrapper.
        node.wrap(&["sh", "-c", &format!("taskset -c {processor} \"$@\"; exit $?"), "sh"]);
        let guarded = node.listen("CLIENT", "SASL_PLAINTEXT");
        node.start();
        let member = furnish(&node);
        let resident = process::resident_bytes(node.pid());
        Self { node, guarded, resident, _member: member, processor }
    }

    fn start_again(&mut self) {
        *self = Self::start(self.processor);
    }

    fn connect(&self, who: Who, key: i16) -> Connection {
        if who == Who::Anybody {
            return Connection::open(self.node.address());
        }
        let mut connection = Connection::open(self.guarded);
        if key != SASL_HANDSHAKE && key != SASL_AUTHENTICATE {
            let head = |key: i16| Encoder::default().i16(key).i16(1).i32(7).string("eve");
            connection.call(&head(SASL_HANDSHAKE).string("PLAIN").done());
            let said = connection.call(&head(SASL_AUTHENTICATE).bytes(b"\0eve\0eve").done());
            let mut said = Decoder::new(&said);
            assert_eq!((said.i32(), said.i16()), (7, 0), "eve comes in");
        }
        connection
    }
}

/// Makes what hostile requests name: a topic with records of many producers, a group with positions
/// and a member, a transactional id; and the others of [`world`]. The connection is the member's.
fn furnish(node: &Node) -> Connection {
    const SOON: Duration = Duration::from_secs(20);
    let mut connection = Connection::open(node.address());
    for topic in [KNOWN, "stall"] {
        let created = connection.call(&raw::create_topic(topic, 10));
        assert_eq!(raw::topic_error(&created), 0, "{topic}");
    }
    world::make_topics(&mut connection);
    node.await_metadata();
    for producer in 0..50 {
        let batch = Batch { producer: (1_000 + producer, 0, 0), ..Batch::of(&[b"record"]) }.encode();
        assert_eq!(raw::produce_error(&connection.call(&raw::produce(KNOWN, -1, &batch))), 0);
    }
    let joined = await_some("a coordinator", SOON, || {
        connection.call(&raw::find_coordinator(KNOWN));
        let commit =
            Encoder::default().i16(8).i16(2).i32(7).string("raw").string(KNOWN).i32(-1).string("").i64(-1);
        let commit = commit.i32(1).string(KNOWN).i32(1).i32(0).i64(0).string(&"m".repeat(4_000));
        connection.call(&commit.done());
        // A session of half an hour.
        let join = Encoder::default().i16(11).i16(2).i32(7).string("raw").string(KNOWN).i32(1_800_000);
        let join = join.i32(1_000).string("").string("consumer").i32(1).string("range").bytes(&[]);
        let joined = raw::joined(&connection.call(&join.done()));
        (joined.error == 0).then_some(joined)
    });
    let sync = raw::sync_group(KNOWN, (joined.generation, &joined.member), &vec![7; 100_000]);
    assert_eq!(raw::sync_error(&connection.call(&sync)), 0);
    world::commit_positions(&mut connection, (joined.generation, &joined.member));
    world::join_crowd(&mut connection);
    await_some("a transaction coordinator", SOON, || {
        let find = Encoder::default().i16(10).i16(1).i32(7).string("raw").string(KNOWN).i8(1);
        connection.call(&find.done());
        let begin = Encoder::default().i16(22).i16(1).i32(7).string("raw").string(KNOWN).i32(60_000);
        let said = connection.call(&begin.done());
        let mut said = Decoder::new(&said);
        let (_, _, error) = (said.i32(), said.i32(), said.i16());
        (error == 0).then_some(())
    });
    connection
}

/// The figures of one request.
struct Figures {
    memory: u64,
    cpu: Duration,
    /// Processor time of the shard's thread.
    shard: Duration,
    answer: u64,
}

impl Figures {
    fn are_within_bounds(&self, key: i16) -> bool {
        let times = is_debug() || (self.cpu <= CPU_MAX && self.shard <= shard_max(key));
        self.memory <= memory_max(key, self.answer) && self.answer <= ANSWER_MAX && times
    }

    /// The smaller value of each figure of two measurements.
    fn or(self, other: Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            cpu: self.cpu.min(other.cpu),
            shard: self.shard.min(other.shard),
            answer: self.answer.min(other.answer),
        }
    }
}

fn shard_max(key: i16) -> Duration {
    if YIELDING.contains(&key) { SHARD_YIELDING_MAX } else { SHARD_MAX }
}

/// The largest figures of an API's requests by one asker, and which request each was.
#[derive(Default)]
struct Worst {
    memory: (u64, String),
    cpu: (Duration, String),
    shard: (Duration, String),
    answer: (u64, String),
    stall: (Stall, String),
    /// The costliest requests, in processor time of all threads and of the shard's.
    requests: [Vec<u8>; 2],
}

/// The longest wait of another client, and how much longer that is than without the request.
#[derive(Clone, Copy, Default)]
struct Stall {
    longest: Duration,
    beyond: Duration,
}

/// Bytes of the response to a request, 0 if there is none.
fn ask(connection: &mut Connection, key: i16, request: &[u8]) -> u64 {
    let limit = if WAITING.contains(&key) { Duration::from_millis(300) } else { Duration::from_secs(300) };
    // The broker may close the connection before it has read everything.
    if connection.send_frame(request).is_err() {
        return 0;
    }
    match connection.outcome(limit) {
        Outcome::Response(answer) => answer.len() as u64,
        Outcome::Closed => 0,
        Outcome::Silence => {
            assert!(WAITING.contains(&key), "no answer from API {key}");
            0
        }
    }
}

/// Sends a request and measures what it costs.
fn measure_once(target: &Target, who: Who, key: i16, request: &[u8]) -> Figures {
    let pid = target.node.pid();
    let mut connection = target.connect(who, key);
    process::forget_peak(pid);
    let time = |name: &str| Duration::from_nanos(process::cpu_ns_of(pid, name));
    let (resident, cpu, shard) = (process::resident_bytes(pid), time(""), time("shard-"));
    let answer = ask(&mut connection, key, request);
    Figures {
        memory: process::peak_bytes(pid).saturating_sub(resident),
        cpu: time("").saturating_sub(cpu),
        shard: time("shard-").saturating_sub(shard),
        answer,
    }
}

/// The longest wait of a client that produces until told to stop.
fn longest_wait(other: &mut Connection, produce: &[u8], is_over: impl Fn() -> bool) -> Duration {
    let mut longest = Duration::ZERO;
    while !is_over() {
        let asked = Instant::now();
        other.call(produce);
        longest = longest.max(asked.elapsed());
    }
    longest
}

impl Worst {
    /// Sends a request and keeps what is larger than before.
    fn measure(&mut self, target: &mut Target, who: Who, layout: &Layout, (version, shape): (i16, &Shape)) {
        if process::resident_bytes(target.node.pid()) > target.resident + KEPT_MAX {
            target.start_again();
        }
        let request = shape.request(layout, version);
        let mut figures = measure_once(target, who, layout.key, &request);
        for _ in 1..TRIES {
            if figures.are_within_bounds(layout.key) {
                break;
            }
            target.start_again();
            figures = figures.or(measure_once(target, who, layout.key, &request));
        }
        target.node.assert_running(&format!("{} {version}, {shape}", layout.name));
        let what = || format!("{version}: {shape}");
        if figures.memory > self.memory.0 {
            self.memory = (figures.memory, what());
        }
        if figures.answer > self.answer.0 {
            self.answer = (figures.answer, what());
        }
        if figures.shard > self.shard.0 {
            (self.shard, self.requests[1]) = ((figures.shard, what()), request.clone());
        }
        if figures.cpu > self.cpu.0 {
            (self.cpu, self.requests[0]) = ((figures.cpu, what()), request);
        }
    }

    /// Time that another client waits at the longest who produces while the costliest requests are
    /// answered, one after the other.
    fn measure_stalls(&mut self, target: &Target, who: Who, key: i16) {
        let whose = [self.cpu.1.clone(), self.shard.1.clone()];
        let asked = if whose[0] == whose[1] { 1 } else { 2 };
        for (request, what) in self.requests.iter().zip(whose).take(asked) {
            let stall = stall_by(target, who, (key, request));
            if stall.beyond >= self.stall.0.beyond {
                self.stall = (stall, what);
            }
        }
    }
}

/// Time that another client waits at the longest who produces while a request is answered.
fn stall_by(target: &Target, who: Who, (key, request): (i16, &[u8])) -> Stall {
    let batch = Batch::of(&[&vec![7; 300_000]]).encode();
    let produce = raw::produce("stall", -1, &batch);
    let mut other = Connection::open(target.node.address());
    assert_eq!(raw::produce_error(&other.call(&produce)), 0);
    let mut smallest: Option<Stall> = None;
    for _ in 0..STALL_TRIES {
        let (mut connection, answered) = (target.connect(who, key), AtomicBool::new(false));
        let began = Instant::now();
        let longest = thread::scope(|scope| {
            let produced =
                scope.spawn(|| longest_wait(&mut other, &produce, || answered.load(Ordering::Relaxed)));
            ask(&mut connection, key, request);
            answered.store(true, Ordering::Relaxed);
            produced.join().expect("the producer")
        });
        let mut stall = Stall { longest, beyond: longest };
        if longest > STALL_MAX && !is_debug() {
            let (took, began) = (began.elapsed(), Instant::now());
            let calm = longest_wait(&mut other, &produce, || began.elapsed() > took);
            stall.beyond = longest.saturating_sub(calm);
        }
        smallest = smallest.filter(|before| before.beyond <= stall.beyond).or(Some(stall));
        if stall.beyond <= STALL_MAX || is_debug() {
            break;
        }
    }
    smallest.unwrap_or_default()
}

impl Worst {
    /// The bounds that the figures break. Time counts for release builds alone.
    fn broken(&self, key: i16, api: &str) -> Vec<String> {
        let mut broken = Vec::new();
        let mut check = |what: &str, figure: f64, bound: f64, request: &str| {
            if figure > bound {
                broken.push(format!("{api}: {what} {figure:.1}, at most {bound:.1}; request {request}"));
            }
        };
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        check("MiB of memory", mib(self.memory.0), mib(memory_max(key, self.answer.0)), &self.memory.1);
        check("MiB of answer", mib(self.answer.0), mib(ANSWER_MAX), &self.answer.1);
        if !is_debug() {
            check("ms of a processor", ms(self.cpu.0), ms(CPU_MAX), &self.cpu.1);
            check("ms of the shard", ms(self.shard.0), ms(shard_max(key)), &self.shard.1);
        }
        // Controllers work for the request on the same processors.
        if !is_debug() && !Node::has_controllers() {
            check("ms of another's wait", ms(self.stall.0.beyond), ms(STALL_MAX), &self.stall.1);
        }
        broken
    }

    fn row(&self) -> String {
        let memory = self.memory.0 as f64 / MIB as f64;
        let answer = self.answer.0 as f64 / MIB as f64;
        let [cpu, shard, stall] =
            [self.cpu.0, self.shard.0, self.stall.0.longest].map(|time| time.as_millis());
        format!("{memory:.1} | {cpu} | {shard} | {stall} | {answer:.1} | {} | {}", self.cpu.1, self.stall.1)
    }
}

fn is_debug() -> bool {
    paths::binary().components().any(|part| part.as_os_str() == "debug")
}

/// True if all shapes are measured: for the page, and in a long run. Otherwise the telling ones
/// are, and those that the page names.
fn is_thorough() -> bool {
    is_long() || std::env::var_os("LEVADA_BLESS").is_some()
}

/// The part of the page about an API: it names the shapes that cost most when all were measured.
fn recorded(key: i16) -> String {
    let text = fs::read_to_string(page()).expect("the page");
    let of_api = format!(" ({key}) |");
    text.lines().filter(|line| line.contains(&of_api)).collect()
}

/// Cases to measure of an API: the shapes of its newest version, only the telling ones of a client
/// without rights, who is refused before the others matter. Of the other versions, the shape that
/// took most of the processor. A build without optimisation is tried with a few shapes alone.
fn measure_api(target: &mut Target, who: Who, of_api: &[Layout]) -> Worst {
    let newest = of_api.last().expect("a layout");
    let only_newest = is_debug() || who == Who::Stranger;
    let recorded = if is_thorough() || only_newest { String::new() } else { recorded(newest.key) };
    let mut sent = HashSet::new();
    let (mut worst, mut costliest) = (Worst::default(), None);
    let is_all = is_thorough() && !only_newest;
    let is_costly = |shape: &Shape| shape.is_telling() || recorded.contains(&format!(": {shape} |"));
    let is_chosen = |shape: &Shape| (is_all || is_costly(shape)) && spares_the_controller(newest.key, shape);
    for shape in shapes(newest).into_iter().filter(is_chosen) {
        // Without arrays or strings, several shapes are the same request.
        if sent.insert(shape.request(newest, *newest.versions.end())) {
            let mut one = Worst::default();
            one.measure(target, who, newest, (*newest.versions.end(), &shape));
            if one.cpu.0 >= worst.cpu.0 {
                costliest = Some(shape);
            }
            worst.take(one);
        }
    }
    let costliest = costliest.expect("a shape");
    for layout in of_api.iter().filter(|_| !only_newest) {
        for version in layout.versions.clone().filter(|version| version != newest.versions.end()) {
            worst.measure(target, who, layout, (version, &costliest));
        }
    }
    worst
}

/// The costs of the requests of all APIs, measured on every processor immediately.
fn measure_costs(apis: &BTreeMap<i16, Vec<Layout>>) -> BTreeMap<(i16, Who), Worst> {
    let measured = Mutex::new(BTreeMap::new());
    let left = Mutex::new(apis.iter());
    let next = || left.lock().expect("no panic beside").next();
    thread::scope(|scope| {
        for processor in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (measured, next) = (&measured, &next);
            scope.spawn(move || {
                let mut target = Target::start(processor);
                while let Some((key, of_api)) = next() {
                    for who in [Who::Stranger, Who::Anybody] {
                        let worst = measure_api(&mut target, who, of_api);
                        measured.lock().expect("no panic beside").insert((*key, who), worst);
                    }
                    if ENDING.contains(key) {
                        target.start_again();
                    }
                }
            });
        }
    });
    measured.into_inner().expect("no panic beside")
}

impl Worst {
    fn take(&mut self, other: Self) {
        if other.memory.0 > self.memory.0 {
            self.memory = other.memory;
        }
        if other.answer.0 > self.answer.0 {
            self.answer = other.answer;
        }
        let [costly, on_shard] = other.requests;
        if other.shard.0 >= self.shard.0 {
            (self.shard, self.requests[1]) = (other.shard, on_shard);
        }
        if other.cpu.0 >= self.cpu.0 {
            (self.cpu, self.requests[0]) = (other.cpu, costly);
        }
    }
}

/// Bound of the memory for a request with a response of this size. The response of a controller is
/// passed on as it came; the buffer that receives it grows by doubling.
fn memory_max(key: i16, answer: u64) -> u64 {
    let passed = if Node::has_controllers() && FORWARDED.contains(&key) { 2 * answer } else { 0 };
    MEMORY_MAX + passed
}

/// True if the controller of a cluster takes this shape as well. Kafka's needs minutes of a
/// processor for a hundred thousand entries of the same name, and decides nothing else meanwhile.
fn spares_the_controller(key: i16, shape: &Shape) -> bool {
    !Node::has_controllers() || !FORWARDED.contains(&key) || shape.is_distinct()
}

/// APIs whose requests a controller decides, and which only a broker of a cluster does not decide
/// by itself.
const FORWARDED: [i16; 17] = [19, 20, 30, 31, 33, 37, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81];

/// The layouts of each API that the broker serves.
fn apis() -> BTreeMap<i16, Vec<Layout>> {
    let mut apis: BTreeMap<i16, Vec<Layout>> = BTreeMap::new();
    for layout in layouts() {
        apis.entry(layout.key).or_default().push(layout);
    }
    apis
}

fn versions(of_api: &[Layout]) -> (i16, i16) {
    let first = of_api.iter().map(|layout| *layout.versions.start()).min();
    let last = of_api.iter().map(|layout| *layout.versions.end()).max();
    (first.expect("a layout"), last.expect("a layout"))
}

fn page() -> PathBuf {
    paths::repository().join("docs/operating/hostile-requests.md")
}

const HEAD: &str = "| API | Versions | Client | Memory, MiB | Processor, ms | Shard, ms | Delay of another client, ms | Response, MiB | Costliest request | Request with the longest delay |\n\
                    |---|---|---|---|---|---|---|---|---|---|\n";

#[test]
fn costliest_requests_stay_within_their_limits() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: a promise of Levada's alone");
    }
    let chosen = std::env::var("LEVADA_TEST_APIS").ok();
    let chosen =
        chosen.map(|keys| keys.split(',').map(|key| key.parse().expect("a key")).collect::<Vec<i16>>());
    let mut apis = apis();
    apis.retain(|key, _| chosen.as_ref().is_none_or(|keys| keys.contains(key)));
    let mut measured = measure_costs(&apis);
    let mut target = Target::start(0);
    let (mut rows, mut broken) = (String::new(), Vec::new());
    for (key, of_api) in &apis {
        let ((first, last), name) = (versions(of_api), &of_api[0].name);
        for who in [Who::Stranger, Who::Anybody] {
            let mut worst = measured.remove(&(*key, who)).expect("measured above");
            worst.measure_stalls(&target, who, *key);
            let asker = if who == Who::Stranger { "without permissions" } else { "with all permissions" };
            let row = format!("| {name} ({key}) | {first}–{last} | {asker} | {} |\n", worst.row());
            print!("{row}");
            if worst.memory.0 > memory_max(*key, worst.answer.0) / 4 * 3 {
                println!("most memory: {}", worst.memory.1);
            }
            rows.push_str(&row);
            broken.extend(worst.broken(*key, &format!("{name}, {asker}")));
        }
        if ENDING.contains(key) || process::resident_bytes(target.node.pid()) > target.resident + KEPT_MAX {
            target.start_again();
        }
    }
    if std::env::var_os("LEVADA_BLESS").is_some() && chosen.is_none() && !Node::has_controllers() {
        let text = fs::read_to_string(page()).expect("the page");
        let before = text.split("| API |").next().unwrap_or_default();
        let before = before.split("Measured ").next().unwrap_or_default();
        let build = if is_debug() {
            "a build without optimisation, a few requests for each API"
        } else {
            "a release build"
        };
        fs::write(page(), format!("{before}Measured with {build}.\n\n{HEAD}{rows}"))
            .expect("room for the page");
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_served_api_version_is_measured() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: the table is of Levada");
    }
    let mut node = Node::started();
    let said = Connection::open(node.address()).call(&raw::api_versions(0));
    let mut said = Decoder::new(&said);
    assert_eq!((said.i32(), said.i16()), (7, 0));
    let served: BTreeMap<i16, (i16, i16)> =
        (0..said.i32()).map(|_| (said.i16(), (said.i16(), said.i16()))).collect();
    node.stop();
    let text = fs::read_to_string(page()).expect("the page");
    for (key, (first, last)) in &served {
        let of_api = apis().remove(key).unwrap_or_else(|| panic!("hostile/requests.txt lacks API {key}"));
        // Produce 0 to 2 are advertised and refused.
        let first = if *key == 0 { 3 } else { *first };
        assert_eq!(versions(&of_api), (first, *last), "hostile/requests.txt, API {key}");
        let name = &of_api[0].name;
        let row = format!("| {name} ({key}) | {first}–{last} |");
        let rows = text.lines().filter(|line| line.starts_with(&row)).count();
        assert_eq!(rows, 2, "rows of {row} in {}: LEVADA_BLESS=1 writes them anew", page().display());
    }
    assert_eq!(apis().len(), served.len(), "hostile/requests.txt has APIs that are not served");
}
