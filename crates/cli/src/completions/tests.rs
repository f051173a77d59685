//! Tests of names in completions.

use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use clap::Parser;
use levada_client::fake_broker::FakeBroker;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    names: NamesArgs,
}

#[test]
fn completions_list_names_of_the_cluster() {
    let broker = FakeBroker::start(|asked| asked.metadata(&[("clicks", 1, &[1]), ("a;b", 2, &[1])]));
    let line = Line::try_parse_from(["names", "topics", "-b", broker.address()]).unwrap();
    let mut out = Vec::new();
    names(line.names, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "clicks\n");
    let line = Line::try_parse_from(["names", "topics", "-b", "127.0.0.1:1"]).unwrap();
    names(line.names, &mut out_of_nothing()).unwrap();
}

#[test]
fn silent_broker_delays_no_completion() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let line = Line::try_parse_from(["names", "topics", "-b", &address]).unwrap();
    let started = Instant::now();
    names(line.names, &mut out_of_nothing()).unwrap();
    let waited = started.elapsed();
    assert!(waited < LIMIT * 20, "a connection waits for 30 s: {waited:?}");
}

/// Output that must stay empty.
fn out_of_nothing() -> impl Write {
    &mut [][..]
}

#[test]
fn completed_commands_exist() {
    let command = Cli::command();
    for (_, noun, verbs) in NAMED {
        let found = command.find_subcommand(noun).expect(noun);
        assert_eq!(found.has_subcommands(), !verbs.is_empty(), "{noun}");
        for verb in verbs {
            assert!(found.find_subcommand(verb).is_some(), "{noun} {verb}");
        }
    }
}

#[test]
fn bash_completes_names() {
    if Command::new("bash").arg("--version").output().is_err() {
        println!("skipped: no bash");
        return;
    }
    let completed = |words: &str| {
        let script = format!(
            "_levada() {{ COMPREPLY=(); }}\nlevada() {{ echo \"$2-one $2-two\"; }}\n{}
            COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
            _levada_with_names; echo \"${{COMPREPLY[@]}}\"",
            bash()
        );
        let ended = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed("levada topic describe top"), "topics-one topics-two");
    assert_eq!(completed("levada group kick groups-t"), "groups-two");
    assert_eq!(completed("levada consume topics-o"), "topics-one");
    assert_eq!(completed("levada broker drain b"), "brokers-one brokers-two");
    assert_eq!(completed("levada topic describe --al"), "");
    assert_eq!(completed("levada topic t"), "");
    assert_eq!(completed("levada config t"), "");
}
