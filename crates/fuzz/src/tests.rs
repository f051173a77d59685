//! Every body takes its seeds; the programs of the folder `fuzz`, their manifest and the page there
//! name every body.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// Inputs that every target gets, besides its seeds.
const SHORT: [&[u8]; 6] = [b"", b"\0", b"\xff", &[0; 40], &[0xff; 40], b"a=b\nc: d\r\n\r\n"];

macro_rules! targets {
    ($($name:ident)*) => {
        const TARGETS: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            check_seeds(stringify!($name), crate::$name::run);
        })*
    };
}

targets! {
    batch
    checkpoints
    codecs
    directory
    embedded
    fetch
    fetch_answer
    frames
    http_head
    http_path
    http_range
    metadata
    partition
    plan
    produce
    properties
    proxy_header
    records
    requests
    sasl
    telemetry
    tls
    transfer
}

fn check_seeds(name: &str, run: fn(&[u8])) {
    let seeds = text(&folder().join(format!("seeds/{name}.hex")));
    let inputs = seeds.lines().map(bytes).chain(SHORT.map(<[u8]>::to_vec));
    for input in inputs {
        assert!(catch_unwind(|| run(&input)).is_ok(), "{name} fails with the input {input:02x?}");
    }
}

#[test]
fn every_fuzz_body_has_a_program() {
    let library = include_str!("lib.rs");
    let public = library.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    assert_eq!(public.collect::<Vec<_>>(), TARGETS, "modules");

    let entries = fs::read_dir(folder().join("targets")).expect("the folder of the programs");
    let mut programs: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    programs.sort();
    let wanted: Vec<PathBuf> =
        TARGETS.iter().map(|name| folder().join(format!("targets/{name}.rs"))).collect();
    assert_eq!(programs, wanted);
    for (name, program) in TARGETS.iter().zip(programs) {
        assert_eq!(text(&program), template(name), "{}", program.display());
    }
}

#[test]
fn every_fuzz_target_is_in_manifest_and_readme() {
    let manifest = text(&folder().join("Cargo.toml"));
    let programs: Vec<&str> = manifest.lines().filter(|line| line.contains("path = \"targets/")).collect();
    let line = |name: &&str| {
        format!(
            "    {{ name = \"{name}\", path = \"targets/{name}.rs\", test = false, doc = false, bench = false }},"
        )
    };
    assert_eq!(programs, TARGETS.iter().map(line).collect::<Vec<_>>());

    let page = text(&folder().join("README.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let mut listed: Vec<&str> =
        rows.flat_map(|(names, _)| names.split(", ")).map(|name| name.trim_matches('`')).collect();
    listed.sort_unstable();
    assert_eq!(listed, TARGETS);
}

/// The whole program of a target.
fn template(name: &str) -> String {
    format!(
        "//! Fuzz target `{name}`: the body is in `crates/fuzz/src/{name}.rs`.\n\n#![no_main]\n\n\
         libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::{name}::run(input));\n"
    )
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn bytes(hex: &str) -> Vec<u8> {
    assert_eq!(hex.len() % 2, 0, "{hex}");
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal"))
        .collect()
}
