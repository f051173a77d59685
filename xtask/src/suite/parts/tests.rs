//! Every item belongs to one part, and the parts are of similar length.

use super::Part;

#[test]
fn suite_parts_are_parsed() {
    let table = [
        ("1/1", Some((0, 1))),
        ("2/3", Some((1, 3))),
        ("3/3", Some((2, 3))),
        ("0/3", None),
        ("4/3", None),
        ("1/0", None),
        ("1", None),
        ("a/b", None),
    ];
    for (text, expected) in table {
        assert_eq!(Part::parse(text).map(|part| (part.index, part.count)), expected, "{text}");
    }
}

#[test]
fn parts_are_disjoint_complete_and_even() {
    let items: Vec<u64> = (1..=50).collect();
    let describe = |item: &u64| (format!("suite {item}"), *item);
    let mut all = Vec::new();
    for index in 0..3 {
        let taken = Part { index, count: 3 }.take(items.clone(), describe);
        let seconds: u64 = taken.iter().sum();
        assert!((400..=450).contains(&seconds), "part {index} has {seconds} of 1275 seconds");
        all.extend(taken);
    }
    all.sort_unstable();
    assert_eq!(all, items);
    assert_eq!(Part::WHOLE.take(items.clone(), describe).len(), items.len());
}
