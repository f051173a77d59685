//! Test of the catalogue of errors in the documentation.

use std::collections::BTreeSet;

use super::ErrorCode;

/// Number and name of every code.
fn defined() -> BTreeSet<(String, String)> {
    let codes = (i16::MIN..=i16::MAX).filter_map(ErrorCode::of_code);
    codes.map(|error| (error.code().to_string(), error.name().to_owned())).collect()
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
