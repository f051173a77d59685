//! `levada-container`: the entry of the container image, and under other names the programs that
//! compose files, health checks and Testcontainers call in the images of Kafka. It ends by becoming
//! `levada`, or with a message that names what it does not do. The packages do not have it
//! (docs/decisions/2026-11-30-container-entry.md).

#![deny(clippy::print_stderr)]

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

mod failure;
mod native;
mod server;
mod shell;
mod tools;

use failure::Failure;

/// Names of the shell.
const SHELLS: [&str; 2] = ["sh", "bash"];
/// Names of the program that starts the broker, as the images of Kafka have it.
const SERVERS: [&str; 2] = ["run", "launch"];

fn main() {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let name = name_of(&called);
    let outcome = texts(words).and_then(|words| dispatch(&name, words));
    let code = outcome.unwrap_or_else(|failure| {
        // The engine may have closed the stream.
        let _ = writeln!(std::io::stderr(), "{name}: {failure}");
        failure.code()
    });
    std::process::exit(code);
}

/// Last part of a path: the name by which a program was called.
fn name_of(path: &OsString) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn texts(words: impl Iterator<Item = OsString>) -> Result<Vec<String>, Failure> {
    let text = |word: OsString| {
        word.into_string()
            .map_err(|word| Failure::usage(format!("the argument {} is not UTF-8", word.to_string_lossy())))
    };
    words.map(text).collect()
}

/// Runs the program of a name, and returns its exit code.
fn dispatch(name: &str, words: Vec<String>) -> Result<i32, Failure> {
    match name {
        name if SHELLS.contains(&name) => shell::run(&words),
        name if SERVERS.contains(&name) => server::serve(&words),
        "kafka" => native::run(&words),
        name => match tools::Tool::of(name) {
            Some(tool) => tool.run(&words),
            None => entry(words),
        },
    }
}

/// The image's entry: `levada` and its arguments, or another program of the image.
fn entry(mut words: Vec<String>) -> Result<i32, Failure> {
    let Some(first) = words.first().cloned() else { return server::serve(&[]) };
    if first == "serve" {
        return server::serve(&words[1..]);
    }
    let name = first.rsplit('/').next().unwrap_or_default();
    if first.contains('/') || SHELLS.contains(&name) || tools::Tool::of(name).is_some() {
        words.remove(0);
        return Err(failure::replace(&first, &words));
    }
    if first == "levada" {
        words.remove(0);
    }
    Err(failure::replace(server::LEVADA, &words))
}

#[cfg(test)]
mod tests;
