//! The list of metrics in `docs/operating/monitoring.md` is made from the catalogue, and both forms
//! of the text follow their rules.

use std::fs;
use std::path::Path;

use prometheus_client::metrics::MetricType;
use serde_json::Value;

use super::catalogue::{ALL, Family};
use super::topics::TOPICS_MAX;
use super::*;
use crate::tests::Fake;

#[test]
fn the_documentation_lists_the_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/monitoring.md");
    let page = fs::read_to_string(&path).unwrap();
    let start = page.find("<!-- metrics").unwrap();
    let start = start + page[start..].find('\n').unwrap() + 1;
    let end = start + page[start..].find("<!-- end -->").unwrap();
    let rows: String = ALL.iter().map(|family| row(family)).collect();
    let table =
        format!("\n| Metric | Type | Labels | Meaning | Kafka's JMX name |\n|---|---|---|---|---|\n{rows}\n");
    let expected = format!("{}{table}{}", &page[..start], &page[end..]);
    if page != expected && std::env::var_os("LEVADA_BLESS").is_some() {
        fs::write(&path, expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "run LEVADA_BLESS=1 cargo test -p levada-web --lib metrics, and commit the page"
    );
}

fn row(family: &Family) -> String {
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    let jmx = if family.jmx.is_empty() { String::new() } else { format!("`{}`", family.jmx) };
    format!(
        "| `{}{}` | {} | {} | {} | {jmx} |\n",
        family.name,
        suffix(family),
        family.kind.as_str(),
        labels.join(", "),
        family.help
    )
}

fn suffix(family: &Family) -> &'static str {
    match family.kind {
        MetricType::Counter => "_total",
        MetricType::Info => "_info",
        _ => "",
    }
}

#[test]
fn names_follow_the_conventions() {
    let mut names: Vec<&str> = ALL.iter().map(|family| family.name).collect();
    for family in ALL {
        assert!(family.name.starts_with("levada_") || family.name.starts_with("process_"), "{}", family.name);
        assert!(!family.name.ends_with("_total"), "{}: the form adds the suffix", family.name);
        assert!(!family.help.is_empty() && !family.help.ends_with('.'), "{}", family.name);
        assert!(!family.help.contains(['\n', '\\', '"', '|']), "{}: {}", family.name, family.help);
        let units = ["milliseconds", "_ms", "percent", "kilobytes", "minutes"];
        assert!(!units.iter().any(|unit| family.name.contains(unit)), "{}: base units only", family.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len(), "no name twice");
}

#[test]
fn plain_metrics_format_has_suffixed_family_names() {
    let open = "# HELP a_b Bytes\n# TYPE a_b counter\na_b_total{x=\"# HELP\"} 1\n# HELP i Build\n# TYPE i info\ni_info{v=\"1\"} 1\n# HELP g Gauge\n# TYPE g gauge\ng 2\n# EOF\n";
    let plain = "# HELP a_b_total Bytes\n# TYPE a_b_total counter\na_b_total{x=\"# HELP\"} 1\n# HELP i_info Build\n# TYPE i_info gauge\ni_info{v=\"1\"} 1\n# HELP g Gauge\n# TYPE g gauge\ng 2\n";
    assert_eq!(exposition::to_plain(open), plain);
}

/// A scrape with one series, whose label is a text of a client.
#[derive(Debug)]
struct Hostile;

const HOSTILE: &Family = catalogue::CONNECTIONS;

impl Collector for Hostile {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let value = "a\"b\\c\nd\0e\u{1b}[2Jf\rg\u{202e}h\u{2028}\u{85}é";
        Families { encoder }.family(HOSTILE)?.gauge(&[value], 1)
    }
}

#[test]
fn metric_labels_escape_terminal_controls() {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Hostile));
    let mut open = String::new();
    text::encode(&mut open, &registry).unwrap();
    let (name, label) = (HOSTILE.name, HOSTILE.labels[0]);
    let value = r#"a\"b\\c\nd\\u{0}e\\u{1b}[2Jf\\u{d}g\\u{202e}h\\u{2028}\\u{85}é"#;
    let series = format!("{name}{{{label}=\"{value}\"}} 1");
    for text in [exposition::to_plain(&open), open] {
        assert!(text.lines().any(|line| line == series), "{text}");
    }
}

