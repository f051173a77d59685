//! Names as Java writes them, and rules as Kafka reads them.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;

#[test]
fn certificate_subjects_match_java() {
    fn check(parts: &[(DnType, &str)], expected: &str) {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(subject(certificate.der()).unwrap(), expected);
    }
    let email = || DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
    let uid = || DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 1]);
    check(
        &[(DnType::CountryName, "DE"), (DnType::OrganizationName, "Acme"), (DnType::CommonName, "edge-1")],
        "CN=edge-1,O=Acme,C=DE",
    );
    check(&[(DnType::CommonName, "a,b+c\"d\\e<f>g;h=i#j")], "CN=a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h\\=i\\#j");
    check(&[(DnType::CommonName, "Ärger/host")], "CN=Ärger/host");
    check(&[(uid(), "u"), (email(), "a@b.c")], "1.2.840.113549.1.9.1=#0c056140622e63,UID=u");
    // The length of a long value takes two bytes, or three.
    for (len, front) in [(127, "0c7f"), (128, "0c8180"), (255, "0c81ff"), (256, "0c820100")] {
        let value = "e".repeat(len);
        check(&[(email(), &value[..])], &format!("1.2.840.113549.1.9.1=#{front}{}", "65".repeat(len)));
    }
    check(&[(DnType::CommonName, "a\0b")], "CN=a\\00b");
    assert_eq!(subject(b"no certificate"), None);
}

#[test]
fn principal_mapping_rules_match_kafka() {
    fn check(rules: &str, name: &str, expected: Option<&str>) {
        assert_eq!(Rules::parse(rules).unwrap().principal(name).as_deref(), expected, "{rules}");
    }
    const NAME: &str = "CN=Duke,OU=ServiceUsers,O=Org,C=US";
    check("DEFAULT", NAME, Some(NAME));
    check("", NAME, Some(NAME));
    check("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", NAME, Some("Duke"));
    check("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", NAME, Some("duke"));
    check("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U", NAME, Some("DUKE"));
    check("RULE:^CN=([^,]*),OU=([^,]*).*$/$1@$2/L , DEFAULT", NAME, Some("duke@serviceusers"));
    check("RULE:^CN=nobody$/x/, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT", NAME, Some("duke"));
    check("RULE:CN=Du/x/", NAME, None);
    check("RULE:^CN=(.*?),.*$/a\\/b $1 $7/", NAME, Some("a/b Duke $7"));
    check("RULE:^CN=a\\/b$/slash/", "CN=a/b", Some("slash"));
    check("RULE:^CN=(.*?),OU=.*$/$1/L,RULE:^CN=(.*)$/$1/", "CN=only", Some("only"));
}

#[test]
fn malformed_mapping_rules_are_refused() {
    for wrong in [
        "RULE:^CN=(.*?)$",
        "RULE:a/b",
        "RULE:(/x/",
        "RULE:a)|(b/x/",
        "default",
        "RULE:a/b/ RULE:c/d/",
        "RULE:a/b/X",
    ] {
        assert!(Rules::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn new_certificate_must_keep_subject_and_names() {
    let names = |subject: &str, others: &[&str]| Names {
        subject: subject.to_owned(),
        others: others.iter().map(ToString::to_string).collect(),
    };
    let old = names("CN=a", &["DNSName(a)", "DNSName(b)"]);
    let check = |new: &Names, allowed: &[&str], refused: Option<&str>| {
        let outcome = new.follow(&old, |key| allowed.contains(&key));
        assert_eq!(outcome.err().map(|(key, _)| key), refused, "{new:?} {allowed:?}");
    };
    let (dn, san) = ("ssl.allow.dn.changes", "ssl.allow.san.changes");
    check(&old, &[], None);
    check(&names("CN=a", &["DNSName(a)", "DNSName(b)", "DNSName(c)"]), &[], None);
    check(&names("CN=a", &["DNSName(a)"]), &[], Some(san));
    check(&names("CN=a", &["DNSName(a)"]), &[san], None);
    check(&names("CN=b", &["DNSName(a)", "DNSName(b)"]), &[san], Some(dn));
    check(&names("CN=b", &["DNSName(a)", "DNSName(b)"]), &[dn], None);
    check(&names("CN=b", &[]), &[dn], Some(san));
}

#[test]
fn principal_names_come_from_the_certificate() {
    let mut params = rcgen::CertificateParams::new(["a.test".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "a");
    let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let names = Names::of(certificate.der()).unwrap();
    assert_eq!((names.subject.as_str(), names.others.len()), ("CN=a", 2));
    assert!(Names::of(&certificate.der()[1..]).is_none());
}
