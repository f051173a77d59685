//! Test of the catalogue of errors in the documentation.

use std::collections::BTreeSet;

/// Number and name of every code, as the source has them.
fn defined() -> BTreeSet<(String, String)> {
    let source = include_str!("../error_code.rs");
    let (_, variants) = source.split_once("pub enum ErrorCode {").unwrap();
    let (variants, _) = variants.split_once("\n}\n").unwrap();
    let lines: Vec<&str> = variants.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let pairs = lines.chunks(2).map(|pair| {
        let name = pair[0].trim_start_matches("/// `").trim_end_matches('`');
        let (_, number) = pair[1].trim_end_matches(',').split_once(" = ").unwrap();
        (number.to_owned(), name.to_owned())
    });
    pairs.collect()
}

#[test]
fn every_code_is_in_the_catalogue_of_errors() {
    let page = include_str!("../../../../docs/operating/errors.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let number = cells.next().filter(|cell| cell.parse::<i16>().is_ok())?;
        Some((number.to_owned(), cells.next()?.to_owned()))
    });
    let listed: Vec<_> = rows.collect();
    let distinct: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "a code has two rows");
    assert_eq!(distinct, defined());
}
