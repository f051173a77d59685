//! `levada group list|describe|reset|export|import|kick|delete`: consumer groups and their
//! committed offsets, share groups and their start offsets, streams groups and their tasks.

mod delete;
mod describe;
mod export;
mod kick;
mod list;
mod reset;
mod share;
pub(crate) mod state;
mod streams;

use std::io::Write;

use clap::Subcommand;

use crate::cluster::ClusterCommand;
use levada_terminal::failure::Failure;

/// List, describe, reset, export, import and delete groups, and remove members
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada group list
  levada group describe readers                                   members, offsets and lag
  levada group reset readers --topic clicks --to-earliest         shows the plan
  levada group reset readers --topic clicks --to-earliest --execute
  levada group list --type share                                  queues
  levada group list --type streams                                applications of Kafka Streams
  levada group export readers > readers.csv                       for levada group import
  levada group kick readers --all                                 removes members that hang
  levada group delete readers")]
pub(crate) enum Verb {
    List(list::List),
    Describe(describe::Describe),
    Reset(reset::Reset),
    Export(export::Export),
    Import(export::Import),
    Kick(kick::Kick),
    Delete(delete::Delete),
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    match args.verb {
        Verb::List(list) => list.run(&mut cluster, out),
        Verb::Describe(describe) => describe.run(&mut cluster, out),
        Verb::Reset(reset) => reset.run(&mut cluster, out),
        Verb::Export(export) => export.run(&mut cluster, out),
        Verb::Import(import) => import.run(&mut cluster, out),
        Verb::Kick(kick) => kick.run(&mut cluster, out),
        Verb::Delete(delete) => delete.run(&mut cluster, out),
    }
}
