//! Changes of access control that a single request may ask for.

use levada_security::acl::{Operation, PatternType, Permission, ResourceType};

use super::*;
use crate::image::{Position, Replay};
use crate::records::FeatureLevelRecord;

/// An image with this number of entries.
fn image(count: u64) -> Image {
    let acls: Vec<Acl> = (0..count).map(acl).collect();
    let mut id = 0;
    let created = create_acls(&Image::empty(), &acls, || {
        id += 1;
        Uuid::from_bytes(u128::to_be_bytes(id))
    });
    let mut replay = Replay::new(Image::empty());
    for (offset, record) in (0..).zip(created.records) {
        replay.push(record, Position { offset, ..Position::default() }).unwrap();
    }
    replay.into_image()
}

fn acl(number: u64) -> Acl {
    Acl {
        resource_type: ResourceType::Topic,
        resource_name: format!("topic-{number}"),
        pattern_type: PatternType::Literal,
        principal: "User:ann".to_owned(),
        host: "*".to_owned(),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

#[test]
fn more_than_10000_acls_per_request_are_refused() {
    let acls: Vec<Acl> = (0..10_001).map(acl).collect();
    let all = create_acls(&Image::empty(), &acls, || Uuid::ZERO);
    assert!(all.records.is_empty());
    assert_eq!(all.outcome.map_err(|refusal| refusal.reason), Err(Reason::PolicyViolation));
    let most = create_acls(&Image::empty(), &acls[1..], || Uuid::ZERO);
    assert_eq!((most.records.len(), most.outcome.map(|added| added.len())), (10_000, Ok(10_000)));
}

/// The log and the audit log told each entry of a request as new.
#[test]
fn create_acls_returns_only_new_entries() {
    let prefixed = |number| Acl { pattern_type: PatternType::Prefixed, ..acl(number) };
    let asked = [acl(0), acl(3), prefixed(0), acl(2), acl(3), prefixed(0)];
    let created = create_acls(&image(3), &asked, || Uuid::ZERO);
    assert_eq!((created.records.len(), created.outcome), (2, Ok(vec![acl(3), prefixed(0)])));
}

#[test]
fn delete_acls_limits_the_listed_matches() {
    let image = image(1_000);
    // Any type, pattern, operation and permission.
    let any = AclFilter::from_codes([1, 1, 1, 1]).expect("a filter for everything");
    let deleted = delete_acls(&image, &vec![any; 500]);
    assert_eq!(deleted.records.len(), 1_000, "each goes once");
    let told = deleted.outcome.iter().flatten().map(Vec::len).sum::<usize>();
    assert_eq!(told, TOLD_MAX);
    let refused: Vec<_> = deleted.outcome.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(refused.len(), 500 - TOLD_MAX / 1_000);
    for refusal in refused {
        // The limit of removed entries is another one, and was not exceeded.
        assert!(
            refusal.message.as_deref().is_some_and(|text| text.contains("100000 acls")),
            "{:?}",
            refusal.message
        );
    }
}

#[test]
fn acl_filters_compare_only_entries_of_their_resource() {
    let image = image(5_000);
    let named = |number: u64| {
        let any = AclFilter::from_codes([1, 1, 1, 1]).expect("a filter for everything");
        AclFilter { resource_name: Some(format!("topic-{number}")), ..any }
    };
    // Compared with all entries, these would be 25 million comparisons.
    let filters: Vec<AclFilter> = (0..5_000).map(named).collect();
    let deleted = delete_acls(&image, &filters);
    assert_eq!(deleted.records.len(), 5_000);
    assert!(deleted.outcome.iter().all(|outcome| outcome.as_ref().is_ok_and(|acls| acls.len() == 1)));
}

#[test]
fn acl_filters_have_a_comparison_limit() {
    let image = image(1_000);
    let nobody = AclFilter { principal: Some("User:nobody".to_owned()), ..AclFilter::default() };
    let filters = vec![nobody; COMPARED_MAX / 1_000 + 1];
    let outcome = delete_acls(&image, &filters).outcome;
    let (last, others) = outcome.split_last().unwrap();
    assert!(others.iter().all(|one| *one == Ok(Vec::new())));
    assert_eq!(last.as_ref().map_err(|refusal| refusal.reason).unwrap_err(), Reason::PolicyViolation);
}

#[test]
fn credentials_are_refused_below_their_metadata_version() {
    let at = |level: Option<i16>| {
        let mut replay = Replay::new(Image::empty());
        if let Some(feature_level) = level {
            let level = FeatureLevelRecord { name: METADATA_VERSION.to_owned(), feature_level };
            replay.push(level.into(), Position::default()).unwrap();
        }
        let set = |user: &str| AlterCredential::Set {
            user: user.to_owned(),
            mechanism: ScramMechanism::ALL[0].code(),
            iterations: ITERATIONS_MIN,
            salt: vec![1],
            salted_password: vec![2; 64],
        };
        let delete = AlterCredential::Delete { user: "bob".to_owned(), mechanism: 9 };
        // As in Kafka, before all other checks but that of repetitions.
        alter_credentials(replay.image(), &[delete, set("ann"), set("eve"), set("eve")])
    };
    let reasons = |decision: &Decision<Vec<(String, Result<(), Refusal>)>>| {
        let outcomes = decision.outcome.iter();
        outcomes.map(|(_, outcome)| outcome.as_ref().err().map(|one| one.reason)).collect::<Vec<_>>()
    };
    let unsupported = Some(Reason::UnsupportedVersion);
    let refused = at(Some(10));
    // Kafka keeps the first error of a user.
    assert_eq!(reasons(&refused), [unsupported; 3]);
    assert!(refused.records.is_empty());
    for level in [Some(11), Some(30), None] {
        let decision = at(level);
        let expected = [None, Some(Reason::UnknownMechanism), Some(Reason::Duplicate)];
        assert_eq!((reasons(&decision), decision.records.len()), (expected.to_vec(), 1), "{level:?}");
    }
}
