//! The `levada` binary: reads the command line, runs one command, and sets the exit code (0
//! success, 1 failure, 2 usage error, 130 interrupted). Results go to stdout, messages go to
//! stderr.

#![deny(clippy::print_stderr)]

#[macro_use(tell)]
extern crate levada_terminal;

mod acl;
mod api;
mod bench;
mod broker;
mod cert;
mod cluster;
mod completions;
mod config;
mod consume;
mod cp;
mod doctor;
mod ends;
mod files;
mod group;
mod health;
mod hints;
mod http;
mod interrupt;
mod kafka_error;
mod lab;
mod layout;
mod log_dump;
mod logdirs;
mod logging;
mod man;
mod moves;
mod not_started;
mod notices;
mod offsets;
mod outcomes;
mod partition;
mod planner;
mod produce;
mod profile;
mod question;
mod schema;
mod selection;
mod serve;
mod settings;
mod sizes;
mod storage;
mod time;
mod token;
mod topic;
mod transaction;
mod user;
mod version;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use levada_terminal::failure::Failure;
use levada_terminal::{colour, output};

#[derive(Debug, Parser)]
#[command(
    name = "levada",
    version,
    about = "A Kafka-compatible log broker in one binary",
    after_help = "Examples:
  levada serve                                  serve on 127.0.0.1:9092, data in ./levada-data
  levada topic create clicks -p 3               create a topic
  levada produce clicks < clicks.txt            one record per line
  levada consume clicks -e                      print all records, then exit
  levada group describe readers                 members, offsets and lag
  levada config set topic clicks retention.ms=7d
  levada doctor                                 transfer paths that work on this machine
  levada files public --listing                 serve a directory over HTTP

Options and examples of a command: levada COMMAND --help",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Files(Box<files::Args>),
    Topic(cluster::ClusterCommand<topic::Verb>),
    Produce(produce::Args),
    Consume(Box<consume::Args>),
    Schema(cluster::ClusterCommand<schema::Verb>),
    Offsets(offsets::Args),
    Bench(cluster::ClusterCommand<bench::Verb>),
    Group(cluster::ClusterCommand<group::Verb>),
    Cluster(cluster::ClusterCommand<health::Verb>),
    Broker(cluster::ClusterCommand<broker::Verb>),
    Partition(Box<cluster::ClusterCommand<partition::Verb>>),
    Logdirs(logdirs::Args),
    Transaction(cluster::ClusterCommand<transaction::Verb>),
    Api(Box<api::Args>),
    Config(config::Args),
    Profile(profile::Args),
    Cert(cert::Args),
    Acl(cluster::ClusterCommand<acl::Verb>),
    User(cluster::ClusterCommand<user::Verb>),
    Token(cluster::ClusterCommand<token::Verb>),
    Doctor(doctor::Args),
    Cp(cp::Args),
    Lab(levada_terminal::lab::Args),
    Log(log_dump::Args),
    Storage(storage::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Names(completions::NamesArgs),
    Man(man::Args),
    Version(version::Args),
}

fn main() -> ExitCode {
    levada_io::lookups::limit_to_built_in();
    let arguments = hints::as_options(std::env::args_os().collect());
    let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| hints::translated(error).exit());
    hints::tell(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()));
    colour::decide();
    let ended = match output::stdout() {
        Ok(mut out) => run(cli, &mut out).and_then(|()| Ok(out.flush()?)),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli, out: &mut dyn Write) -> Result<(), Failure> {
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Files(args) => files::run(*args),
        Command::Topic(args) => topic::run(args, out),
        Command::Produce(args) => produce::run(args),
        Command::Consume(args) => consume::run(*args, out),
        Command::Schema(args) => schema::run(args, out),
        Command::Offsets(args) => offsets::run(&args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::Group(args) => group::run(args, out),
        Command::Cluster(args) => health::run(args, out),
        Command::Broker(args) => broker::run(args, out),
        Command::Partition(args) => partition::run(*args, out),
        Command::Logdirs(args) => logdirs::run(&args, out),
        Command::Transaction(args) => transaction::run(args, out),
        Command::Api(args) => api::run(&args, out),
        Command::Config(args) => config::run(args, out),
        Command::Profile(args) => profile::run(args, out),
        Command::Cert(args) => cert::run(args, out),
        Command::Acl(args) => acl::run(args, out),
        Command::User(args) => user::run(args, out),
        Command::Token(args) => token::run(args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Cp(args) => cp::run(&args, out),
        Command::Lab(_) => Err(lab::run()),
        Command::Log(args) => log_dump::run(args, out),
        Command::Storage(args) => storage::run(args, out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Names(args) => completions::names(args, out),
        Command::Man(args) => man::run(&args, out),
        Command::Version(args) => version::run(&args, out),
    }
}

#[cfg(test)]
mod tests;
