//! Entries that apply to a name, and entries that a filter selects.

use super::*;

/// `TOPIC:LITERAL:name ALLOW READ`, for all principals and hosts.
pub(crate) fn acl(text: &str) -> Acl {
    let (pattern, entry) = text.split_once(' ').unwrap();
    let [kind, pattern_type, name] = pattern.splitn(3, ':').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let mut words = entry.split(' ');
    fn known<T: Copy>(all: &[T], name: fn(T) -> &'static str, wanted: &str) -> T {
        *all.iter().find(|entry| name(**entry) == wanted).unwrap()
    }
    Acl {
        resource_type: known(ResourceType::ALL, ResourceType::name, kind),
        pattern_type: known(PatternType::ALL, PatternType::name, pattern_type),
        resource_name: name.to_owned(),
        permission: known(Permission::ALL, Permission::name, words.next().unwrap()),
        operation: known(Operation::ALL, Operation::name, words.next().unwrap()),
        principal: words.next().unwrap_or(EVERYBODY).to_owned(),
        host: words.next().unwrap_or(WILDCARD).to_owned(),
    }
}

pub(crate) fn index(texts: &[&str]) -> AclIndex {
    let mut index = AclIndex::default();
    texts.iter().for_each(|text| index.insert(Arc::new(acl(text))));
    index
}

#[test]
fn acl_index_finds_literal_prefixed_and_wildcard_entries() {
    let texts = [
        "TOPIC:LITERAL:foobar ALLOW READ",
        "TOPIC:LITERAL:foo ALLOW READ",
        "TOPIC:PREFIXED:foo ALLOW READ",
        "TOPIC:PREFIXED:f ALLOW READ",
        "TOPIC:PREFIXED:foobar ALLOW READ",
        "TOPIC:PREFIXED:foobarbaz ALLOW READ",
        "TOPIC:PREFIXED:g ALLOW READ",
        "TOPIC:LITERAL:* ALLOW READ",
        "TOPIC:PREFIXED:é ALLOW READ",
        "GROUP:LITERAL:foobar ALLOW READ",
    ];
    let mut index = index(&texts);
    let check = |index: &AclIndex, kind, name: &str, expected: &[usize]| {
        let mut found: Vec<Acl> = index.about(kind, name).map(|acl| (**acl).clone()).collect();
        let mut expected: Vec<Acl> = expected.iter().map(|at| acl(texts[*at])).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{name}");
    };
    check(&index, ResourceType::Topic, "foobar", &[0, 2, 3, 4, 7]);
    check(&index, ResourceType::Topic, "foo", &[1, 2, 3, 7]);
    check(&index, ResourceType::Topic, "x", &[7]);
    check(&index, ResourceType::Topic, "*", &[7]);
    check(&index, ResourceType::Topic, "ê", &[7]);
    check(&index, ResourceType::Topic, "éa", &[7, 8]);
    check(&index, ResourceType::Group, "foobar", &[9]);
    check(&index, ResourceType::Cluster, "foobar", &[]);
    for at in [3, 7, 9] {
        index.remove(&Arc::new(acl(texts[at])));
    }
    check(&index, ResourceType::Topic, "foobar", &[0, 2, 4]);
    check(&index, ResourceType::Group, "foobar", &[]);
}

#[test]
fn acl_filters_match_like_kafka() {
    let check = |filter: AclFilter, text: &str, expected: bool| {
        assert_eq!(filter.matches(&acl(text)), expected, "{filter:?} {text}");
    };
    let named = |name: &str, pattern| AclFilter {
        resource_name: Some(name.to_owned()),
        pattern,
        ..AclFilter::default()
    };
    let literal = PatternFilter::Only(PatternType::Literal);
    let prefixed = PatternFilter::Only(PatternType::Prefixed);
    for (pattern, literal_foo, prefixed_fo, prefixed_foo, wildcard) in [
        (PatternFilter::Any, true, false, true, false),
        (PatternFilter::Match, true, true, true, true),
        (literal, true, false, false, false),
        (prefixed, false, false, true, false),
    ] {
        check(named("foo", pattern), "TOPIC:LITERAL:foo ALLOW READ", literal_foo);
        check(named("foo", pattern), "TOPIC:PREFIXED:fo ALLOW READ", prefixed_fo);
        check(named("foo", pattern), "TOPIC:PREFIXED:foo ALLOW READ", prefixed_foo);
        check(named("foo", pattern), "TOPIC:LITERAL:* ALLOW READ", wildcard);
        check(named("foo", pattern), "TOPIC:LITERAL:food ALLOW READ", false);
    }
    let codes = |codes| AclFilter::from_codes(codes).unwrap();
    check(codes([1, 1, 1, 1]), "GROUP:PREFIXED:g DENY DELETE User:a h", true);
    check(codes([2, 1, 1, 1]), "GROUP:PREFIXED:g DENY DELETE", false);
    check(codes([1, 3, 1, 1]), "GROUP:PREFIXED:g DENY DELETE", false);
    check(codes([1, 1, 3, 1]), "GROUP:PREFIXED:g DENY DELETE", false);
    // "All" is an operation here, not a wildcard.
    check(codes([1, 1, 2, 1]), "GROUP:PREFIXED:g DENY DELETE", false);
    check(codes([1, 1, 1, 3]), "GROUP:PREFIXED:g DENY DELETE", false);
    let principal = AclFilter { principal: Some("User:a".to_owned()), ..AclFilter::default() };
    check(principal.clone(), "GROUP:PREFIXED:g DENY DELETE User:a", true);
    check(principal, "GROUP:PREFIXED:g DENY DELETE User:*", false);
    for unknown in
        [[0, 1, 1, 1], [8, 1, 1, 1], [1, 0, 1, 1], [1, 5, 1, 1], [1, 1, 0, 1], [1, 1, 16, 1], [1, 1, 1, 4]]
    {
        assert_eq!(AclFilter::from_codes(unknown), None, "{unknown:?}");
    }
}
