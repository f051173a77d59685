//! Tests of names and patterns of topics.

use super::*;

fn places(names: &[(&str, i32)]) -> Vec<TopicPartition> {
    names.iter().map(|(name, partition)| ((*name).to_owned(), *partition)).collect()
}

#[test]
fn patterns_match_whole_names() {
    fn check(pattern: &str, name: &str, expected: bool) {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
    check("clicks", "clicks", true);
    check("clicks", "clicks2", false);
    check("logs-*", "logs-", true);
    check("logs-*", "logs-web", true);
    check("logs-*", "log-web", false);
    check("*", "", true);
    check("*b*b", "aabab", true);
    check("*b?c*", "abbbxc", true);
    check("?", "", false);
    check("a**", "a", true);
    check(&"*a".repeat(30), &"a".repeat(29), false);
}

#[test]
fn partition_selections_are_parsed() {
    let read = |text: &str| text.parse::<Selection>();
    assert_eq!(read("t:0,2"), Ok(Selection { pattern: "t".to_owned(), partitions: vec![0, 2] }));
    for text in ["", ":0", "t:", "t:x", "t:-1", "t:0,"] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn partitions_are_chosen_by_names_and_patterns() {
    let all = places(&[("clicks", 0), ("clicks", 1), ("logs-a", 0), ("logs-b", 0)]);
    let choose = |words: &[&str]| {
        let selections: Vec<Selection> = words.iter().map(|word| word.parse().unwrap()).collect();
        chosen(&selections, all.iter()).map(|chosen| chosen.into_iter().cloned().collect::<Vec<_>>())
    };
    assert_eq!(choose(&[]).unwrap(), all);
    assert_eq!(
        choose(&["logs-*", "clicks:1"]).unwrap(),
        places(&[("clicks", 1), ("logs-a", 0), ("logs-b", 0)])
    );
    let said = |words: &[&str]| format!("{:?}", choose(words).unwrap_err());
    assert!(said(&["clicks:1,7"]).contains("clicks has no partition 7"));
    assert!(said(&["click"]).contains("there is no topic click\"") && said(&["click"]).contains("clicks; "));
    assert!(said(&["x*"]).contains("no topic matches x*"));
}
