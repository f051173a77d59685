//! Decisions about delegation tokens, as Kafka's controller makes them.

use super::*;
use crate::image::{Position, Replay};
use crate::records::{FeatureLevelRecord, Record};

const NOW_MS: i64 = 1_000_000;
const LIFETIMES: TokenLifetimes = TokenLifetimes { max_ms: 10_000, renewal_ms: 1_000 };

fn apply(image: &Image, records: Vec<Record>) -> Image {
    let mut replay = Replay::new(image.clone());
    for (offset, record) in (image.offset() + 1..).zip(records) {
        replay.push(record, Position { offset, ..Position::default() }).unwrap();
    }
    replay.into_image()
}

fn wanted(max_lifetime_ms: i64) -> NewToken {
    NewToken {
        owner: "User:alice".to_owned(),
        requester: "User:root".to_owned(),
        renewers: vec!["User:bob".to_owned()],
        max_lifetime_ms,
    }
}

fn create(image: &Image, new: &NewToken, id: &str) -> Result<(Image, DelegationTokenRecord), Refusal> {
    let decision = create_token(image, new, id.to_owned(), (LIFETIMES, NOW_MS))?;
    assert_eq!(decision.records, [Record::from(decision.outcome.clone())]);
    Ok((apply(image, decision.records), decision.outcome))
}

/// An image with the token `a` of alice, which bob may renew.
fn image() -> Image {
    create(&Image::empty(), &wanted(-1), "a").unwrap().0
}

fn change(id: Option<&str>, who: &str, period_ms: i64) -> TokenChange {
    TokenChange { id: id.map(str::to_owned), principal: who.to_owned(), period_ms }
}

fn reason<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> Reason {
    outcome.unwrap_err().reason
}

#[test]
fn token_lifetime_uses_the_shorter_limit() {
    for (asked_ms, max_ms) in [(-1, 10_000), (0, 10_000), (20_000, 10_000), (5_000, 5_000), (400, 400)] {
        let (_, token) = create(&Image::empty(), &wanted(asked_ms), "a").unwrap();
        let times = (token.issue_timestamp, token.max_timestamp, token.expiration_timestamp);
        assert_eq!(times, (NOW_MS, NOW_MS + max_ms, NOW_MS + max_ms.min(1_000)), "{asked_ms}");
        let names = (token.owner.as_str(), token.requester.as_str(), token.renewers.len());
        assert_eq!(names, ("User:alice", "User:root", 1));
    }
    let endless = TokenLifetimes { max_ms: i64::MAX, renewal_ms: i64::MAX };
    let decision = create_token(&Image::empty(), &wanted(-1), "a".to_owned(), (endless, NOW_MS));
    assert_eq!(decision.unwrap().outcome.expiration_timestamp, i64::MAX);
}

#[test]
fn owners_and_renewers_postpone_the_expiry() {
    let image = image();
    let renew = |who, period_ms, now_ms| {
        let change = change(Some("a"), who, period_ms);
        renew_token(&image, &change, (LIFETIMES, now_ms)).map(|one| one.outcome)
    };
    assert_eq!(renew("User:alice", -1, NOW_MS + 500), Ok(NOW_MS + 1_500));
    assert_eq!(renew("User:bob", 200, NOW_MS + 500), Ok(NOW_MS + 700));
    assert_eq!(renew("User:bob", 5_000, NOW_MS), Ok(NOW_MS + 1_000), "the configured time at most");
    for who in ["User:root", "User:carol", "Group:alice", "alice"] {
        assert_eq!(reason(renew(who, -1, NOW_MS)), Reason::NotTokensOwner, "{who}");
    }
    assert_eq!(reason(renew("User:alice", -1, NOW_MS + 1_001)), Reason::ExpiredToken);
    for id in [None, Some("b")] {
        let unknown = renew_token(&image, &change(id, "User:alice", -1), (LIFETIMES, NOW_MS));
        assert_eq!(reason(unknown), Reason::UnknownToken);
    }
    let by_bob = change(Some("a"), "User:bob", -1);
    let renewed = renew_token(&image, &by_bob, (LIFETIMES, NOW_MS + 900)).unwrap();
    let image = apply(&image, renewed.records);
    let token = &image.tokens()["a"];
    assert_eq!((token.max_timestamp, token.expiration_timestamp), (NOW_MS + 10_000, NOW_MS + 1_900));
    let long = TokenLifetimes { max_ms: 1, renewal_ms: i64::MAX };
    let last = renew_token(&image, &by_bob, (long, NOW_MS)).unwrap();
    assert_eq!(last.outcome, NOW_MS + 10_000, "a token does not outlive its lifetime");
}

