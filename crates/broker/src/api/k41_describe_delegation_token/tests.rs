//! The tokens that a client sees, and their form.

use super::*;

fn token() -> DelegationTokenRecord {
    DelegationTokenRecord {
        owner: "User:owner".to_owned(),
        requester: "User:requester".to_owned(),
        renewers: vec!["User:renewer".to_owned(), "User:other".to_owned()],
        issue_timestamp: 1,
        max_timestamp: 3,
        expiration_timestamp: 2,
        token_id: "id".to_owned(),
    }
}

#[test]
fn described_tokens_are_requested_and_permitted_ones() {
    let names = ["User:owner", "User:requester", "User:renewer"];
    for name in names {
        assert!(is_shown(&token(), (name, None), || panic!("{name} needs no right")));
        let only = ["User:stranger".to_owned(), name.to_owned()];
        for may in [false, true] {
            assert_eq!(is_shown(&token(), ("User:admin", Some(&only)), || may), may);
            assert_eq!(is_shown(&token(), ("User:admin", None), || may), may);
        }
    }
    let strangers = ["User:stranger".to_owned(), "Group:owner".to_owned()];
    for owners in [&strangers[..], &[]] {
        assert!(!is_shown(&token(), ("User:owner", Some(owners)), || panic!("not requested")));
    }
}

#[test]
fn a_token_is_described_in_each_version() {
    for version in 1..=3 {
        let tokens = vec![describe(&token(), vec![7; 64], version)];
        let answer = message!(DescribeDelegationTokenResponse { tokens: tokens });
        let frame = levada_wire::encode_response(7, version, &answer).unwrap();
        let (_, decoded) =
            levada_wire::decode_response::<DescribeDelegationTokenResponse>(frame.slice(4..), version)
                .unwrap();
        let described = &decoded.tokens[0];
        assert_eq!((described.principal_type.as_str(), described.principal_name.as_str()), ("User", "owner"));
        let times = (described.issue_timestamp, described.expiry_timestamp, described.max_timestamp);
        assert_eq!((times, described.token_id.as_str()), ((1, 2, 3), "id"));
        assert_eq!(described.hmac, vec![7; 64]);
        let renewers: Vec<&str> =
            described.renewers.iter().map(|renewer| renewer.principal_name.as_str()).collect();
        assert_eq!(renewers, ["renewer", "other"]);
        let requester = if version < 3 { "" } else { "requester" };
        assert_eq!(described.token_requester_principal_name.as_str(), requester);
    }
}
