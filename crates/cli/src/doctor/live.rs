//! `levada doctor --live`: throughput of a running broker by path, each second, from its
//! `/metrics`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use indicatif::HumanBytes;
use serde::Serialize;

use crate::http::Address;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format};

/// Time between two outputs.
const PERIOD: Duration = Duration::from_secs(1);

/// Clears a terminal from its upper left corner on.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Counts between two samples.
#[derive(Debug, PartialEq, Serialize)]
struct Sample {
    seconds: f64,
    paths: Vec<Moved>,
    /// Since the start: why bytes took another way than planned.
    fallbacks: BTreeMap<String, u64>,
    copied_bytes: u64,
    warmed_bytes: u64,
    dropped_behind_bytes: u64,
}

/// Bytes that one path has moved.
#[derive(Debug, PartialEq, Serialize)]
struct Moved {
    path: String,
    bytes: u64,
    bytes_per_second: f64,
    calls: u64,
    calls_per_second: f64,
    stalls: u64,
}

/// Prints samples until it is interrupted.
pub(super) fn run(address: &Address<'_>, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
    let (mut before, mut at) = (read(address)?, Instant::now());
    loop {
        std::thread::sleep(PERIOD);
        let (now, elapsed) = (read(address)?, at.elapsed());
        at = Instant::now();
        let sample = Sample::between(&before, &now, elapsed);
        before = now;
        match format {
            Format::Json => output::json_line(out, &sample)?,
            Format::Table => {
                if stdout().is_terminal() {
                    write!(out, "{CLEAR}")?;
                }
                print(out, address.shown(), &sample)?;
            }
        }
        out.flush()?;
    }
}

/// Samples by name and label, as the text has them.
type Counters = BTreeMap<String, u64>;

fn read(address: &Address<'_>) -> Result<Counters, Failure> {
    let answer = address.get("/metrics")?;
    let failed = |why: String| {
        let next = "start a broker, or name its levada.http.listen with --http";
        Failure::with_next(format!("cannot read {}: {why}", answer.url), next)
    };
    if answer.status != 200 {
        return Err(failed(format!("status {}", answer.status)));
    }
    let counters = parse(&answer.text);
    if counters.is_empty() {
        return Err(failed("the response has no transfer metrics; is this a Levada broker?".to_owned()));
    }
    Ok(counters)
}

/// The counters of transfers, by their names without `_total`.
fn parse(text: &str) -> Counters {
    let samples = text.lines().filter_map(|line| line.strip_prefix("levada_transfer_")?.rsplit_once(' '));
    samples.filter_map(|(name, value)| Some((name.replacen("_total", "", 1), value.parse().ok()?))).collect()
}

impl Sample {
    fn between(before: &Counters, now: &Counters, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64();
        let count = |name: &str| now.get(name).copied().unwrap_or(0);
        let rate = |name: &str| {
            let since = count(name).saturating_sub(before.get(name).copied().unwrap_or(0));
            since as f64 / seconds.max(f64::EPSILON)
        };
        let labels = |family: &str, label: &str| -> Vec<String> {
            let start = format!("{family}{{{label}=\"");
            now.keys()
                .filter_map(|name| Some(name.strip_prefix(&start)?.strip_suffix("\"}")?.to_owned()))
                .collect()
        };
        let moved = |path: String| {
            let name = |family: &str| format!("{family}{{path=\"{path}\"}}");
            Moved {
                bytes: count(&name("bytes")),
                bytes_per_second: rate(&name("bytes")),
                calls: count(&name("calls")),
                calls_per_second: rate(&name("calls")),
                stalls: count(&name("stalls")),
                path,
            }
        };
        let fallback = |cause: String| {
            let times = count(&format!("fallbacks{{cause=\"{cause}\"}}"));
            (cause, times)
        };
        Self {
            seconds,
            paths: labels("bytes", "path").into_iter().map(moved).collect(),
            fallbacks: labels("fallbacks", "cause").into_iter().map(fallback).collect(),
            copied_bytes: count("copied_bytes"),
            warmed_bytes: count("warmed_bytes"),
            dropped_behind_bytes: count("dropped_behind_bytes"),
        }
    }
}

fn print(out: &mut dyn Write, address: &str, sample: &Sample) -> Result<(), Failure> {
    writeln!(out, "{address}, the last {:.1} s; Ctrl-C ends it\n", sample.seconds)?;
    let bytes = |bytes: f64| HumanBytes(bytes as u64).to_string();
    let rows = sample.paths.iter().filter(|one| one.calls > 0).map(|one| {
        let per_call = if one.calls > 0 {
            bytes(one.bytes as f64 / one.calls as f64)
        } else {
            output::NOTHING.to_owned()
        };
        vec![
            one.path.clone(),
            bytes(one.bytes_per_second),
            format!("{:.0}", one.calls_per_second),
            bytes(one.bytes as f64),
            per_call,
            one.stalls.to_string(),
        ]
    });
    let header = ["PATH", "BYTES/S", "CALLS/S", "BYTES", "BYTES/CALL", "STALLS"];
    output::table(out, &header, rows.collect())?;
    let others = [
        ("copied by the CPU", sample.copied_bytes),
        ("waited for by warmers", sample.warmed_bytes),
        ("dropped behind replays", sample.dropped_behind_bytes),
    ];
    writeln!(out)?;
    for (what, count) in others {
        writeln!(out, "{what}: {}", HumanBytes(count))?;
    }
    for (cause, times) in sample.fallbacks.iter().filter(|(_, times)| **times > 0) {
        writeln!(out, "other path than planned, {cause}: {}", output::counted(*times, "time", "times"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# TYPE levada_transfer_bytes counter
levada_transfer_bytes_total{path=\"splice\"} 1000
levada_transfer_calls_total{path=\"splice\"} 1
levada_requests_total{api=\"Fetch\"} 7
";
    const NOW: &str = "levada_transfer_bytes_total{path=\"splice\"} 5000
levada_transfer_calls_total{path=\"splice\"} 3
levada_transfer_stalls_total{path=\"splice\"} 1
levada_transfer_fallbacks_total{cause=\"no_pipe\"} 2
levada_transfer_copied_bytes_total 10
";

    #[test]
    fn rates_are_differences_of_two_samples() {
        let sample = Sample::between(&parse(BEFORE), &parse(NOW), Duration::from_secs(2));
        let splice = Moved {
            path: "splice".to_owned(),
            bytes: 5000,
            bytes_per_second: 2000.0,
            calls: 3,
            calls_per_second: 1.0,
            stalls: 1,
        };
        assert_eq!(sample.paths, [splice]);
        assert_eq!((sample.copied_bytes, sample.fallbacks["no_pipe"]), (10, 2));
        let mut text = Vec::new();
        print(&mut text, "127.0.0.1:1", &sample).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("other path than planned, no_pipe: 2 times\n"), "{text}");
    }

    #[test]
    fn restarted_broker_counts_from_zero() {
        let sample = Sample::between(&parse(NOW), &parse(BEFORE), Duration::from_secs(1));
        assert_eq!(sample.paths[0].bytes_per_second, 0.0);
    }
}
