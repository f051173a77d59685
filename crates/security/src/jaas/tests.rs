//! JAAS configurations, right and wrong.

use super::*;

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";

#[test]
fn kafkas_examples_are_read() {
    let text = format!(
        "{PLAIN} required \\\n username=\"admin\" password=\"admin-secret\" user_admin=\"admin-secret\" \
         user_alice='al \"ice\"' user_bob=bob user_e=\"a\\\"b\\\\c\";"
    )
    .replace("\\\n", "\n");
    let jaas = Jaas::parse(&text).unwrap();
    assert_eq!(jaas.module, PLAIN);
    let users = jaas.plain_users();
    let users: Vec<(&str, &str)> = users.iter().map(|(user, password)| (&**user, &**password)).collect();
    let expected = [("admin", "admin-secret"), ("alice", "al \"ice\""), ("bob", "bob"), ("e", "a\"b\\c")];
    assert_eq!(users, expected);
    assert_eq!(Jaas::parse("a.B required;").unwrap().options.len(), 0);
}

#[test]
fn jaas_errors_name_position_and_hide_text() {
    let check = |text: &str, expected: &str| {
        let error = Jaas::parse(text).unwrap_err().to_string();
        assert_eq!(error, expected);
        assert!(!error.contains("s3cret"));
    };
    check("", "expected the name of a login module at character 1");
    check("a.B", "expected a control flag such as required at character 4");
    check("a.B s3cret;", "expected a control flag such as required at character 5");
    check("a.B required user_a=\"s3cret\"", "expected an option or ; at character 29");
    check("a.B required user_a;", "expected = after the name of an option at character 20");
    check("a.B required user_a=;", "expected the value of an option at character 21");
    check("a.B required user_a=\"s3cret;", "expected the end of the quoted text at character 21");
    check(
        "a.B required; c.D required s3cret=1;",
        "expected the end (there can be one login module) at character 15",
    );
}

#[test]
fn jaas_passwords_are_not_printed() {
    let jaas = Jaas::parse("a.B required user_a=s3cret;").unwrap();
    assert_eq!(format!("{jaas:?}"), "Jaas { module: \"a.B\", options: [\"user_a\"] }");
}
