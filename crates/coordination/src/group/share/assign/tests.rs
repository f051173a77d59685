//! Behaviours of Kafka's assignor as a table, its results for random groups, and promises.

use std::collections::{BTreeMap, BTreeSet};

use levada_testing::{scaled, seeds};
use levada_wire::Uuid;

use super::{Assignable, Subscriber, assign};
use crate::group::consumer::tests::id_of;
use crate::group::records::Partitions;

fn topics(of: &[(&str, &[i32])]) -> BTreeMap<String, Assignable> {
    let topics = of.iter().map(|(name, partitions)| {
        ((*name).to_owned(), Assignable { id: id_of(name), partitions: partitions.to_vec() })
    });
    topics.collect()
}

fn member(id: &str, topics: &[&str]) -> Subscriber {
    let topics = topics.iter().map(|&topic| topic.to_owned()).collect();
    Subscriber { id: id.into(), topics, before: Partitions::new() }
}

fn held(before: &[(&str, &[i32])]) -> Partitions {
    before.iter().map(|(topic, partitions)| (id_of(topic), partitions.iter().copied().collect())).collect()
}

fn counts(assigned: &BTreeMap<String, Partitions>) -> Vec<usize> {
    assigned.values().map(|partitions| partitions.values().map(BTreeSet::len).sum()).collect()
}

/// Number of members of each partition.
fn sharing(assigned: &BTreeMap<String, Partitions>) -> BTreeMap<(Uuid, i32), usize> {
    let mut sharing = BTreeMap::new();
    for (topic, partitions) in assigned.values().flatten() {
        for index in partitions {
            *sharing.entry((*topic, *index)).or_default() += 1;
        }
    }
    sharing
}

/// Subscriptions, partitions of each member, members of the most shared partition.
type Case = (&'static [&'static [&'static str]], &'static [usize], usize);

#[test]
fn share_assignment_is_balanced() {
    let all: &[(&str, &[i32])] = &[("t", &[0, 1, 2]), ("u", &[0, 1])];
    let cases: &[Case] = &[
        (&[], &[], 0),
        (&[&[]], &[0], 0),
        (&[&["gone"]], &[0], 0),
        (&[&["t"]], &[3], 1),
        (&[&["t", "gone"]], &[3], 1),
        (&[&["t", "u"], &["t", "u"]], &[3, 2], 1),
        (&[&["t"], &["t"], &["t"]], &[1, 1, 1], 1),
        (&[&["u"], &["u"], &["u"]], &[2, 1, 1], 2),
        (&[&["u"], &["u"], &["u"], &["u"]], &[1, 1, 1, 1], 2),
        (&[&["t"], &["u"]], &[3, 2], 1),
        (&[&["t", "u"], &["u"]], &[4, 1], 1),
        (&[&["t"], &[]], &[3, 0], 1),
        (&[&["gone"], &["other"]], &[0, 0], 0),
    ];
    for (subscriptions, expected, most) in cases {
        let members = subscriptions.iter().zip('a'..).map(|(topics, id)| member(&id.to_string(), topics));
        let assigned = assign(members.collect(), &topics(all));
        assert_eq!(
            (&counts(&assigned)[..], sharing(&assigned).values().max().copied().unwrap_or(0)),
            (*expected, *most),
            "{subscriptions:?}"
        );
    }
}

#[test]
fn only_initialized_share_partitions_are_assigned() {
    let members = || vec![member("a", &["t", "u"]), member("b", &["t", "u"])];
    let assigned = assign(members(), &topics(&[("t", &[1, 2]), ("u", &[])]));
    assert_eq!(counts(&assigned), [1, 1]);
    assert_eq!(sharing(&assigned).into_keys().collect::<Vec<_>>(), [(id_of("t"), 1), (id_of("t"), 2)]);
    let none = assign(members(), &topics(&[("t", &[]), ("u", &[])]));
    assert_eq!(counts(&none), [0, 0]);
}

#[test]
fn share_members_keep_partitions_across_membership_changes() {
    let all = topics(&[("t", &[0, 1, 2, 3])]);
    let one = assign(vec![member("a", &["t"])], &all);
    assert_eq!(counts(&one), [4]);
    let again = |assigned: &BTreeMap<String, Partitions>, ids: &[&str]| {
        let members = ids.iter().map(|&id| Subscriber {
            before: assigned.get(id).cloned().unwrap_or_default(),
            ..member(id, &["t"])
        });
        assign(members.collect(), &all)
    };
    let two = again(&one, &["a", "b"]);
    assert_eq!(counts(&two), [2, 2]);
    assert!(two["a"][&id_of("t")].is_subset(&one["a"][&id_of("t")]));
    assert_eq!(again(&two, &["a", "b"]), two, "nothing moves without a reason");
    let left = again(&two, &["b"]);
    assert!(left["b"][&id_of("t")].is_superset(&two["b"][&id_of("t")]) && counts(&left) == [4]);
}

#[test]
fn unsubscribed_share_topics_are_revoked() {
    let all = topics(&[("t", &[0, 1]), ("u", &[0, 1])]);
    let members = vec![
        Subscriber { before: held(&[("t", &[0, 1]), ("u", &[0])]), ..member("a", &["t"]) },
        Subscriber { before: held(&[("u", &[1])]), ..member("b", &["u"]) },
    ];
    let assigned = assign(members, &all);
    assert!(assigned["a"].get(&id_of("u")).is_none_or(BTreeSet::is_empty), "{assigned:?}");
    assert_eq!(assigned["b"], held(&[("u", &[0, 1])]));
}

/// Compares assignments with recorded ones of Kafka's assignor.
#[test]
fn random_groups_are_assigned_as_by_kafka() {
    let text = include_str!("../../../../testdata/group/simple-assignor-4.3.1.txt");
    let text = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let mut cases = 0;
    for case in text.split("\n\n").filter(|case| !case.trim().is_empty()) {
        let (mut topics, mut members, mut expected) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for line in case.trim().lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["T", name, id, partitions] => {
                    let partitions = list(partitions).map(|index| index.parse().unwrap()).collect();
                    topics.insert(name.to_owned(), Assignable { id: uuid(id), partitions });
                }
                ["M", id, names, before] => members.push(Subscriber {
                    id: id.to_owned(),
                    topics: list(names).map(str::to_owned).collect(),
                    before: partitions(before),
                }),
                ["R", id, assigned] => drop(expected.insert(id.to_owned(), partitions(assigned))),
                _ => panic!("{line}"),
            }
        }
        assert_eq!(assign(members, &topics), expected, "{case}");
        cases += 1;
    }
    assert!(cases >= 200, "{cases}");
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|part| !part.is_empty() && *part != "-")
}

