//! The laboratory's report as a person sees it: opened in a browser, in light and dark, with
//! nothing on top of each other.
//!
//! Suite: long; 30 s; needs chromium

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use levada_tests::Tool;
use levada_tests::tool::Said;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Opens `page` in a browser of this width and checks it.
fn seen(page: &Path, dark: bool, width: u32) -> Value {
    let look =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/pages/look.js")).expect("our own file");
    let text = fs::read_to_string(page).expect("a report");
    let looked = page.with_extension("looked.html");
    fs::write(&looked, text.replace("</body>", &format!("<script>{look}</script></body>"))).expect("room");
    let said = Tool::chromium()
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--window-size={width},1200"))
        .arg(format!("--user-data-dir={}", page.with_extension("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", looked.display()))
        .run();
    let (_, seen) = said.stdout.split_once("<pre id=\"seen\">").expect("the script has run");
    let seen = seen.split_once("</pre>").expect("whole").0;
    serde_json::from_str(&seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).expect("JSON")
}

fn check(page: &Path, pictures: u64) {
    for (dark, width) in [(false, 1280), (true, 1000), (false, 740), (false, 420)] {
        let seen = seen(page, dark, width);
        assert_eq!(
            (&seen["pictures"], &seen["dark"]),
            (&json!(pictures), &json!(dark)),
            "{width} wide: {seen}"
        );
        assert!(seen["words"].as_u64() > Some(20), "an empty page: {seen}");
        assert_eq!(seen["complaints"], json!([]), "{width} wide, dark: {dark}");
    }
}

/// Runs a command line of Levada's.
fn levada(line: &str) -> Said {
    let mut tool = Tool::levada();
    for word in line.split(' ') {
        tool.arg(word);
    }
    tool.run()
}

fn scratch() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn a_report_of_this_machine_is_legible() {
    let scratch = scratch();
    let page = scratch.path().join("transfer.html");
    let dir = scratch.path().display();
    let line = format!(
        "lab transfer --quick --rounds 1 --only sendfile --flames --output json --dir {dir} --record {dir}/raw.jsonl --report {dir}/transfer.html"
    );
    let said = levada(&line);
    let measured: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let groups = measured[0]["groups"].as_array().expect("groups").len();
    check(&page, groups as u64);
    let text = fs::read_to_string(&page).expect("a report");
    assert!(text.contains("data:image/svg+xml;base64,"), "no flame graph");
}

#[test]
fn a_report_of_all_experiments_is_legible() {
    let scratch = scratch();
    let dir = scratch.path().display();
    let said = levada(&format!(
        "lab all --tiny --output json --dir {dir} --record {dir}/raw.jsonl --report {dir}/all.html"
    ));
    let summaries: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let pictures = summaries.as_array().expect("experiments").iter().map(pictures).sum();
    check(&scratch.path().join("all.html"), pictures);
}

/// One for each group, or for each panel of what is drawn as curves.
fn pictures(summary: &Value) -> u64 {
    let groups = summary["groups"].as_array().expect("groups");
    let panel = match &summary["sweep"] {
        Value::Null => return groups.len() as u64,
        sweep => sweep["panel"].as_str(),
    };
    let rows = groups.iter().flat_map(|group| group["rows"].as_array().expect("rows"));
    let panels = rows.map(|row| panel.and_then(|panel| row["params"][panel].as_str()));
    panels.collect::<BTreeSet<_>>().len() as u64
}

#[test]
fn a_report_of_odd_values_is_legible() {
    let scratch = scratch();
    let record = scratch.path().join("odd.jsonl");
    fs::write(&record, odd()).expect("room");
    let record = record.display();
    levada(&format!("lab report {record}"));
    check(&scratch.path().join("odd.html"), 3);
    let page = fs::read_to_string(scratch.path().join("odd.html")).expect("a report");
    assert!(!page.contains("inf\u{202f}%"), "a spread around nothing");
    let said = levada(&format!("lab compare {record} {record}"));
    assert!(said.stdout.contains("no difference in 103 cases"), "{}", said.stdout);
}

/// A record whose values lie far apart, whose names are long, and whose curves end close to each
/// other.
fn odd() -> String {
    let bars = [
        ("kafka", 250.0),
        ("levada", 60.0),
        ("read+write 4K", 250.0),
        ("nothing", 0.0),
        (LONG, 0.0203),
        ("sendfile", 0.0207),
        ("torn", 12_345_678.0),
    ];
    let bars = bars.map(|(case, value)| (String::from("cold"), case, json!({}), value));
    let names = [
        "naive",
        "split",
        "split, one wait",
        "sendmsg",
        "MSG_ZEROCOPY",
        "SEND_ZC",
        "SEND_ZC fixed",
        "writev",
    ];
    let curve = |(at, case): (usize, &'static str)| {
        let slope = if at == 0 { 0.003 } else { 1e-5 * at as f64 };
        (0..12).map(move |power| {
            let pieces = 1 << power;
            let params = json!({"pieces": pieces.to_string(), "route": "loopback"});
            (format!("{pieces} pieces"), case, params, 23_500.0 / (1.0 + f64::from(pieces) * slope))
        })
    };
    let mut curves: Vec<_> = names.into_iter().enumerate().flat_map(curve).collect();
    curves.sort_by(|one, other| one.0.cmp(&other.0));
    let sweep = json!({"across": "pieces", "panel": "route"});
    let mut lines = vec![json!({
        "type": "run", "format": 1, "levada": "0.1.0", "started_ms": 1_795_255_200_000_u64,
        "command": ["levada", "lab", "all", "--only", "a b"], "scale": "normal", "rounds": 9, "seed": 1,
        "environment": {
            "kernel": "6.1.0", "processor": "A processor with a long name @ 2.50GHz", "processors": 2, "hypervisor": null,
            "memory_bytes": 25_769_803_776_u64, "frequency_mhz": null, "pinning": [0, 1], "congestion": "cubic",
            "congestion_default": "bbr", "mtu": {"lo": 65536}, "directory": "/tmp", "file_system": "ext4", "load": 0.1,
            "optimised": true, "capabilities": {"splice": "works", "kernel_tls": "the kernel has no CONFIG_TLS"},
        },
    })];
    lines.extend(experiment("bars", &bars, &Value::Null));
    lines.extend(experiment("curves", &curves, &sweep));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

const LONG: &str = "splice, pipe 1M, and then something that takes the whole line";

fn experiment(name: &str, cases: &[(String, &str, Value, f64)], sweep: &Value) -> Vec<Value> {
    let announced: Vec<_> = cases
        .iter()
        .map(|(group, case, params, _)| json!({"group": group, "case": case, "params": params}))
        .collect();
    let metric = json!({"name": "cost", "label": "sender CPU", "unit": "s/GB", "better": "less"});
    let mut lines = vec![json!({
        "type": "experiment", "experiment": name, "shows": "Odd values.", "metrics": [metric], "cases": announced,
        "sweep": sweep,
    })];
    for round in 0..10 {
        lines.extend(cases.iter().map(|(group, case, params, value)| {
            let metrics = if round == 0 { json!({}) } else { json!({"cost": value * (1.0 + f64::from(round) / 50.0)}) };
            let verdict = if round == 0 { json!({"sound": *case != "torn", "what": "checked"}) } else { Value::Null };
            json!({
                "type": "sample", "experiment": name, "group": group, "case": case, "params": params, "round": round,
                "metrics": metrics, "verdict": verdict,
            })
        }));
    }
    lines.push(json!({
        "type": "note", "experiment": name, "group": null, "case": null, "text": "A note with <markup> & signs.",
    }));
    let noise =
        json!({"steal": 0.02, "others": 0.0, "waiting": null, "frequency_mhz": null, "doubts": ["steal"]});
    lines.push(json!({
        "type": "ended", "experiment": name, "rounds": 9, "elapsed_ms": 9, "interrupted": false, "noise": noise,
    }));
    lines
}
