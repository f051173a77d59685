//! `levada serve`: runs the broker until it is told to stop.

use std::time::Instant;

use levada_broker::{
    security::audit::TARGET as AUDIT,
    server::{Server, Signals},
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
    server.wait(signals);
    Ok(())
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
