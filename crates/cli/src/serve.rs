//! `levada serve`: runs the broker until it is told to stop.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use levada_broker::{
    security::audit::TARGET as AUDIT,
    server::{Recovery, RecoveryProgress, Server, Signals},
};
use tracing::Metadata;
use tracing_subscriber::{
    EnvFilter, Layer, filter::filter_fn, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::{colour, config::SourceArgs, failure::Failure};

/// Serve Kafka clients until SIGTERM or SIGINT
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada serve                                  for this machine alone, data in ./levada-data
  levada serve --config server.properties       a Kafka file; unknown keys are errors
  levada serve --config server.properties --lenient   unknown keys, such as those of plug-ins, are named and ignored
  levada serve -o log.dirs=/var/lib/levada -o listeners=PLAINTEXT://0.0.0.0:9092
  LEVADA_LOG=debug levada serve                 say more
  LEVADA_LOG=info,levada::audit=info levada serve   say who came in and who was refused what")]
pub(crate) struct Args {
    #[command(flatten)]
    sources: SourceArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let started = Instant::now();
    start_log();
    let config = args.sources.load()?;
    let signals = Signals::catch().map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    let server = Server::start(config).map_err(|error| Failure::new(error.to_string()))?;
    for address in server.kafka_addresses() {
        eprintln!("listening on {address}");
    }
    if let Some(address) = server.http_address() {
        eprintln!("http on {address}");
    }
    eprintln!("ready in {} ms", started.elapsed().as_millis());
    let recovery = server.recovery();
    if recovery.progress().left > 0 {
        std::thread::spawn(move || show_recovery(&recovery));
    }
    server.wait(signals);
    Ok(())
}

/// Says how far the recovery is until it is over: a bar on a terminal, lines of the log elsewhere.
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

/// The log goes to stderr, from `info` up unless `LEVADA_LOG` says otherwise. The audit log is off unless it is named there; its
/// lines are JSON.
fn start_log() {
    let wanted = std::env::var("LEVADA_LOG").unwrap_or_else(|_| "info".to_owned());
    let wanted = if wanted.contains(AUDIT) { wanted } else { format!("{wanted},{AUDIT}=off") };
    let filter = EnvFilter::try_new(&wanted).unwrap_or_else(|_| EnvFilter::new(format!("info,{AUDIT}=off")));
    let is_audit = |metadata: &Metadata<'_>| metadata.target() == AUDIT;
    let audit = fmt::layer().json().flatten_event(true).with_writer(std::io::stderr);
    let rest = fmt::layer().with_ansi(colour::on_stderr()).with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(filter)
        .with(audit.with_filter(filter_fn(is_audit)))
        .with(rest.with_filter(filter_fn(move |metadata| !is_audit(metadata))))
        .init();
}
