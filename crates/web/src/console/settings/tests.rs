//! Tests of the settings that the page shows, and of their values.

use super::*;

fn setting(name: &str, source: i8) -> DescribeConfigsResourceResult {
    let mut setting = DescribeConfigsResourceResult::default();
    setting.name = StrBytes::from(name);
    setting.config_source = source;
    setting
}

#[test]
fn brokers_page_first_shows_set_keys() {
    let asked = |kind, name: &str, value: &str| {
        which(kind, &Fields(vec![(name.to_owned(), value.to_owned())])).to_owned()
    };
    assert_eq!(asked(BROKER, "which", ""), "set");
    assert_eq!(asked(BROKER, "search", "log"), "all", "a search is for any key");
    assert_eq!(asked(BROKER, "which", "open"), "open");
    assert_eq!(asked(TOPIC, "which", ""), "all");
    let (default, set) = (setting("log.retention.ms", DEFAULT_SOURCE), setting("log.dirs", 4));
    assert!(!is_shown(&default, ("", "set")) && is_shown(&default, ("", "all")));
    assert!(is_shown(&set, ("", "set")) && !is_shown(&set, ("retention", "set")));
}

#[test]
fn keys_without_effect_offer_no_change() {
    let open = setting("log.retention.ms", DEFAULT_SOURCE);
    assert_eq!(unchangeable(BROKER, (&open, true)), None);
    assert_eq!(unchangeable(BROKER, (&open, false)), Some("not permitted"));
    let useless = setting("background.threads", DEFAULT_SOURCE);
    assert_eq!(unchangeable(BROKER, (&useless, true)), Some("no effect"));
    let mut fixed = setting("log.dirs", 4);
    fixed.read_only = true;
    assert_eq!(unchangeable(BROKER, (&fixed, true)), Some("needs a restart"));
}

#[test]
fn milliseconds_and_bytes_have_larger_units() {
    let words = |key, value| in_words(key, value).unwrap_or_default();
    assert_eq!(words("retention.ms", "604800000"), "7 d");
    assert_eq!(words("log.segment.bytes", "1073741824"), "1.00 GiB");
    assert_eq!(words("flush.ms", "9223372036854775807"), "no limit");
    for (key, value) in
        [("retention.ms", "-1"), ("linger.ms", "5"), ("num.partitions", "5000"), ("a.ms", "x")]
    {
        assert_eq!(words(key, value), "", "{key}={value}");
    }
}
