//! `levada doctor`: the transfer paths that this kernel, this container and this file system
//! support, and for the others the reason and a remedy. `cluster` checks a cluster instead.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use levada_io::probe::Support;
use levada_io::thresholds::CalibrationError;
use levada_io::{Caps, Path, Thresholds};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use serde::Serialize;

use crate::cluster::BrokerArgs;
use crate::http::Address;

mod cluster;
mod live;

/// Show the transfer paths of this machine, and the remedy for those that are missing
///
/// Tries every path on a temporary file and over loopback, and removes the file.
///
/// With --cluster, checks a cluster instead: finds conditions that prevent Levada from replacing
/// its brokers on their directories. The exit code is 1 if a check is blocked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada doctor
  levada doctor --dir /var/lib/levada     check the file system of the data
  levada doctor --output json
  levada doctor --live                    bytes by path of a running broker, every second
  levada doctor --cluster -b broker-1:9092
  levada doctor --cluster -b broker-1:9092 --config /etc/kafka/server.properties
  levada doctor --cluster -b broker-1:9092 --watch    until all replicas are in sync")]
pub(crate) struct Args {
    /// Directory on the file system to try [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Show the bytes that a running broker moves by each path, every second
    #[arg(long, conflicts_with = "dir")]
    live: bool,
    /// HTTP address of that broker
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9644", requires = "live")]
    http: String,
    /// File with the levada.http.token of that broker [env: LEVADA_HTTP_TOKEN, the token itself]
    #[arg(long, value_name = "FILE", requires = "live")]
    http_token_file: Option<PathBuf>,
    /// Check the cluster of --brokers: features, topics, groups and replicas
    #[arg(long, conflicts_with_all = ["dir", "live"])]
    cluster: bool,
    /// Check the server.properties of the broker to be replaced, and its directory
    #[arg(long, value_name = "FILE", requires = "cluster", conflicts_with = "watch")]
    config: Option<PathBuf>,
    /// Show the replicas in sync of each broker every second, until all are in sync
    #[arg(long, requires = "cluster")]
    watch: bool,
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Outcome of all checks.
#[derive(Debug, Serialize)]
struct Report {
    kernel: String,
    directory: PathBuf,
    large_fetches_use: &'static str,
    /// Congestion control of new connections, from the system's setting; the broker does not change
    /// it.
    congestion_control: Option<String>,
    capabilities: Vec<Capability>,
    thresholds: InForce,
}

/// The thresholds by which transfers choose their paths.
#[derive(Debug, Serialize)]
struct InForce {
    /// File with the thresholds; `None`: the defaults.
    file: Option<PathBuf>,
    /// Reason why the file is not used.
    wrong: Option<String>,
    bytes: BTreeMap<&'static str, u64>,
}

impl InForce {
    fn of(found: Result<(Thresholds, Option<PathBuf>), CalibrationError>) -> Self {
        let ((thresholds, file), wrong) = match found {
            Ok(found) => (found, None),
            Err(error) => ((Thresholds::default(), None), Some(error.to_string())),
        };
        Self { file, wrong, bytes: thresholds.calibrated().collect() }
    }

    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let origin = match (&self.file, &self.wrong) {
            (Some(file), _) => format!("calibrated, {}", file.display()),
            (None, Some(wrong)) => format!("a broker would not start: {wrong}"),
            (None, None) => "defaults; `levada lab calibrate` measures those of this machine".to_owned(),
        };
        writeln!(out, "\nThresholds ({origin})")?;
        for (name, bytes) in &self.bytes {
            writeln!(out, "  {name}: {bytes}")?;
        }
        Ok(())
    }
}

#[derive(Debug, Serialize)]
struct Capability {
    name: &'static str,
    works: bool,
    why: Option<String>,
    remedy: Option<&'static str>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if args.live {
        let address = Address::new(&args.http, args.http_token_file.as_deref())?;
        return live::run(&address, args.format.format, out);
    }
    if args.cluster {
        return if args.watch {
            cluster::watch(&args.brokers, args.format.format, out)
        } else {
            cluster::run(&args.brokers, (args.config.as_deref(), args.format.format), out)
        };
    }
    if args.brokers.names_any() {
        return Err(Failure::Usage("--brokers, --command-config and --profile need --cluster".to_owned()));
    }
    let directory = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    if !directory.is_dir() {
        let what = format!("{} is not a directory", directory.display());
        return Err(Failure::with_next(what, "create it, or name another with --dir"));
    }
    let caps = Caps::probe_in(&directory);
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let thresholds = InForce::of(levada_config::thresholds(None));
    print(out, &Report::new(&caps, (kernel, directory), thresholds), args.format.format)
}

