//! Tests of the catalogue of errors in the documentation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::ErrorCode;

/// Number and name of every code.
fn defined() -> BTreeSet<(String, String)> {
    let codes = (i16::MIN..=i16::MAX).filter_map(ErrorCode::of_code);
    codes.map(|error| (error.code().to_string(), error.name().to_owned())).collect()
}

const PAGE: &str = include_str!("../../../../docs/operating/errors.md");

/// Number and name in each row of a page, or of a part of it.
fn rows(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let number = cells.next().filter(|cell| cell.parse::<i16>().is_ok())?;
        Some((number.to_owned(), cells.next()?.to_owned()))
    });
    rows.collect()
}

/// Source files of a crate, without tests and without the declaration of the codes.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match name {
            "tests" | "tests.rs" | "error_code" | "error_code.rs" => {}
            _ if path.is_dir() => sources(&path, found),
            _ => found.push(path),
        }
    }
}

#[test]
fn error_codes_used_in_source_are_documented() {
    let (_, unsent) = PAGE.split_once("## Codes that Levada does not send").unwrap();
    let mut files = Vec::new();
    for name in ["broker", "config", "coordination", "metadata", "security", "wire"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut files);
    }
    let text: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let is_named = |number: &str| {
        let code = ErrorCode::of_code(number.parse().unwrap()).unwrap();
        let words = format!("ErrorCode::{code:?}");
        let mut places = text.match_indices(&words);
        places.any(|(at, _)| !text[at + words.len()..].starts_with(char::is_alphanumeric))
    };
    let unsent = rows(unsent);
    assert!(!unsent.is_empty() && is_named("1"), "the test reads neither the page nor the source");
    let wrong: Vec<_> = unsent.iter().filter(|(number, _)| is_named(number)).collect();
    assert!(wrong.is_empty(), "the broker may send {wrong:?}: describe them above");
}

#[test]
fn every_code_is_in_the_catalogue_of_errors() {
    let listed = rows(PAGE);
    let distinct: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "a code has two rows");
    assert_eq!(distinct, defined());
}
