//! `levada serve`: runs the broker until a signal stops it.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use levada_broker::server::{Recovery, RecoveryProgress, Server, Signals};
use levada_process::clock::whole_ms;
use levada_process::descriptors;
use levada_terminal::failure::Failure;

use crate::config::SourceArgs;
use crate::logging;
use crate::not_started;

/// Message of a broker that is not registered yet.
const JOINING: &str =
    "waiting for the controllers of the cluster; the broker accepts connections once they have unfenced it";

/// Serve Kafka clients until SIGTERM or SIGINT
///
/// SIGHUP reloads the configuration file, the key stores and the trust stores. SIGQUIT writes the
/// state of the broker to the log, and stops the broker. A second SIGINT ends the process
/// immediately.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada serve                                  on loopback only, data in ./levada-data
  levada serve --config server.properties       a Kafka file; unknown keys are errors
  levada serve --config server.properties --lenient   unknown keys are named and ignored
  levada serve -o log.dirs=/var/lib/levada -o listeners=PLAINTEXT://0.0.0.0:9092
  LEVADA_LOG=debug levada serve                 more detail in the log
  levada serve -o levada.audit.log=audit.log    log authentications, refusals and changes")]
pub(crate) struct Args {
    #[command(flatten)]
    sources: SourceArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let started = Instant::now();
    let logs = logging::start();
    let config = args.sources.load()?;
    let is_json = config.logs_json();
    if is_json {
        logs.write_json()?;
    }
    if let Some(place) = config.audit_log() {
        logs.audit_to(place)?;
    }
    let node_id = config.node_id;
    descriptors::raise_limit();
    let signals = Signals::catch().map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    let server = Server::start(config, levada_web::start).map_err(|error| not_started::broker(&error))?;
    announce(&server, is_json, started.elapsed());
    if !server.is_joining() && args.sources.is_like_kafkas_images() {
        say(is_json, format_args!("{}", kafkas_words(node_id)));
    }
    let recovery = server.recovery();
    if recovery.progress().left > 0 {
        std::thread::spawn(move || show_recovery(&recovery));
    }
    server.wait(&signals, || args.sources.read()).map_err(Failure::new)
}

/// A line with the words of Kafka's log for which programs wait that start Kafka's images in tests.
fn kafkas_words(node_id: i32) -> String {
    format!(
        "ready, in Kafka's words: [KafkaServer id={node_id}] started, Kafka Server started, Kafka broker started, \
         Transitioning from RECOVERY to RUNNING"
    )
}

/// Names the addresses of a server that started within `took`, as lines or as events of the log.
fn announce(server: &Server, is_json: bool, took: Duration) {
    for address in server.kafka_addresses() {
        if is_json {
            tracing::info!(%address, "listening");
        } else {
            say(false, format_args!("listening on {address}"));
        }
    }
    match server.http_address() {
        Some(address) if is_json => tracing::info!(%address, "http address open"),
        Some(address) => say(false, format_args!("http on {address}")),
        None => {}
    }
    let took_ms = whole_ms(took);
    match server.is_joining() {
        true => say(is_json, format_args!("{JOINING}")),
        false if is_json => tracing::info!(took_ms, "ready"),
        false => say(false, format_args!("ready in {took_ms} ms")),
    }
}

/// Writes a line to stderr, or an event to a log of JSON. The broker serves without it too: the
/// terminal may be closed.
fn say(is_json: bool, line: std::fmt::Arguments<'_>) {
    if is_json {
        tracing::info!("{line}");
    } else {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Shows the progress of the recovery: a progress bar on a terminal, log lines otherwise.
fn show_recovery(recovery: &Recovery) {
    let on_terminal = std::io::stderr().is_terminal();
    let style = ProgressStyle::with_template("recovering {bar:30} {pos} of {len} partitions, {msg} checked")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = on_terminal.then(|| ProgressBar::new(0).with_style(style));
    let pause = Duration::from_millis(if on_terminal { 200 } else { 5_000 });
    while !recovery.wait(pause) {
        let RecoveryProgress { total, left, checked_bytes } = recovery.progress();
        match &bar {
            Some(bar) => {
                bar.set_length(total as u64);
                bar.set_position((total - left) as u64);
                bar.set_message(HumanBytes(checked_bytes).to_string());
            }
            None => tracing::info!(total, left, checked_bytes, "recovering"),
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}
