//! `levada version`: the program's version, its commit, its target, and the level of Kafka that it
//! has.

use std::io::Write;

use levada_metadata::features::{FEATURES, LOWEST_OF_MEMBERS, METADATA_VERSION};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use serde::Serialize;

/// Text instead of the commit in a program that was not built by `cargo xtask dist`.
const DEV: &str = "dev";
/// The newest release of Kafka whose APIs and features the program has.
const KAFKA: &str = "4.4";

/// Show the version of this program, its commit, its target and its level of Kafka
///
/// The commit is `dev` in a program that was not built for a release.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada version
  levada version --output json | jq -r .commit")]
pub(crate) struct Args {
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
    commit: &'static str,
    /// Date of the commit.
    date: Option<&'static str>,
    target: String,
    kafka: &'static str,
    /// Lowest and highest level of clusters that the broker joins.
    metadata_version: [i16; 2],
}

impl Version {
    fn of_program() -> Self {
        let library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
        let metadata = FEATURES.iter().find(|feature| feature.name == METADATA_VERSION);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("LEVADA_BUILD_COMMIT").unwrap_or(DEV),
            date: option_env!("LEVADA_BUILD_DATE"),
            target: format!("{}-unknown-{}-{library}", std::env::consts::ARCH, std::env::consts::OS),
            kafka: KAFKA,
            metadata_version: [LOWEST_OF_MEMBERS, metadata.map_or(LOWEST_OF_MEMBERS, |one| one.max_version)],
        }
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let version = Version::of_program();
    if args.format.format == Format::Json {
        return output::json(out, &version);
    }
    let date = version.date.map(|date| format!(" ({date})")).unwrap_or_default();
    let [lowest, highest] = version.metadata_version;
    writeln!(out, "levada {}", version.version)?;
    writeln!(out, "commit {}{date}", version.commit)?;
    writeln!(out, "target {}", version.target)?;
    writeln!(out, "kafka  {} (metadata.version {lowest} to {highest})", version.kafka)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn dev_build_reports_no_commit() {
        let version = Version::of_program();
        assert_eq!((version.commit, version.date), ("dev", None));
        assert_eq!(version.target, format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        assert_eq!(version.metadata_version, [25, 33]);
    }
}
