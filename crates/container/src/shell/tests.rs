//! Tests of scripts: those that Testcontainers' modules and Quarkus copy into a container, and the
//! forms of compose files.

use std::fs;
use std::path::Path;

use super::builtins::address;
use super::parser::parse;
use super::run::Shell;

/// Runs a script in a directory that `DIR` names; returns its status and the text of `out` there.
fn run(script: &str) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    run_in(script, dir.path())
}

fn run_in(script: &str, dir: &Path) -> (i32, String) {
    let mut shell = Shell::of_environment(false);
    shell.set("DIR", dir.display().to_string(), true);
    // The last command would replace the process of the test.
    let status = shell.run_last(&parse(&format!("{script}\n:")).unwrap()).unwrap();
    (status, fs::read_to_string(dir.join("out")).unwrap_or_default())
}

#[test]
fn shell_expands_variables_and_quotes() {
    let script = "A=1\nexport B='two  words' C=\nD=$A\"$B\"${C:-none}\n\
                  for word in $D \"$B\"; do echo \"[$word]\" >> $DIR/out; done";
    assert_eq!(run(script).1, "[1two]\n[wordsnone]\n[two  words]\n");
    assert_eq!(run("A='x y'\nfor word in a$A; do echo $word >>$DIR/out; done").1, "ax\ny\n");
    assert_eq!(run(r#"echo "a\"b \$c" 'd"e' f\ g > $DIR/out"#).1, "a\"b $c d\"e f g\n");
    assert_eq!(run("echo one \\\n  two # three\\\n> $DIR/out").1, "", "a comment ends with the line");
    assert_eq!(run("A=$(echo one; echo two)\necho \"$A\" $? > $DIR/out").1, "one\ntwo 0\n");
}

#[test]
fn shell_runs_lists_and_conditions() {
    let script = "false && echo a >> $DIR/out\nfalse || echo b >> $DIR/out\n! false && echo c >> $DIR/out\n\
                  if [ -f $DIR/none ]; then echo d >> $DIR/out; elif [ 1 -lt 2 ]; then echo e >> $DIR/out; fi";
    assert_eq!(run(script).1, "b\nc\ne\n");
    let script =
        "until [ -s $DIR/out ]; do echo f > $DIR/out; done\nwhile [ ! -f $DIR/out ]; do sleep 0.1; done";
    assert_eq!(run(script).1, "f\n");
    assert_eq!(
        run("set -e\nfalse || true\nif false; then true; fi\nfalse\necho no > $DIR/out"),
        (1, String::new())
    );
    assert_eq!(run("exit 3").0, 3);
}

#[test]
fn programs_get_exported_variables_and_redirections() {
    let script = "hidden=1\nexport SHOWN=2\nOWN=3 /usr/bin/env > $DIR/all\n\
                  /usr/bin/env -- /bin/ls /nowhere > $DIR/none 2>&1 || echo $? > $DIR/out";
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run_in(script, dir.path()).1, "2\n");
    let all = fs::read_to_string(dir.path().join("all")).unwrap();
    assert!(all.contains("SHOWN=2\n") && all.contains("OWN=3\n") && !all.contains("hidden"), "{all}");
    assert!(
        fs::read_to_string(dir.path().join("none")).unwrap().contains("/nowhere"),
        "errors are in the file"
    );
    assert_eq!(run("/nowhere/program 2> $DIR/out").0, 0);
    assert_eq!(run("/nowhere/program || echo $? > $DIR/out").1, "127\n");
}

/// The script of testcontainers-go, with other directories.
#[test]
fn a_script_of_testcontainers_changes_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("bash-config", "# nothing\n");
    write("configure", "#!/bin/sh\necho KAFKA_ZOOKEEPER_CONNECT\n");
    write(
        "start",
        "configured=$(. $DIR/configure)\necho \"$KAFKA_ADVERTISED_LISTENERS $configured\" > $DIR/out\n",
    );
    let script = "#!/bin/bash\nsource $DIR/bash-config\n\
                  export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:32768,BROKER://c0ffee:9092\n\
                  echo Starting Kafka KRaft mode >> $DIR/log\n\
                  sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' $DIR/configure\n\
                  echo 'echo format -t \"$(echo id)\"' >> $DIR/configure\n\
                  chmod 755 $DIR/start\n\
                  . $DIR/start";
    let (status, out) = run_in(script, dir.path());
    assert_eq!(
        (status, out.as_str()),
        (0, "PLAINTEXT://localhost:32768,BROKER://c0ffee:9092 format -t id\n")
    );
}

#[test]
fn quarkus_writes_its_script_by_echo() {
    let (_, out) = run("echo -e \"#!/bin/bash\n/opt/kafka -Dkafka.a=b\" >> $DIR/out && chmod 777 $DIR/out");
    assert_eq!(out, "#!/bin/bash\n/opt/kafka -Dkafka.a=b\n");
}

#[test]
fn other_constructs_are_refused_with_their_line() {
    let refused = |script: &str| parse(script).unwrap_err().to_string();
    assert!(
        refused("true\nzookeeper-server-start x &\n")
            .starts_with("line 2: a command in the background (&) is not")
    );
    assert!(refused("kafka-topics --list | grep x").contains("a pipe (|)"));
    assert!(refused("echo `id`").contains("a command in backticks"));
    assert!(refused("case $1 in a) true;; esac").contains("is not supported"));
    assert!(refused("f() { true; }").contains("a subshell or function"));
    assert!(refused("echo $((1 + 1))").contains("arithmetic"));
    assert!(refused("cat <<E\nE").contains("a here-document"));
    assert_eq!(refused("echo 'a"), "line 1: ' has no end");
    assert_eq!(refused("while true; do true"), "line 1: expected done");
    assert_eq!(refused("if true; then true"), "line 1: expected fi");
}

#[test]
fn hosts_file_contains_the_container_address() {
    let hosts = "127.0.0.1 localhost\n# 10.0.0.1 c0ffee\n172.17.0.2\tc0ffee c0ffee.example\n";
    assert_eq!(address(hosts, "c0ffee"), Some("172.17.0.2".to_owned()));
    assert_eq!(address(hosts, "other"), None);
}
