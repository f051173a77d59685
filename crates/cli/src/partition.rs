//! `levada partition list|move|elect|balance`: the partitions of a cluster, and the brokers that
//! hold and lead them.

mod balance;
mod elect;
mod list;
mod relocate;
#[cfg(test)]
mod tests;

use std::io::Write;

use clap::Subcommand;
use levada_terminal::failure::Failure;

use crate::cluster::ClusterCommand;

/// List partitions, move their replicas between brokers, elect leaders, even the load
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada partition list --all --under-replicated
  levada partition move clicks --to 1,2,3       shows the plan
  levada partition move clicks --to 1,2,3 --execute --throttle 50MiB
  levada partition elect --all
  levada partition balance")]
pub(crate) enum Verb {
    List(list::List),
    Move(relocate::Relocate),
    Elect(elect::Elect),
    Balance(balance::Balance),
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    match &args.verb {
        Verb::Move(relocate) => relocate.catch_signals()?,
        Verb::Balance(balance) => balance.moves.catch_signals()?,
        Verb::List(_) | Verb::Elect(_) => {}
    }
    match args.verb {
        Verb::List(list) => list.run(&mut cluster, out),
        Verb::Move(relocate) => relocate.run(&mut cluster, out),
        Verb::Elect(elect) => elect.run(&mut cluster, out),
        Verb::Balance(balance) => balance.run(&mut cluster, out),
    }
}
