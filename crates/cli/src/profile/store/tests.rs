//! Tests of the file of the profiles.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn profile(properties: &[(&str, &str)]) -> Profile {
    let properties = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Profile { brokers: "127.0.0.1:9092".to_owned(), properties: properties.collect() }
}

fn written(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profiles.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    (directory, path)
}

#[test]
fn saved_profiles_are_read_back_and_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("levada/profiles.toml");
    let mut profiles = Profiles::read(path.clone()).unwrap();
    assert_eq!(profiles.all().count(), 0, "no file, no profiles");
    profiles.create("prod", profile(&[("sasl.jaas.config", "x required password=\"p\";")])).unwrap();
    profiles.create("local", profile(&[])).unwrap();
    profiles.create("prod", profile(&[])).unwrap_err();
    profiles.make_current(Some("prod")).unwrap();
    profiles.save().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    let mut profiles = Profiles::read(path.clone()).unwrap();
    assert_eq!(profiles.current(), Some("prod"));
    assert_eq!(
        profiles.profile("prod").unwrap().properties["sasl.jaas.config"],
        "x required password=\"p\";"
    );
    profiles.delete("prod").unwrap();
    assert_eq!(profiles.current(), None, "a deleted profile is not current");
    profiles.make_current(Some("prod")).unwrap_err();
}

#[test]
fn world_readable_profile_file_is_refused() {
    for mode in [0o644, 0o640, 0o604] {
        let (_directory, path) = written("", mode);
        let failure = Profiles::read(path).unwrap_err();
        assert!(failure.line().contains(&format!("mode {mode:04o}")), "{failure:?}");
    }
    let (_directory, path) = written("", 0o400);
    Profiles::read(path).unwrap();
}

#[test]
fn unknown_keys_are_errors_that_repeat_no_secret() {
    fn check(text: &str, expected: &str) {
        let (_directory, path) = written(text, 0o600);
        let failure = Profiles::read(path).unwrap_err();
        assert!(failure.line().contains(expected), "{text}: {failure:?}");
        assert!(!failure.line().contains("secret"), "{failure:?}");
    }
    check("curent = \"secret\"", "unknown field `curent`");
    check("[profiles.p]\nbrokers = \"b\"\npassword = \"secret\"", "line 3: unknown field `password`");
    check("[profiles.p]\nbrokers = \"\"", "brokers is empty");
    let property = "[profiles.p]\nbrokers = \"b\"\n[profiles.p.properties]\n\"sasl.mechanisms\" = \"secret\"";
    check(property, "unknown client property sasl.mechanisms; the nearest is sasl.mechanism");
    check("[profiles.p]\nbrokers = secret", "line 2: the syntax");
    check("\n[profiles]\np = \"secret\"", "line 3: the syntax");
}

#[test]
fn profile_with_invalid_settings_is_not_created() {
    fn check(brokers: &str, properties: &[(&str, &str)], expected: Option<&str>) {
        let mut profiles = Profiles { path: None, content: Content::default() };
        let one = Profile { brokers: brokers.to_owned(), ..profile(properties) };
        match (profiles.create("p", one), expected) {
            (Ok(()), None) => {}
            (Err(failure), Some(expected)) => assert!(failure.line().contains(expected), "{failure:?}"),
            (done, expected) => panic!("{brokers} {properties:?}: {done:?} instead of {expected:?}"),
        }
    }
    for brokers in ["localhost", "a:1, b:65535,", "[::1]:9092", "[::1]"] {
        check(brokers, &[], None);
    }
    for address in ["127.0.0.1:99999", "a:0", "a:", ":9092", "[::1]9092", "[::1]:x"] {
        check(&format!("b:9092,{address}"), &[], Some(&format!("broker {address}: expected HOST:PORT")));
    }
    check("http://a:9092", &[], Some("without http://"));
    check("a", &[("security.protocol", "sasl_ssl"), ("sasl.mechanism", "PLAIN")], None);
    check("a", &[("security.protocol", "TLS")], Some("security.protocol must be"));
    check("a", &[("security.protocol", "SASL_SSL")], Some("sasl.mechanism must be"));
    check("a", &[("sasl.mechanism", "GSSAPI")], Some("sasl.mechanism must be"));
}
