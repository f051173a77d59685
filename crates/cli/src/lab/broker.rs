//! `levada lab broker`: Levada and Apache Kafka side by side.

use std::io::Write;
use std::path::PathBuf;

use levada_lab::broker::{OFFERS, Systems};

use super::side_by_side::{self, SideArgs};
use crate::failure::Failure;

/// Compare Levada with Apache Kafka, if --kafka-libs names Kafka's jars
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada lab broker --quick                     Levada alone, a first look at everything
  levada lab broker fetch produce --kafka-libs kafka/libs
  levada lab broker interference --full --kafka-libs kafka/libs --record i.jsonl")]
pub(super) struct Args {
    /// Experiments to run [default: all]
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiments: Vec<String>,
    /// Directory with Kafka's jars; needs java
    #[arg(long, value_name = "DIR")]
    kafka_libs: Option<PathBuf>,
    #[command(flatten)]
    side: SideArgs,
}

fn names() -> clap::builder::PossibleValuesParser {
    OFFERS.map(|offer| offer.name).into()
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let systems = |levada| Systems { levada, kafka_libs: args.kafka_libs.clone() };
    side_by_side::run(&args.side, (&OFFERS, &args.experiments), systems, out)
}
