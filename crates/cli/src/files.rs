//! `levada files`: serves a directory over HTTP until a signal stops it.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::ArgPredicate;
use levada_files::root::Links;
use levada_files::{
    Address, CacheRule, Config, LogFormat, LogOptions, SEND_TIME, Server, Signals, SiteOptions, TlsOptions,
};

use crate::logging;
use crate::not_started;
use levada_terminal::failure::Failure;

/// Serve a directory over HTTP until SIGTERM or SIGINT
///
/// HTTP/1.1 with ranges, conditional requests and keep-alive. The server sends a small file and its
/// head with one call, and a large file by sendfile. Separate threads load data that is
/// not in memory. SIGHUP reopens the directory and the access log, and reloads the certificate.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada files                                  this directory on 127.0.0.1:8080
  levada files public --listing --listen :80    with listings, on every address
  levada files dist --fallback index.html --cache 'assets/*=max-age=31536000, immutable'
  levada files /srv/www --hosts --precompressed --access-log access.log
  levada files public --listen-tls :443 --tls-cert site.pem --tls-key site.key
  curl -r 0-99 http://127.0.0.1:8080/video.mp4  the first 100 bytes")]
pub(crate) struct Args {
    /// Directory to serve
    #[arg(default_value = ".", value_name = "DIR")]
    directory: PathBuf,
    /// Address to listen on: HOST:PORT, :PORT for every address, unix:PATH, systemd:NAME for the
    /// sockets that systemd passes under this name, systemd for all others; repeatable
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:8080",
        default_value_if("listen_tls", ArgPredicate::IsPresent, None)
    )]
    listen: Vec<Address>,
    /// Address to listen on for HTTPS; without --listen, the server serves HTTPS only
    #[arg(long, value_name = "ADDR", requires = "tls_cert")]
    listen_tls: Vec<Address>,
    /// Certificate chain for HTTPS, in PEM; SIGHUP reloads it
    #[arg(long, value_name = "FILE", requires = "listen_tls")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM [default: in the certificate file]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// List directories that have no index file, as HTML, or as JSON if the client accepts it
    #[arg(long, short)]
    listing: bool,
    /// Index file of a directory; repeatable, the server sends the first that exists
    #[arg(long, value_name = "NAME", default_value = "index.html", value_parser = plain_name)]
    index: Vec<String>,
    /// File to send with status 404
    #[arg(long, value_name = "PATH", conflicts_with = "fallback")]
    not_found: Option<String>,
    /// File to send with status 200 instead of a missing file, for single-page applications
    #[arg(long, value_name = "PATH")]
    fallback: Option<String>,
    /// Serve names that begin with a dot; by default only /.well-known
    #[arg(long)]
    hidden: bool,
    /// Follow symbolic links out of the directory; by default only relative links within it
    #[arg(long)]
    follow_links: bool,
    /// Send FILE.zst, FILE.br or FILE.gz to clients that accept it, if it is not older than FILE
    #[arg(long)]
    precompressed: bool,
    /// Cache-Control of the paths that match a pattern; repeatable, the first match applies
    #[arg(long, value_name = "PATTERN=VALUE", value_parser = CacheRule::parse)]
    cache: Vec<CacheRule>,
    /// Origin that may read the files, or *; repeatable
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    cors: Vec<String>,
    /// Serve each host from DIR/HOST, other hosts from DIR/default
    #[arg(long)]
    hosts: bool,
    /// Expect a header of the PROXY protocol, version 1 or 2, on every connection; only for
    /// addresses that only the proxy can reach
    #[arg(long)]
    proxy_protocol: bool,
    /// Log requests to a file; - is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Form of the access log
    #[arg(long, value_name = "FORM", default_value = "combined", requires = "access_log")]
    access_log_form: Form,
    /// Address of /metrics and /healthz
    #[arg(long, value_name = "ADDR")]
    metrics: Option<Address>,
    /// Number of serving threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,
    /// Maximum number of connections; further connections wait [default: 100000, or as many as the
    /// limit of open files permits]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,
    /// Maximum number of connections from one address; further connections are closed
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections_per_address: u32,
    /// Seconds that responses in progress have to finish when the server stops
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// The Common Log Format.
    Common,
    /// The Common Log Format with referer and user agent.
    Combined,
    /// One JSON object a line.
    Json,
}

impl From<Form> for LogFormat {
    fn from(form: Form) -> Self {
        match form {
            Form::Common => Self::Common,
            Form::Combined => Self::Combined,
            Form::Json => Self::Json,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let _logs = logging::start();
    let signals = Signals::catch().map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    let server = Server::start(config(args)).map_err(|error| not_started::files(&error))?;
    for address in server.addresses() {
        tell!("listening on {address}");
    }
    if let Some(address) = server.metrics_address() {
        tell!("metrics on {address}");
    }
    tell!("ready");
    server.wait(signals);
    Ok(())
}

fn config(args: Args) -> Config {
    let form = args.access_log_form.into();
    Config {
        site: SiteOptions {
            directory: args.directory,
            hosts: args.hosts,
            index: args.index,
            listing: args.listing,
            hidden: args.hidden,
            links: if args.follow_links { Links::Anywhere } else { Links::Within },
            precompressed: args.precompressed,
            not_found: args.not_found,
            fallback: args.fallback,
            cache: args.cache,
            cors: args.cors,
        },
        listen: args.listen,
        listen_tls: args.listen_tls,
        tls: args.tls_cert.map(|certificate| TlsOptions { certificate, key: args.tls_key }),
        proxy_protocol: args.proxy_protocol,
        metrics: args.metrics,
        access_log: args.access_log.map(|path| LogOptions { path, form }),
        shards: args.shards.map(usize::from),
        connections_max: args.max_connections.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        connections_per_address_max: usize::try_from(args.max_connections_per_address).unwrap_or(usize::MAX),
        send_time: SEND_TIME,
        grace: Duration::from_secs(args.grace.into()),
    }
}

/// The name of a file, without a path.
fn plain_name(text: &str) -> Result<String, String> {
    let is_plain = !text.is_empty() && !text.contains('/') && text != "." && text != "..";
    if is_plain {
        Ok(text.to_owned())
    } else {
        Err("expected the name of a file, without a directory".to_owned())
    }
}

/// An origin as browsers send it, or `*`.
fn origin(text: &str) -> Result<String, String> {
    let is_graphic = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let has_scheme = text.split_once("://").is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'));
    if is_graphic && (text == "*" || text == "null" || has_scheme) {
        Ok(text.to_owned())
    } else {
        Err("an origin is SCHEME://HOST or SCHEME://HOST:PORT, without a path".to_owned())
    }
}
