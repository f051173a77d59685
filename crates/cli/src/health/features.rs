//! `levada cluster features describe|upgrade|downgrade`: levels of the cluster's features.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Subcommand;
use levada_client::Cluster;
use levada_metadata::features::{self, KRAFT_VERSION, METADATA_VERSION};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::update_features_request::FeatureUpdateKey;
use levada_wire::messages::{ApiVersionsResponse, UpdateFeaturesRequest};
use serde::Serialize;

use crate::outcomes::{Outcome, Outcomes};
use crate::{kafka_error, layout, question};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

/// Time for the controller, in ms.
const TIMEOUT_MS: i32 = 60_000;

/// Show the levels of the cluster's features, raise and lower them
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada cluster features describe
  levada cluster features upgrade share.version=2 --dry-run
  levada cluster features downgrade share.version=1")]
pub(crate) enum Features {
    Describe(Describe),
    Upgrade(Upgrade),
    Downgrade(Downgrade),
}

/// List the features: the level in force, and the levels that all brokers support
///
/// Controllers of an earlier release than the brokers accept fewer levels; --dry-run of an upgrade
/// asks them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster features describe
  levada cluster features describe --output json | jq '.[] | select(.level < .highest) | .feature'")]
pub(crate) struct Describe {
    #[command(flatten)]
    format: FormatArgs,
}

/// Raise levels of features, all or none
///
/// Some levels prevent a downgrade to an earlier release of Kafka. The command says so before it
/// asks for confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster features upgrade share.version=2
  levada cluster features upgrade metadata.version=4.4-IV2
  levada cluster features upgrade --all --dry-run")]
pub(crate) struct Upgrade {
    /// Features and their new levels; a level of metadata.version may have the name of its release
    #[arg(value_name = "FEATURE=LEVEL", value_parser = level, required_unless_present = "all")]
    levels: Vec<(String, i16)>,
    /// Every feature but kraft.version, to the highest level that all brokers and the controllers
    /// support
    #[arg(long, conflicts_with = "levels")]
    all: bool,
    #[command(flatten)]
    change: Change,
}

/// Lower levels of features, all or none; level 0 turns a feature off
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cluster features downgrade share.version=1
  levada cluster features downgrade group.version=0 --dry-run")]
pub(crate) struct Downgrade {
    /// Features and their new levels; a level of metadata.version may have the name of its release
    #[arg(value_name = "FEATURE=LEVEL", value_parser = level, required = true)]
    levels: Vec<(String, i16)>,
    /// Lower a level even if metadata is lost by it, if the controller supports that
    #[arg(long = "unsafe")]
    is_unsafe: bool,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, clap::Args)]
struct Change {
    /// Let the controller check the change, but change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

/// A feature in the JSON output.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    feature: String,
    /// The level in force; 0 if the feature is off.
    level: i16,
    /// The lowest level that all brokers support.
    lowest: i16,
    /// The highest level that all brokers support.
    highest: i16,
    /// Kafka's name of the level in force, if it has one: only those of metadata.version have.
    release: Option<&'static str>,
}

fn level(text: &str) -> Result<(String, i16), String> {
    let number = |name: &str, level: &str| {
        let of_release = || features::level_of_release(level).filter(|_| name == METADATA_VERSION);
        level.parse().ok().or_else(of_release)
    };
    let parsed = text.split_once('=').and_then(|(name, level)| Some((name, number(name, level)?)));
    match parsed {
        Some((name, level)) if !name.is_empty() && level >= 0 => Ok((name.to_owned(), level)),
        _ => {
            Err("expected a feature and a level, such as share.version=1 or metadata.version=4.3-IV0"
                .to_owned())
        }
    }
}

/// Kafka's name of a level.
fn release(feature: &str, level: i16) -> Option<&'static str> {
    features::release(level).filter(|_| feature == METADATA_VERSION)
}

/// A level with its name, if it has one: `30 (4.3-IV0)`.
fn shown(feature: &str, level: i16) -> String {
    release(feature, level).map_or_else(|| level.to_string(), |release| format!("{level} ({release})"))
}

