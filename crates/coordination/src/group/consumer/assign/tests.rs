//! The assignors: everything is assigned once, evenly, and moves no more than it must.

use proptest::prelude::*;

use super::*;

fn topic(number: u128) -> Uuid {
    Uuid::from_bytes(number.to_be_bytes())
}

fn candidate(id: &str, topics: &[u128]) -> Candidate {
    Candidate { id: id.into(), topics: topics.iter().copied().map(topic).collect(), ..Candidate::default() }
}

fn show(assigned: &BTreeMap<String, Partitions>) -> Vec<String> {
    let member = |(id, partitions): (&String, &Partitions)| {
        let topics = partitions
            .iter()
            .map(|(topic, held)| format!("{}{held:?}", u128::from_be_bytes(topic.to_bytes())));
        format!("{id}: {}", topics.collect::<Vec<_>>().join(" "))
    };
    assigned.iter().map(member).collect()
}

#[test]
fn range_gives_consecutive_partitions_and_static_members_first() {
    let counts = [(topic(1), 3), (topic(2), 3)].into();
    let members = || vec![candidate("a", &[1, 2]), candidate("b", &[1, 2])];
    let assigned = assign("range", members(), &counts);
    assert_eq!(show(&assigned), ["a: 1{0, 1} 2{0, 1}", "b: 1{2} 2{2}"]);
    let mut with_static = members();
    with_static[1].instance_id = Some("i".into());
    assert_eq!(show(&assign("range", with_static, &counts)), ["a: 1{2} 2{2}", "b: 1{0, 1} 2{0, 1}"]);
    let mixed = vec![candidate("a", &[1]), candidate("b", &[1, 2]), candidate("c", &[2])];
    assert_eq!(show(&assign("range", mixed, &counts)), ["a: 1{0, 1}", "b: 1{2} 2{0, 1}", "c: 2{2}"]);
    let crowd = vec![candidate("a", &[3]), candidate("b", &[3])];
    assert_eq!(show(&assign("range", crowd, &[(topic(3), 1)].into())), ["a: 3{0}", "b: "]);
}

fn members() -> impl Strategy<Value = Vec<Candidate>> {
    let member = (proptest::collection::btree_set(1_u128..4, 0..4), any::<bool>());
    proptest::collection::vec(member, 1..7).prop_map(|members| {
        let named = members.into_iter().enumerate();
        let members = named.map(|(place, (topics, is_static))| Candidate {
            id: format!("m{place}"),
            instance_id: is_static.then(|| format!("i{place}")),
            topics: topics.into_iter().map(topic).collect(),
            before: Partitions::new(),
        });
        members.collect()
    })
}

fn check(members: &[Candidate], counts: &BTreeMap<Uuid, i32>, assigned: &BTreeMap<String, Partitions>) {
    let mut seen = BTreeSet::new();
    for member in members {
        for (topic, held) in &assigned[&member.id] {
            assert!(member.topics.contains(topic) && !held.is_empty());
            for index in held {
                assert!(*index < counts[topic] && seen.insert((*topic, *index)), "{topic:?} {index}");
            }
        }
    }
    let wanted =
        counts.iter().filter(|(topic, _)| members.iter().any(|member| member.topics.contains(topic)));
    assert_eq!(seen.len(), wanted.map(|(_, count)| usize::try_from(*count).unwrap()).sum::<usize>());
}

proptest! {
    #[test]
    fn assignors_assign_each_partition_once(
        mut members in members(), sizes in proptest::array::uniform3(0_i32..20), leaver in 0_usize..7,
    ) {
        let counts: BTreeMap<Uuid, i32> = (1..).map(topic).zip(sizes).collect();
        check(&members, &counts, &assign("range", members.clone(), &counts));
        let first = assign("uniform", members.clone(), &counts);
        check(&members, &counts, &first);
        for member in &mut members {
            member.before = first[&member.id].clone();
        }
        prop_assert_eq!(&assign("uniform", members.clone(), &counts), &first, "nothing moves without a reason");
        if members.len() > 1 {
            members.remove(leaver % members.len());
            check(&members, &counts, &assign("uniform", members.clone(), &counts));
        }
    }

    #[test]
    fn uniform_assignor_is_even_and_moves_few_partitions(
        count in 1_usize..8, sizes in proptest::array::uniform3(0_i32..20),
    ) {
        let counts: BTreeMap<Uuid, i32> = (1..).map(topic).zip(sizes).collect();
        let mut members: Vec<Candidate> =
            (0..count).map(|place| candidate(&format!("m{place}"), &[1, 2, 3])).collect();
        let first = assign("uniform", members.clone(), &counts);
        for member in &mut members {
            member.before = first[&member.id].clone();
        }
        members.push(candidate("new", &[1, 2, 3]));
        let second = assign("uniform", members, &counts);
        let load = |partitions: &Partitions| partitions.values().map(BTreeSet::len).sum::<usize>();
        let loads: Vec<usize> = second.values().map(load).collect();
        prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{:?}", loads);
        for (id, before) in &first {
            for (topic, held) in &second[id] {
                prop_assert!(held.is_subset(before.get(topic).unwrap_or(&BTreeSet::new())), "{} got more", id);
            }
        }
    }
}
