//! `levada broker list|describe|drain|remove`: the brokers of a cluster, and the way of one out of
//! it.

mod describe;
mod drain;
mod list;
mod remove;
#[cfg(test)]
mod tests;

use std::io::Write;

use clap::Subcommand;
use levada_terminal::failure::Failure;

pub(crate) use self::list::List;
use crate::cluster::ClusterCommand;

/// List and describe brokers, move everything away from one, remove one from the cluster
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada broker list --sort bytes
  levada broker describe 3
  levada broker drain 3                         shows the plan
  levada broker drain 3 --execute --throttle 50MiB
  levada broker remove 3                        after it is empty and stopped")]
pub(crate) enum Verb {
    List(List),
    Describe(describe::Describe),
    Drain(drain::Drain),
    Remove(remove::Remove),
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    if let Verb::Drain(drain) = &args.verb {
        drain.moves.catch_signals()?;
    }
    match args.verb {
        Verb::List(list) => list.run(&mut cluster, out),
        Verb::Describe(describe) => describe.run(&mut cluster, out),
        Verb::Drain(drain) => drain.run(&mut cluster, out),
        Verb::Remove(remove) => remove.run(&mut cluster, out),
    }
}
