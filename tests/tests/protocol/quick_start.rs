//! The quick starts of docs/operating/clients.md and the session of the README, run unchanged, and
//! the scripts that back up and restore a directory.
//!
//! Suite: long; 16 s; needs java, kcat, python; uses go, node, rust

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, Tool, paths};

/// The program of a language, with the address of this broker.
fn program(language: &str, node: &Node) -> String {
    let page = paths::repository().join("docs/operating/clients.md");
    let page = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let (_, rest) = page.split_once(&format!("\n```{language}\n")).expect("a program in this language");
    let (program, _) = rest.split_once("\n```\n").expect("the end of the program");
    assert!(program.contains("127.0.0.1:9092"), "{program}");
    format!("{}\n", program.replace("127.0.0.1:9092", &node.bootstrap()))
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{said}{complained}");
    said.into_owned()
}

#[test]
fn java_quick_start_runs() {
    let mut node = Node::started();
    let source = node.scratch().join("QuickStart.java");
    fs::write(&source, program("java", &node)).expect("a file");
    let said = run(Command::new("java").args(["-cp", &paths::class_path()]).arg(source));
    assert!(said.contains("0 hello from Java\n"), "{said}");
    node.stop();
}

#[test]
fn python_quick_start_runs() {
    let mut node = Node::started();
    let source = node.scratch().join("quick_start.py");
    fs::write(&source, program("python", &node)).expect("a file");
    assert_eq!(run(Command::new(paths::python()).arg(source)), "0 hello from Python\n");
    node.stop();
}

#[test]
fn go_quick_start_runs() {
    if Command::new("go").arg("version").output().is_err() {
        return eprintln!("skipped: there is no Go");
    }
    let mut node = Node::started();
    let module = node.scratch().join("module");
    fs::create_dir(&module).expect("a directory");
    fs::write(module.join("main.go"), program("go", &node)).expect("a file");
    for name in ["go.mod", "go.sum"] {
        let own = paths::repository().join("tests/go").join(name);
        fs::copy(own, module.join(name)).expect("the module of the tests");
    }
    assert_eq!(run(Command::new("go").args(["run", "."]).current_dir(module)), "0 hello from Go\n");
    node.stop();
}

#[test]
fn node_js_quick_start_runs() {
    let mut node = Node::started();
    let source = node.scratch().join("quick_start.js");
    fs::write(&source, program("js", &node)).expect("a file");
    let Some(mut tool) = Tool::node(&source) else {
        return eprintln!("skipped: Node.js, because node, npm or the package kafkajs is missing");
    };
    // The consumer runs until it is ended. Its library's own log goes to the same place.
    let mut consumer = tool.spawn();
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "0 hello from Node.js") {
        lines.push(consumer.line(Duration::from_secs(60)));
        let is_other = lines.last().is_some_and(|line| !line.starts_with('{') && !line.starts_with("0 "));
        assert!(!is_other, "{lines:?}");
    }
    consumer.kill();
    node.stop();
}

