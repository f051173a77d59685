//! `levada lab broker`: Levada and Apache Kafka side by side.

use std::io::Write;

use crate::broker::{OFFERS, Systems};

use super::side_by_side;
use levada_terminal::failure::Failure;
use levada_terminal::lab::BrokerArgs;

pub(super) fn run(args: &BrokerArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let systems = |levada| Systems { levada, kafka_libs: args.kafka_libs.clone() };
    side_by_side::run(&args.side, (&OFFERS, &args.experiments), systems, out)
}
