//! `levada storage format|info|check|remote`: data directories without a broker, and the remote
//! store.

mod check;
mod format;
mod info;
mod remote;
mod scram;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Subcommand;
use levada_broker::offline::{self, DataDirError, StorageError};
use levada_metadata::store::StoreError;
use levada_terminal::failure::Failure;

use crate::config::SourceArgs;

/// Format, inspect and check a data directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada storage format --cluster-id MkU3OEVBNTcwNTJENDM2Qk -o log.dirs=/var/lib/levada
  levada storage info /var/lib/levada
  levada storage check /var/lib/levada && echo sound")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Format(format::Format),
    Info(info::Info),
    Check(check::Check),
    Remote(remote::Args),
}

/// The directories.
#[derive(Debug, clap::Args)]
struct DirectoryArgs {
    /// Data directory [default: all of log.dirs in the configuration]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

impl DirectoryArgs {
    /// The directories that the arguments name.
    fn find(&self) -> Result<Vec<PathBuf>, Failure> {
        match &self.directory {
            Some(directory) => Ok(vec![directory.clone()]),
            None => Ok(offline::directories_of(&self.sources.load()?)),
        }
    }
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    match args.verb {
        Verb::Format(format) => format.run(out),
        Verb::Info(info) => info.run(out),
        Verb::Check(check) => check.run(out),
        Verb::Remote(remote) => remote.run(out),
    }
}

/// A directory that is not as the command needs it.
fn failed(error: StorageError) -> Failure {
    let what = error.to_string();
    match error {
        StorageError::DataDir(DataDirError::InUse { .. }) => {
            Failure::with_next(what, "stop the broker first; levada storage info works while it runs")
        }
        StorageError::Unformatted { .. } => {
            Failure::with_next(what, "name a data directory, or make one with levada storage format")
        }
        StorageError::NoClusterId { .. } => Failure::with_next(
            what,
            "name it with --cluster-id: it is cluster.id in meta.properties of the controllers",
        ),
        StorageError::MemberUsers { .. } => {
            Failure::with_next(what, "omit --add-scram; add users with levada user set")
        }
        StorageError::Store(StoreError::Formatted { .. }) => {
            Failure::with_next(what, "leave it unchanged with --ignore-formatted, or name another directory")
        }
        StorageError::Unreadable { source, .. }
            if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Failure::with_next(
                what,
                "name an existing data directory: log.dirs of the broker's configuration",
            )
        }
        _ => Failure::new(what),
    }
}