#[test]
fn rust_quick_start_runs() {
    let Some(target) = paths::rust_target() else {
        return eprintln!("skipped: Rust, because the crate rdkafka could not be compiled here");
    };
    let mut node = Node::started();
    // Always the same directory: Cargo keeps its build results for each.
    let module = paths::rust_module();
    fs::create_dir_all(module.join("src")).expect("a directory");
    fs::write(module.join("src/main.rs"), program("rust", &node)).expect("a file");
    for name in ["Cargo.toml", "Cargo.lock"] {
        let own = paths::repository().join("tests/rust").join(name);
        fs::copy(own, module.join(name)).expect("the manifest of the tests");
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--locked", "--offline", "--quiet", "--target-dir"]).arg(target);
    assert_eq!(run(cargo.current_dir(module)), "0 hello from Rust\n");
    node.stop();
}

fn script(name: &str) -> Command {
    let mut command = Command::new(paths::repository().join("deploy").join(name));
    command.env("LEVADA", paths::binary());
    command
}

fn refusal(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("the script starts");
    assert_eq!(status.code(), Some(1), "{command:?}");
    String::from_utf8_lossy(&stderr).into_owned()
}

fn end_offset(node: &Node) -> i64 {
    raw::listed_offset(&Connection::open(node.address()).call(&raw::list_end_offset("kept")))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn restore_brings_back_the_backed_up_data() {
    let mut node = Node::of(Kind::Levada);
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic("kept", 1))), 0);
    let batch = Batch::of(&[b"one", b"two"]).encode();
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("kept", -1, &batch))), 0);
    let (archive, data) = (node.scratch().join("backup.tar"), node.data());
    let backup = || {
        let mut backup = script("levada-backup");
        backup.arg(&data).arg(&archive);
        backup
    };
    let restore = || {
        let mut restore = script("levada-restore");
        restore.arg(&archive).arg(&data);
        restore
    };
    let refused = refusal(&mut backup());
    assert!(refused.contains("a broker uses") && !archive.exists(), "{refused}");
    node.stop();
    let before = names(&data);
    run(&mut backup());
    let refused = refusal(&mut restore());
    assert!(refused.contains("is not empty"), "{refused}");

    // Records after the backup are lost with the directory.
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("kept", -1, &batch))), 0);
    node.stop();
    fs::rename(&data, node.scratch().join("lost")).expect("a directory");
    run(&mut restore());
    assert_eq!(names(&data), before);
    node.start();
    assert!(node.talk().contains("clean=true"), "{}", node.talk());
    assert_eq!(end_offset(&node), 2);
    node.stop();

    let mut damaged = fs::read(&archive).expect("an archive");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&archive, damaged).expect("an archive");
    fs::remove_dir_all(&data).expect("a directory");
    let refused = refusal(&mut restore());
    assert!(refused.contains("is damaged") && !data.exists(), "{refused}");
}

/// Lines without their numbers, rates, padding and repetitions: these differ by run.
fn masked(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(masked_line).collect();
    lines.dedup();
    lines
}

fn masked_line(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let mut number = false;
        let mut masked = String::new();
        for character in word.chars() {
            let in_number = character.is_ascii_digit() || number && [',', '.'].contains(&character);
            if in_number && !number {
                masked.push('N');
            } else if !in_number {
                masked.push(character);
            }
            number = in_number;
        }
        ["KiB/s", "MiB/s", "GiB/s"].iter().fold(masked, |word, unit| word.replace(unit, "B/s"))
    });
    // A fast run has no rate.
    words.collect::<Vec<_>>().join(" ").replace(" (N B/s)", "")
}

#[test]
fn readme_session_prints_its_shown_output() {
    let page = fs::read_to_string(paths::repository().join("README.md")).expect("README.md");
    let (_, rest) = page.split_once("\n```console\n").expect("a session");
    let (session, _) = rest.split_once("\n```\n").expect("the end of the session");
    let mut node = Node::started();
    std::os::unix::fs::symlink(paths::binary(), node.scratch().join("levada")).expect("a link");
    let path = format!("{}:{}", node.scratch().display(), std::env::var("PATH").expect("PATH"));
    let entries = session.strip_prefix("$ ").expect("a command").split("\n$ ");
    for entry in entries {
        let (command, shown) = entry.split_once('\n').unwrap_or((entry, ""));
        let command = command
            .replace("127.0.0.1:9092", &node.bootstrap())
            .replace("127.0.0.1:9644", &node.http_address().to_string());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]);
        shell.env("PATH", &path).env("LEVADA_BROKERS", node.bootstrap());
        let printed = run(&mut shell);
        println!("$ {command}\n{printed}");
        assert_eq!(masked(&printed), masked(shown), "{command}:\n{printed}");
    }
    node.stop();
}