impl Report {
    fn new(caps: &Caps, (kernel, directory): (String, PathBuf), thresholds: InForce) -> Self {
        let second = (!caps.page_references.works()).then_some(Path::MmapWrite);
        let best = second.into_iter().chain([Path::Splice, Path::Sendfile]).find(|path| path.works(caps));
        let capability = |(name, support): (&'static str, &Support)| match support {
            Support::Works => Capability { name, works: true, why: None, remedy: None },
            Support::Absent { why, remedy } => {
                Capability { name, works: false, why: Some(why.clone()), remedy: Some(remedy) }
            }
        };
        Self {
            kernel,
            directory,
            large_fetches_use: best.unwrap_or(Path::ReadWrite).label(),
            congestion_control: congestion_control(),
            capabilities: caps.iter().map(capability).collect(),
            thresholds,
        }
    }
}

fn congestion_control() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    Some(name.trim().to_owned())
}

fn print(out: &mut dyn Write, report: &Report, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(out, report);
    }
    writeln!(out, "Linux {}, files in {}", report.kernel, report.directory.display())?;
    writeln!(out)?;
    let row = |one: &Capability| {
        let verdict = if one.works { "yes" } else { "no" };
        vec![one.name.to_owned(), verdict.to_owned(), one.why.clone().unwrap_or_default()]
    };
    output::table(out, &["CAPABILITY", "WORKS", "WHY NOT"], report.capabilities.iter().map(row).collect())?;
    let remedies: Vec<_> =
        report.capabilities.iter().filter_map(|one| Some((one.name, one.remedy?))).collect();
    if !remedies.is_empty() {
        writeln!(out, "\nRemedies")?;
    }
    for (name, remedy) in remedies {
        writeln!(out, "  {name}: {remedy}")?;
    }
    report.thresholds.print(out)?;
    if let Some(name) = &report.congestion_control {
        writeln!(out, "\nConnections begin with the system's congestion control, {name}.")?;
    }
    writeln!(out, "\nLarge fetches of cached data leave by {}.", report.large_fetches_use)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_reports_name_the_next_step() {
        let mut caps = Caps::probe();
        caps.splice = Support::Absent { why: "Operation not permitted".to_owned(), remedy: "allow splice" };
        (caps.sendfile, caps.page_references) = (Support::Works, Support::Works);
        let defaults = InForce::of(Ok((Thresholds::default(), None)));
        let report = Report::new(&caps, ("6.1".to_owned(), "/data".into()), defaults);
        let mut text = Vec::new();
        print(&mut text, &report, Format::Table).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("Linux 6.1, files in /data\n\nCAPABILITY "), "{text}");
        assert!(text.contains("Operation not permitted\n"), "{text}");
        assert!(text.contains("\n  splice: allow splice\n"), "{text}");
        assert!(text.contains("\n  small_extent_bytes: 16384\n"), "{text}");
        assert!(text.ends_with("\nLarge fetches of cached data leave by sendfile.\n"), "{text}");

        let mut json = Vec::new();
        print(&mut json, &report, Format::Json).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["capabilities"][0]["why"], "Operation not permitted");
        assert_eq!(json["large_fetches_use"], "sendfile");
        assert_eq!(json["congestion_control"].as_str(), congestion_control().as_deref());
        assert_eq!(json["thresholds"]["bytes"]["small_extent_bytes"], 16384);
    }

    #[test]
    fn doctor_reports_kernels_that_copy() {
        let mut caps = Caps::probe();
        caps.splice = Support::Works;
        caps.page_references = Support::Absent { why: "copies".to_owned(), remedy: "none is needed" };
        let defaults = InForce::of(Ok((Thresholds::default(), None)));
        let report = Report::new(&caps, ("9.9".to_owned(), "/data".into()), defaults);
        assert_eq!(report.large_fetches_use, "mmap_write");
    }

    #[test]
    fn doctor_names_the_source_of_thresholds() {
        fn check(text: &str, expected: &[&str]) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("thresholds");
            std::fs::write(&file, text).unwrap();
            let mut out = Vec::new();
            InForce::of(levada_config::thresholds(Some(&file))).print(&mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(expected.iter().all(|words| out.contains(words)), "{out}");
        }
        check("pipe_bytes=65536", &["calibrated, /", "pipe_bytes: 65536\n", "small_extent_bytes: 16384\n"]);
        check("pipes=1", &["would not start", "line 1", "pipes", "pipe_bytes: 1048576\n"]);
    }
}