fn uuid(hex: &str) -> Uuid {
    Uuid::from_bytes(u128::from_str_radix(hex, 16).unwrap().to_be_bytes())
}

fn partitions(text: &str) -> Partitions {
    let topics = text.split(';').filter(|part| *part != "-");
    let topics = topics.map(|topic| {
        let (id, indexes) = topic.split_once(':').unwrap();
        (uuid(id), list(indexes).map(|index| index.parse().unwrap()).collect())
    });
    topics.collect()
}

#[test]
fn assignment_invariants_hold_for_random_groups() {
    for seed in seeds(scaled(300)) {
        let mut random = seed;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % limit
        };
        let names: Vec<String> = (0..1 + below(4)).map(|number| format!("t{number}")).collect();
        let all: BTreeMap<String, Assignable> = names
            .iter()
            .map(|name| {
                let count = i32::try_from(1 + below(9)).unwrap();
                (name.clone(), Assignable { id: id_of(name), partitions: (0..count).collect() })
            })
            .collect();
        let targets: usize = all.values().map(|topic| topic.partitions.len()).sum();
        let members = 1 + below(12);
        let subscribers: Vec<Subscriber> = (0..members)
            .map(|number| Subscriber {
                id: format!("m{number}"),
                topics: names.iter().cloned().collect(),
                before: Partitions::new(),
            })
            .collect();
        let first = assign(subscribers.clone(), &all);
        let shared = sharing(&first);
        let each = members.div_ceil(targets);
        assert_eq!(shared.len(), targets, "seed {seed}: every partition has a member");
        assert!(shared.values().all(|count| *count <= each), "seed {seed}: {shared:?}");
        let most = (each * targets).div_ceil(members);
        let given = counts(&first);
        assert!(given.iter().all(|count| (1..=most).contains(count)), "seed {seed}: {given:?}");
        assert_eq!(assign(subscribers.clone(), &all), first, "seed {seed}: equal groups, equal results");
        let settled =
            subscribers.into_iter().map(|member| Subscriber { before: first[&member.id].clone(), ..member });
        assert_eq!(assign(settled.collect(), &all), first, "seed {seed}: what is even stays");
    }
}