#[test]
fn expiry_is_set_or_the_token_removed() {
    let image = image();
    let expire = |who, period_ms, now_ms| expire_token(&image, &change(Some("a"), who, period_ms), now_ms);
    assert_eq!(expire("User:bob", 0, NOW_MS).unwrap().outcome, NOW_MS);
    assert_eq!(expire("User:alice", i64::MAX, NOW_MS).unwrap().outcome, NOW_MS + 10_000);
    assert_eq!(reason(expire("User:carol", -1, NOW_MS)), Reason::NotTokensOwner);
    assert_eq!(reason(expire("User:alice", 5, NOW_MS + 1_001)), Reason::ExpiredToken);
    let removed = expire("User:alice", -1, NOW_MS + 1_001).unwrap();
    assert_eq!(removed.outcome, NOW_MS + 1_001, "an expired token can be removed");
    assert!(apply(&image, removed.records).tokens().is_empty());
}

#[test]
fn expired_tokens_are_removed_in_portions() {
    let mut image = Image::empty();
    for number in 0..EXPIRED_TOKENS_MAX + 5 {
        image = create(&image, &wanted(-1), &format!("t{number}")).unwrap().0;
    }
    assert!(remove_expired_tokens(&image, NOW_MS + 1_000).records.is_empty(), "in their last moment");
    let first = remove_expired_tokens(&image, NOW_MS + 1_001);
    assert_eq!((first.records.len(), first.outcome.len()), (EXPIRED_TOKENS_MAX, EXPIRED_TOKENS_MAX));
    let image = apply(&image, first.records);
    assert_eq!(remove_expired_tokens(&image, NOW_MS + 1_001).outcome.len(), 5);
}

#[test]
fn tokens_need_their_metadata_version() {
    let level = |level| {
        let name = METADATA_VERSION.to_owned();
        apply(&image(), vec![FeatureLevelRecord { name, feature_level: level }.into()])
    };
    let old = level(TOKENS - 1);
    let change = change(Some("a"), "User:alice", -1);
    let all = [
        create_token(&old, &wanted(-1), "b".to_owned(), (LIFETIMES, NOW_MS)).map(drop),
        renew_token(&old, &change, (LIFETIMES, NOW_MS)).map(drop),
        expire_token(&old, &change, NOW_MS).map(drop),
    ];
    assert!(all.into_iter().all(|outcome| reason(outcome) == Reason::UnsupportedVersion));
    assert!(create_token(&level(TOKENS), &wanted(-1), "b".to_owned(), (LIFETIMES, NOW_MS)).is_ok());
}

/// Renewers are the only part of a request that can be long.
#[test]
fn memory_of_a_requester_is_bounded() {
    let long = |name: &str| NewToken {
        requester: format!("User:{name}"),
        renewers: vec![format!("User:{}", "r".repeat(30_000)); 17],
        ..wanted(-1)
    };
    let (mut image, mut refusal) = (Image::empty(), None);
    for number in 0..10 {
        match create(&image, &long("eve"), &format!("e{number}")) {
            Ok((next, _)) => image = next,
            Err(refused) => refusal = refusal.or(Some(refused)),
        }
    }
    let refusal = refusal.unwrap();
    assert_eq!((refusal.reason, image.tokens().len()), (Reason::PolicyViolation, 4));
    assert!(refusal.message.unwrap().contains("of one requester take more than 2097152 bytes"));
    assert!(create(&image, &wanted(-1), "a").is_ok(), "others are not affected");
    let mut image = image;
    let refusal =
        (0..40).find_map(|number| match create(&image, &long(&number.to_string()), &number.to_string()) {
            Ok((next, _)) => {
                image = next;
                None
            }
            Err(refused) => Some(refused),
        });
    assert!(refusal.unwrap().message.unwrap().contains("of all requesters"));
    let whole = NewToken { renewers: vec!["User:r".to_owned(); 80_000], ..wanted(-1) };
    assert_eq!(reason(create(&Image::empty(), &whole, "a")), Reason::PolicyViolation);
}
