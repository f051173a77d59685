//! `levada serve`: runs the broker until it is told to stop.

use std::time::Instant;

use levada_broker::server::{Server, Signals};
use tracing_subscriber::EnvFilter;

use crate::{colour, config::SourceArgs, failure::Failure};

/// Serve Kafka clients until SIGTERM or SIGINT
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada serve                                  for this machine alone, data in ./levada-data
  levada serve --config server.properties       a Kafka file; unknown keys are errors
  levada serve -o log.dirs=/var/lib/levada -o listeners=PLAINTEXT://0.0.0.0:9092
  LEVADA_LOG=debug levada serve                 say more")]
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

/// The log goes to stderr, from `info` up unless `LEVADA_LOG` says otherwise. The audit log is off unless it is asked for.
fn start_log() {
    let filter =
        EnvFilter::try_from_env("LEVADA_LOG").unwrap_or_else(|_| EnvFilter::new("info,levada::audit=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour::on_stderr())
        .with_writer(std::io::stderr)
        .init();
}