impl Features {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let answers: Vec<ApiVersionsResponse> = layout::versions(cluster)?.into_values().collect();
        let rows = rows(&answers);
        match self {
            Self::Describe(describe) => describe.run(&rows, out),
            Self::Upgrade(upgrade) => {
                let mut changes = upgrade.changes(&rows)?;
                // Version 0 of the request cannot check a change without making it.
                if upgrade.all && cluster.version::<UpdateFeaturesRequest>()? > 0 {
                    changes = accepted(changes, |change| request(cluster, (UPGRADE, true), &[change]))?;
                }
                upgrade.change.make(cluster, (UPGRADE, &changes), out)
            }
            Self::Downgrade(downgrade) => {
                let changes = downgrade.changes(&rows)?;
                let kind = if downgrade.is_unsafe { UNSAFE_DOWNGRADE } else { SAFE_DOWNGRADE };
                downgrade.change.make(cluster, (kind, &changes), out)
            }
        }
    }
}

impl Describe {
    fn run(&self, rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
        match self.format.format {
            Format::Json => output::json(out, &rows),
            Format::Table => {
                let cells = |row: &Row| {
                    let levels = [row.level, row.lowest, row.highest].map(|level| shown(&row.feature, level));
                    std::iter::once(row.feature.clone()).chain(levels).collect()
                };
                output::table(
                    out,
                    &["FEATURE", "LEVEL", "LOWEST", "HIGHEST"],
                    rows.iter().map(cells).collect(),
                )
            }
        }
    }
}

/// A change of a level.
#[derive(Debug, PartialEq, Eq)]
struct LevelChange {
    feature: String,
    from: i16,
    to: i16,
}

impl Upgrade {
    fn changes(&self, rows: &[Row]) -> Result<Vec<LevelChange>, Failure> {
        if self.all {
            let others = rows.iter().filter(|row| row.feature != KRAFT_VERSION);
            let higher = others.filter(|row| row.highest > row.level);
            let change =
                |row: &Row| LevelChange { feature: row.feature.clone(), from: row.level, to: row.highest };
            return Ok(higher.map(change).collect());
        }
        let changes = changes(&self.levels, rows)?;
        match changes.iter().find(|change| change.to < change.from) {
            None => Ok(changes),
            Some(LevelChange { feature, from, to }) => Err(Failure::with_next(
                format!("{feature} has level {from}, which is above {to}"),
                format!("levada cluster features downgrade {feature}={to} lowers it"),
            )),
        }
    }
}

impl Downgrade {
    fn changes(&self, rows: &[Row]) -> Result<Vec<LevelChange>, Failure> {
        let changes = changes(&self.levels, rows)?;
        match changes.iter().find(|change| change.to > change.from) {
            None => Ok(changes),
            Some(LevelChange { feature, from, to }) => Err(Failure::with_next(
                format!("{feature} has level {from}, which is below {to}"),
                format!("levada cluster features upgrade {feature}={to} raises it"),
            )),
        }
    }
}

/// The changes to the highest levels that the controllers accept: their release may be earlier than
/// that of the brokers. Prints a note about each lower level.
fn accepted(
    changes: Vec<LevelChange>,
    mut check: impl FnMut(&LevelChange) -> Result<(), Failure>,
) -> Result<Vec<LevelChange>, Failure> {
    let mut accepted = Vec::new();
    for LevelChange { feature, from, to: highest } in changes {
        let mut level = highest;
        while level > from {
            let change = LevelChange { feature: feature.clone(), from, to: level };
            match check(&change) {
                Ok(()) => {
                    accepted.push(change);
                    break;
                }
                Err(failure) if failure.cause().code() == Some(ErrorCode::InvalidUpdateVersion) => level -= 1,
                Err(failure) => return Err(failure),
            }
        }
        if level < highest {
            tell!("note: the brokers support {feature} up to {highest}, and the controllers up to {level}");
        }
    }
    Ok(accepted)
}

/// Changes of the named features.
fn changes(levels: &[(String, i16)], rows: &[Row]) -> Result<Vec<LevelChange>, Failure> {
    let change = |(feature, to): &(String, i16)| {
        let row = rows.iter().find(|row| row.feature == *feature).ok_or_else(|| {
            Failure::with_next(
                format!("the brokers do not support a feature {feature}"),
                "levada cluster features describe lists all features",
            )
        })?;
        Ok(LevelChange { feature: feature.clone(), from: row.level, to: *to })
    };
    levels.iter().map(change).collect()
}

