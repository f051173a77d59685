//! Users that PLAIN accepts.

use super::*;

#[test]
fn plain_accepts_only_right_password_of_known_user() {
    let passwords = BTreeMap::from(
        [("alice", "wonder"), ("bob", "build it")]
            .map(|(user, password)| (user.to_owned(), password.to_owned())),
    );
    let check = |message: &str, expected: Result<&str, PlainError>| {
        let expected = expected.map(str::to_owned);
        assert_eq!(authenticate(message.as_bytes(), &passwords), expected, "{message:?}");
    };
    let wrong = |user: &str| Err(PlainError::Wrong { user: user.to_owned() });
    check("\0alice\0wonder", Ok("alice"));
    check("alice\0alice\0wonder", Ok("alice"));
    check("\0bob\0build it", Ok("bob"));
    check("\0alice\0wonder ", wrong("alice"));
    check("\0alice\0build it", wrong("alice"));
    check("\0carol\0wonder", wrong("carol"));
    check("bob\0alice\0wonder", Err(PlainError::OtherIdentity { user: "alice".to_owned() }));
    check("\0\0wonder", Err(PlainError::NoUser));
    check("\0alice\0", Err(PlainError::NoPassword));
    check("", Err(PlainError::Malformed { found: 1 }));
    check("\0alice", Err(PlainError::Malformed { found: 2 }));
    check("\0alice\0wonder\0", Err(PlainError::Malformed { found: 4 }));
    check("\0alice\0wonder\0\0\0", Err(PlainError::Malformed { found: 4 }));
}
