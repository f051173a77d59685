//! `levada lab broker`: Levada and Apache Kafka side by side.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use levada_lab::broker::{OFFERS, Offer, Systems};

use super::{RunArgs, Session};
use crate::failure::Failure;

/// Compare brokers: this one and, where its jars are, Apache Kafka
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada lab broker --quick                     Levada alone, a first look at everything
  levada lab broker fetch produce --kafka-libs kafka/libs
  levada lab broker interference --full --kafka-libs kafka/libs --record i.jsonl")]
pub(super) struct Args {
    /// Which experiments [default: all]
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiments: Vec<String>,
    /// Directory with Kafka's jars; needs java
    #[arg(long, value_name = "DIR")]
    kafka_libs: Option<PathBuf>,
    /// Another build of Levada to measure
    #[arg(long, value_name = "FILE")]
    levada: Option<PathBuf>,
    /// Where the connections run
    #[arg(long, value_name = "WHERE", default_value = "own", overrides_with = "network")]
    network: Network,
    #[command(flatten)]
    run: RunArgs,
}

/// Whose loopback device brokers and clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Network {
    /// One of their own, where cubic is set for both ends; if that is not allowed, the machine's
    Own,
    /// The machine's, as it is set
    Host,
}

fn names() -> clap::builder::PossibleValuesParser {
    OFFERS.map(|offer| offer.name).into()
}

/// Makes the loopback device of a new network namespace usable, with cubic for all its connections, and goes on as another program.
const PREPARE: &str = r#"ip link set lo up || exit 125
for range in 127.0.0.0/8 127.0.0.1; do
    ip route change table local local $range dev lo proto kernel scope host src 127.0.0.1 congctl cubic || exit 125
done
exec "$@""#;

const UNSHARE: [&str; 5] = ["--map-root-user", "--net", "sh", "-c", PREPARE];

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let this =
        std::env::current_exe().map_err(|error| Failure::new(format!("where is this program? {error}")))?;
    if args.network == Network::Own {
        if network_can_be_ours() {
            let again = std::env::args_os().skip(1).chain(["--network".into(), "host".into()]);
            let mut command = Command::new("unshare");
            let error = command.args(UNSHARE).arg("sh").arg(&this).args(again).exec();
            return Err(Failure::new(format!("cannot run unshare: {error}")));
        }
        eprintln!(
            "no network of our own (unshare and ip, and the right to use them): congestion control is as the system has it"
        );
    }
    let systems =
        Systems { levada: args.levada.clone().unwrap_or(this), kafka_libs: args.kafka_libs.clone() };
    let wanted = |offer: &&Offer| {
        args.experiments.is_empty() || args.experiments.iter().any(|name| name == offer.name)
    };
    let mut session = Session::begin(&args.run)?;
    let mut ended = Ok(());
    for offer in OFFERS.iter().filter(wanted) {
        session.limit(&args.run, offer.limits);
        ended = session.run(|bench| (offer.begin)(bench, &systems));
        if ended.is_err() {
            break;
        }
    }
    session.end(&args.run, out)?;
    ended.map_err(Failure::from)
}

/// Tries it with a program that does nothing.
fn network_can_be_ours() -> bool {
    let mut command = Command::new("unshare");
    command
        .args(UNSHARE)
        .args(["sh", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