#[test]
fn topic_series_are_capped_and_optional() {
    let beyond = TOPICS_MAX + 3;
    let fake = || Arc::new(Fake::with_topics(beyond));
    let text = render(fake(), Form::Plain, true).unwrap();
    let count = |text: &str, start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    for family in ["levada_topic_produced_bytes_total", "levada_acks_durability_partitions"] {
        assert_eq!(count(&text, &format!("{family}{{topic=")), TOPICS_MAX, "{family}");
    }
    assert_eq!(count(&text, "levada_log_size_bytes{"), beyond);
    assert!(text.contains("levada_series_left_out{kind=\"topic\"} 3\n"));
    let text = render(fake(), Form::Plain, false).unwrap();
    assert_eq!(
        count(&text, "levada_topic_") + count(&text, "levada_log_size") + count(&text, "levada_acks"),
        0
    );
}

/// A scrape of a broker that has not measured its memory yet.
#[derive(Debug)]
struct Unmeasured;

impl Collector for Unmeasured {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let memory = ["free", "full", "stalled"].map(|state| (state, false));
        Families { encoder }.replays(ReplayStats {
            admitted_bytes: 1,
            refused_bytes: 0,
            around_bytes: 0,
            remembered_bytes: 0,
            memory,
        })
    }
}

#[test]
fn unmeasured_memory_has_no_series() {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Unmeasured));
    let mut text = String::new();
    text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("\nlevada_replay_bytes_total{"), "{text}");
    assert!(!text.contains("levada_replay_memory_pressure{"), "{text}");
}

/// The text of a file of the project.
fn delivered(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

#[test]
fn every_alert_has_a_runbook_and_job() {
    let rules = delivered("deploy/monitoring/alerts.yml");
    let page = delivered("docs/operating/alerts.md");
    let rules: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    let line = |rule: &str, key: &str| {
        let found = rule.lines().find_map(|line| line.trim().strip_prefix(key));
        found.unwrap_or_else(|| panic!("no {key} in {rule}")).trim().to_owned()
    };
    for rule in &rules {
        let name = rule.lines().next().unwrap_or_default();
        let expected = format!("\"docs/operating/alerts.md#{}\"", name.to_lowercase());
        assert_eq!(line(rule, "runbook_url:"), expected, "{name}");
        assert!(page.contains(&format!("\n## {name}\n")), "docs/operating/alerts.md has no section {name}");
        let query = line(rule, "expr:");
        let metrics = query.match_indices("levada_").chain(query.match_indices("process_"));
        for (at, _) in metrics {
            let (_, selector) = query[at..].split_once('{').unwrap_or_default();
            assert!(selector.starts_with("job=\"levada\""), "{name}: {query}");
        }
    }
    assert_eq!(page.matches("\n## ").count(), rules.len(), "a section of no rule");
}

#[test]
fn dashboard_selects_brokers_and_shows_their_state() {
    let dashboard: Value =
        serde_json::from_str(&delivered("deploy/monitoring/grafana-dashboard.json")).unwrap();
    let of = |list: &Value, key: &str| -> Vec<String> {
        let values = list.as_array().unwrap().iter().filter_map(|one| one[key].as_str());
        values.map(str::to_owned).collect()
    };
    let variables = of(&dashboard["templating"]["list"], "name");
    assert_eq!(variables, ["datasource", "cluster", "instance", "topic"]);
    let titles = of(&dashboard["panels"], "title");
    for title in ["Under-replicated partitions", "Shortest uptime", "Log size by directory"] {
        assert_eq!(titles.iter().filter(|found| *found == title).count(), 1, "{title}");
    }
    let panels = dashboard["panels"].as_array().unwrap().iter();
    for query in panels.filter_map(|panel| panel["targets"].as_array()).flatten() {
        let query = query["expr"].as_str().unwrap();
        for selector in query.split('{').skip(1) {
            let (selector, _) = selector.split_once('}').unwrap();
            let selects = |name: &str| selector.contains(&format!("{name}=~\"${name}\""));
            assert!(selects("cluster") && selects("instance"), "{query}");
        }
    }
}
