//! Rows stay whole as long as other columns have room.

use super::*;

fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
}

#[test]
fn table_that_fits_is_not_wrapped() {
    assert_eq!(fitting(&["A", "B"], &rows(&[&["12345", "1234567890"]]), 19), None);
    assert_eq!(fitting(&["A", "B"], &[], 80), None);
}

#[test]
fn one_long_value_folds_no_other_row() {
    let key = "a.key.of.forty.characters.that.is.typical";
    let long = "x".repeat(300);
    let mut cells = vec![[key, "1", "default"]; 20];
    cells.push(["log.dirs", &long, "default"]);
    let cells: Vec<&[&str]> = cells.iter().map(|row| &row[..]).collect();
    let widths = fitting(&["KEY", "VALUE", "ORIGIN"], &rows(&cells), 80).unwrap();
    assert_eq!((widths[0], widths[2]), (key.len(), "default".len()), "{widths:?}");
    assert_eq!(widths.iter().sum::<usize>() + 3 * GAP, 80, "the long value has the rest");
}

#[test]
fn the_narrowest_terminal_has_an_arrangement() {
    let row = ["x".repeat(50), "y".repeat(50)];
    let cells = rows(&[&[&row[0], &row[1]]]);
    assert_eq!(fitting(&["A", "B"], &cells, 44).unwrap(), [20, 20]);
    assert_eq!(fitting(&["A", "B"], &cells, 5), None, "nothing can be narrower");
}
