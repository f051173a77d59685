//! Tests of `delegation`.

use super::*;

#[test]
fn delegation_token_hmac_matches_kafka() {
    // Computed by another program: HMAC-SHA512 of the id under the key in UTF-8.
    let hmac = token_hmac("testKey", "pl5dfKdLRLGX_bYhyPCFYA");
    let expected = "e82TSM944/Bmx+MZlhKkYfRBf8SaG1XNFdzKzG6TG5cSsp0eR6Gyp44JevPnimM6LNIhaX32BHizuyefvGebLg==";
    assert_eq!(token_password(&hmac), expected);
}

#[test]
fn principal_type_ends_at_first_colon() {
    for (principal, parts) in
        [("User:alice", ("User", "alice")), ("User:a:b", ("User", "a:b")), ("alice", ("User", "alice"))]
    {
        assert_eq!(principal_parts(principal), parts);
    }
}
