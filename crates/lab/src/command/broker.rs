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

/// Returns the absolute path of a directory of jars, because each broker starts in its own
/// directory.
fn found(option: &str, dir: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let absolute = |dir: &Path| {
        std::fs::canonicalize(dir).map_err(|error| {
            Failure::with_next(
                format!("cannot find the directory of jars {}: {error}", dir.display()),
                format!("name the directory of the jars with {option}"),
            )
        })
    };
    dir.map(absolute).transpose()
}
