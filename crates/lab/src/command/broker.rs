//! `levada lab broker`: Levada and Apache Kafka side by side.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::broker::{OFFERS, Systems};

use super::side_by_side;
use levada_terminal::failure::Failure;
use levada_terminal::lab::BrokerArgs;

pub(super) fn run(args: &BrokerArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let kafka_libs = found("--kafka-libs", args.kafka_libs.as_deref())?;
    let tiers_libs = found("--tiers-libs", args.tiers_libs.as_deref())?;
    let systems = |levada| Systems { levada, kafka_libs, tiers_libs };
    side_by_side::run(&args.side, (&OFFERS, &args.experiments), systems, out)
}

/// The absolute path of a directory of jars: brokers start in directories of their own.
fn found(option: &str, dir: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let absolute = |dir: &Path| {
        std::fs::canonicalize(dir).map_err(|error| {
            Failure::with_next(
                format!("cannot find the jars in {}: {error}", dir.display()),
                format!("name their directory with {option}"),
            )
        })
    };
    dir.map(absolute).transpose()
}