impl Change {
    /// Makes the changes by one request, after a confirmation.
    fn make(
        &self,
        cluster: &mut Cluster,
        (kind, changes): (i8, &[LevelChange]),
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let (open, done): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.from != change.to);
        let mut outcomes = Outcomes::new(self.format);
        for LevelChange { feature, to, .. } in done {
            let said = format!("{feature} already has level {}", shown(feature, *to));
            outcomes.add(("feature", feature), Outcome::Unchanged, &said);
        }
        if open.is_empty() {
            if changes.is_empty() {
                tell!("all features have the highest level that all brokers and the controllers support");
            }
            return outcomes.end(out);
        }
        open.iter().filter_map(|change| change.lasting_effect()).for_each(|note| tell!("note: {note}"));
        if !self.dry_run {
            let listed: Vec<String> = open.iter().map(|change| change.describe()).collect();
            self.question.ask(&format!("change {}", listed.join(", ")), "no level was changed")?;
        }
        let done = request(cluster, (kind, self.dry_run), &open);
        let (outcome, verb) =
            if self.dry_run { (Outcome::Possible, "would change") } else { (Outcome::Done, "changed") };
        match done {
            Ok(()) => open.iter().for_each(|change| {
                outcomes.add(("feature", &change.feature), outcome, &format!("{verb} {}", change.describe()));
            }),
            Err(failure) => outcomes.fail(("feature", &open[0].feature), failure),
        }
        outcomes.end(out)
    }
}

/// Makes the changes by one request, or only lets the controller check them.
fn request(
    cluster: &mut Cluster,
    (kind, dry_run): (i8, bool),
    changes: &[&LevelChange],
) -> Result<(), Failure> {
    let version = cluster.version::<UpdateFeaturesRequest>()?;
    let update = |change: &&LevelChange| {
        let mut update = FeatureUpdateKey::default();
        update.feature = StrBytes::from(change.feature.as_str());
        update.max_version_level = change.to;
        update.upgrade_type = kind;
        update.allow_downgrade = version == 0 && kind != UPGRADE;
        update
    };
    if dry_run && version == 0 {
        return Err(Failure::new("the broker cannot check a change without making it: --dry-run"));
    }
    let mut request = UpdateFeaturesRequest::default();
    request.timeout_ms = TIMEOUT_MS;
    request.validate_only = dry_run;
    request.feature_updates = changes.iter().map(update).collect();
    let response = cluster.ask(&request)?;
    let doing = "change the levels of features";
    let checked = kafka_error::check(response.error_code, doing, response.error_message.as_deref());
    kafka_error::needing(checked, "alter", "--cluster")?;
    response.results.iter().try_for_each(|result| {
        let doing = format!("change the level of {}", result.feature.as_str());
        kafka_error::check(result.error_code, &doing, result.error_message.as_deref())
    })
}

impl LevelChange {
    fn describe(&self) -> String {
        let [from, to] = [self.from, self.to].map(|level| shown(&self.feature, level));
        format!("{} from {from} to {to}", self.feature)
    }

    /// Part of the change that cannot be undone, or that closes the cluster to earlier releases.
    fn lasting_effect(&self) -> Option<String> {
        let Self { feature, from, to } = self;
        let mut notes = Vec::new();
        if let Some(level) = features::passed_former_level(feature, *from, *to) {
            notes.push(format!(
                "{feature} {to} prevents a downgrade to Kafka 4.3 and to earlier releases of Levada, which support \
                 levels up to {level}"
            ));
        }
        if feature == METADATA_VERSION && features::loses_metadata(*to, *from) {
            notes.push(format!("no command lowers {feature} to {from} again"));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// The features that all brokers support. The response with the newest epoch has the levels in
/// force.
fn rows(answers: &[ApiVersionsResponse]) -> Vec<Row> {
    let newest = answers.iter().max_by_key(|answer| answer.finalized_features_epoch);
    let finalized = newest.map(|answer| &answer.finalized_features[..]).unwrap_or_default();
    let level = |feature: &str| {
        let found = finalized.iter().find(|one| one.name.as_str() == feature);
        found.map_or(0, |one| one.max_version_level)
    };
    let mut ranges: BTreeMap<&str, (usize, i16, i16)> = BTreeMap::new();
    for feature in answers.iter().flat_map(|answer| &answer.supported_features) {
        let range = ranges.entry(feature.name.as_str()).or_insert((0, i16::MIN, i16::MAX));
        *range = (range.0 + 1, range.1.max(feature.min_version), range.2.min(feature.max_version));
    }
    let everywhere = ranges.into_iter().filter(|(_, (brokers, ..))| *brokers == answers.len());
    everywhere
        .map(|(feature, (_, lowest, highest))| Row {
            feature: feature.to_owned(),
            level: level(feature),
            lowest,
            highest,
            release: release(feature, level(feature)),
        })
        .collect()
}

#[cfg(test)]
mod tests;
