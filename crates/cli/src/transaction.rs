//! `levada transaction list|describe|hanging|abort`: transactional producers and their open
//! transactions.

mod abort;
mod describe;
mod hanging;
mod list;
mod producers;

use std::io::Write;

use clap::Subcommand;

use crate::cluster::ClusterCommand;
use levada_terminal::failure::Failure;

/// List, describe and abort transactions
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada transaction list --state ongoing
  levada transaction describe payments-1
  levada transaction hanging                                    finds hanging transactions
  levada transaction abort payments-1                           ends it and fences its producer
  levada transaction abort --topic clicks -p 0 --start-offset 42")]
pub(crate) enum Verb {
    List(list::List),
    Describe(describe::Describe),
    #[command(visible_alias = "find-hanging")]
    Hanging(hanging::Hanging),
    Abort(abort::Abort),
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    match args.verb {
        Verb::List(list) => list.run(&mut cluster, out),
        Verb::Describe(describe) => describe.run(&mut cluster, out),
        Verb::Hanging(hanging) => hanging.run(&mut cluster, out),
        Verb::Abort(abort) => abort.run(&mut cluster, out),
    }
}
