//! Tests of `delegation`.

use super::*;

#[test]
fn the_hmac_of_a_token_is_that_of_kafka() {
    // Computed by another program: HMAC-SHA512 of the id under the key in UTF-8.
    let hmac = token_hmac("testKey", "pl5dfKdLRLGX_bYhyPCFYA");
    let expected = "e82TSM944/Bmx+MZlhKkYfRBf8SaG1XNFdzKzG6TG5cSsp0eR6Gyp44JevPnimM6LNIhaX32BHizuyefvGebLg==";
    assert_eq!(token_password(&hmac), expected);
}

#[test]
fn the_type_of_a_principal_ends_at_the_first_colon() {
    for (principal, parts) in
        [("User:alice", ("User", "alice")), ("User:a:b", ("User", "a:b")), ("alice", ("User", "alice"))]
    {
        assert_eq!(principal_parts(principal), parts);
    }
}
