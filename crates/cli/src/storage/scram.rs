//! The first users of a cluster, in the syntax of `kafka-storage format --add-scram`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use levada_metadata::records::UserScramCredentialRecord;
use levada_security::nonce;
use levada_security::scram::{ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism};

/// `SCRAM-SHA-512=[name=alice,password=…,iterations=8192]`; instead of the password, `salt` and
/// `saltedpassword` may be given, both in base64. Messages do not repeat the text, which contains a
/// password.
pub(super) fn credential(text: &str) -> Result<UserScramCredentialRecord, String> {
    let wrong =
        || "expected SCRAM-SHA-512=[name=USER,password=PASSWORD], and iterations=COUNT if wanted".to_owned();
    let (mechanism, rest) = text.split_once('=').ok_or_else(wrong)?;
    let mechanism = ScramMechanism::from_name(mechanism).ok_or_else(wrong)?;
    let fields = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(wrong)?;
    let fields: BTreeMap<&str, &str> =
        fields.split(',').map(|field| field.split_once('=')).collect::<Option<_>>().ok_or_else(wrong)?;
    const KNOWN: [&str; 5] = ["name", "password", "iterations", "salt", "saltedpassword"];
    if fields.keys().any(|field| !KNOWN.contains(field)) {
        return Err(wrong());
    }
    let bytes = |name: &str| {
        let decoded = fields.get(name).map(|text| BASE64.decode(text));
        decoded.transpose().map_err(|_| format!("{name} is not base64"))
    };
    let iterations = fields.get("iterations").map_or(Ok(ITERATIONS_MIN), |text| text.parse());
    let iterations = iterations.ok().filter(|count| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(count));
    let iterations =
        iterations.ok_or_else(|| format!("iterations must be {ITERATIONS_MIN} to {ITERATIONS_MAX}"))?;
    let name = fields.get("name").copied().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
    let given_salt = bytes("salt")?;
    let salted = bytes("saltedpassword")?;
    let (salt, salted) = match (fields.get("password"), salted, given_salt) {
        (Some(password), None, salt) if !password.is_empty() => {
            let salt = salt.unwrap_or_else(|| nonce().into_bytes());
            let salted = mechanism.salted_password(password, &salt, iterations.unsigned_abs());
            (salt, salted)
        }
        (None, Some(salted), Some(salt)) => (salt, salted),
        _ => return Err(wrong()),
    };
    let credential = mechanism.credential(&salted, salt, iterations);
    Ok(UserScramCredentialRecord {
        name: name.to_owned(),
        mechanism: mechanism.code(),
        salt: credential.salt,
        stored_key: credential.stored_key,
        server_key: credential.server_key,
        iterations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafka_scram_syntax_is_parsed() {
        let read = |text: &str| credential(text).unwrap();
        let alice = read("SCRAM-SHA-256=[name=alice,password=s3cret,salt=c2FsdA==]");
        assert_eq!(
            (&*alice.name, alice.mechanism, alice.iterations, &*alice.salt),
            ("alice", 1, 4096, &b"salt"[..])
        );
        let salted = BASE64.encode(ScramMechanism::Sha256.salted_password("s3cret", b"salt", 4096));
        let same = read(&format!("SCRAM-SHA-256=[name=alice,salt=c2FsdA==,saltedpassword={salted}]"));
        assert_eq!(alice, same);
        assert_eq!(read("SCRAM-SHA-512=[name=b,password=s3cret,iterations=8192]").iterations, 8192);
    }

    #[test]
    fn scram_argument_errors_hide_the_password() {
        for text in [
            "",
            "s3cret",
            "SCRAM-SHA-1=[name=a,password=s3cret]",
            "SCRAM-SHA-256=name=a,password=s3cret",
            "SCRAM-SHA-256=[password=s3cret]",
            "SCRAM-SHA-256=[name=a]",
            "SCRAM-SHA-256=[name=a,password=s3cret,x=1]",
            "SCRAM-SHA-256=[name=a,password=s3cret,iterations=1]",
            "SCRAM-SHA-256=[name=a,saltedpassword=c2FsdA==]",
            "SCRAM-SHA-256=[name=a,password=s3cret,salt=!]",
        ] {
            let error = credential(text).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
