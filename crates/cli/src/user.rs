//! `levada user list|set|delete`: users who authenticate by SCRAM.

mod password;

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use levada_client::Cluster;
use levada_security::nonce;
use levada_security::scram::{self, ScramMechanism};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use levada_wire::StrBytes;
use levada_wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use levada_wire::messages::{AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest};
use serde::Serialize;

use crate::cluster::{BrokerArgs, ClusterCommand};
use crate::outcomes::Outcomes;
use crate::{kafka_error, question};

/// List users of SCRAM, set and delete their passwords
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada user list
  levada user set alice                          asks for the password
  levada user set alice --password-file secret   takes the file's first line
  levada user delete alice")]
pub(crate) enum Verb {
    List(List),
    Set(Set),
    Delete(Delete),
}

/// List users and their SCRAM mechanisms
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada user list
  levada user list --output json | jq -r '.[].user'")]
pub(crate) struct List {
    #[command(flatten)]
    format: FormatArgs,
}

/// Set the password of a user
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada user set alice
  levada user set alice --mechanism scram-sha-256 --iterations 8192
  pass show kafka/alice | levada user set alice --password-file -")]
pub(crate) struct Set {
    /// The user
    #[arg(value_name = "USER")]
    user: String,
    /// SCRAM mechanism of the password; repeatable
    #[arg(short, long, value_name = "MECHANISM", default_value = "scram-sha-512", value_parser = mechanism)]
    mechanism: Vec<ScramMechanism>,
    /// Iterations of the password hash
    #[arg(long, value_name = "COUNT", default_value_t = scram::ITERATIONS_MIN,
          value_parser = clap::value_parser!(i32).range(4096..=16384))]
    iterations: i32,
    /// File whose first line is the password, or - for stdin
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Delete the passwords of a user
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada user delete alice
  levada user delete alice --mechanism scram-sha-256")]
pub(crate) struct Delete {
    /// The user
    #[arg(value_name = "USER")]
    user: String,
    /// Only the password for this mechanism; repeatable
    #[arg(short, long, value_name = "MECHANISM", value_parser = mechanism)]
    mechanism: Vec<ScramMechanism>,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Serialize)]
struct Row {
    user: String,
    mechanism: String,
    iterations: i32,
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    match args.verb {
        Verb::List(list) => list.run(&mut args.brokers.connect()?, out),
        Verb::Set(set) => set.run(&args.brokers, out),
        Verb::Delete(delete) => delete.run(&mut args.brokers.connect()?, out),
    }
}

fn mechanism(text: &str) -> Result<ScramMechanism, String> {
    ScramMechanism::from_name(&text.to_uppercase())
        .ok_or_else(|| "expected scram-sha-256 or scram-sha-512".to_owned())
}

impl List {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let rows = describe(cluster)?;
        if self.format.format == Format::Json {
            return output::json(out, &rows);
        }
        let row = |row: Row| vec![row.user, row.mechanism, row.iterations.to_string()];
        output::table(out, &["USER", "MECHANISM", "ITERATIONS"], rows.into_iter().map(row).collect())
    }
}

fn describe(cluster: &mut Cluster) -> Result<Vec<Row>, Failure> {
    let response = cluster.ask(&DescribeUserScramCredentialsRequest::default())?;
    let checked = kafka_error::check(response.error_code, "list users", response.error_message.as_deref());
    kafka_error::needing(checked, "describe", "--cluster")?;
    let mut rows = Vec::new();
    for result in &response.results {
        let doing = format!("describe user {}", result.user.as_str());
        kafka_error::check(result.error_code, &doing, result.error_message.as_deref())?;
        rows.extend(result.credential_infos.iter().map(|info| {
            Row {
                user: result.user.as_str().to_owned(),
                mechanism: ScramMechanism::from_code(info.mechanism)
                    .map_or_else(|| info.mechanism.to_string(), |known| known.name().to_lowercase()),
                iterations: info.iterations,
            }
        }));
    }
    rows.sort_by(|one, other| (&one.user, &one.mechanism).cmp(&(&other.user, &other.mechanism)));
    Ok(rows)
}

impl Set {
    fn run(&self, brokers: &BrokerArgs, out: &mut dyn Write) -> Result<(), Failure> {
        let password = password::read(self.password_file.as_deref(), &self.user)?;
        let mut cluster = brokers.connect()?;
        let mut outcomes = Outcomes::new(self.format);
        for mechanism in &self.mechanism {
            let salt = nonce().into_bytes();
            let mut upsertion = ScramCredentialUpsertion::default();
            upsertion.name = StrBytes::from(self.user.as_str());
            upsertion.mechanism = mechanism.code();
            upsertion.iterations = self.iterations;
            let salted = mechanism.salted_password(&password, &salt, self.iterations.unsigned_abs());
            upsertion.salted_password = salted.into();
            upsertion.salt = salt.into();
            let mut request = AlterUserScramCredentialsRequest::default();
            request.upsertions = vec![upsertion];
            let said = format!("set the password of {} for {}", self.user, mechanism.name().to_lowercase());
            let done = alter(&mut cluster, &request, &format!("set the password of {}", self.user));
            outcomes.note(("user", &self.user), done, &said);
        }
        outcomes.end(out)
    }
}

impl Delete {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mechanisms = if self.mechanism.is_empty() {
            let own = describe(cluster)?.into_iter().filter(|row| row.user == self.user);
            own.filter_map(|row| mechanism(&row.mechanism).ok()).collect()
        } else {
            self.mechanism.clone()
        };
        if mechanisms.is_empty() {
            let what = format!("there is no user {}", self.user);
            return Err(Failure::with_next(what, "levada user list shows all users"));
        }
        let names: Vec<String> = mechanisms.iter().map(|one| one.name().to_lowercase()).collect();
        let what = format!("delete the password of {} for {}", self.user, names.join(", "));
        self.question.ask(&what, question::NOTHING_DELETED)?;
        let mut outcomes = Outcomes::new(self.format);
        for mechanism in mechanisms {
            let mut deletion = ScramCredentialDeletion::default();
            deletion.name = StrBytes::from(self.user.as_str());
            deletion.mechanism = mechanism.code();
            let mut request = AlterUserScramCredentialsRequest::default();
            request.deletions = vec![deletion];
            let said =
                format!("deleted the password of {} for {}", self.user, mechanism.name().to_lowercase());
            let done = alter(cluster, &request, &format!("delete user {}", self.user));
            outcomes.note(("user", &self.user), done, &said);
        }
        outcomes.end(out)
    }
}

fn alter(
    cluster: &mut Cluster,
    request: &AlterUserScramCredentialsRequest,
    doing: &str,
) -> Result<(), Failure> {
    let response = cluster
        .ask_controller(request, |response| response.results.first().map_or(0, |one| one.error_code))?;
    let mut results = response.results.iter();
    let checked =
        results.try_for_each(|one| kafka_error::check(one.error_code, doing, one.error_message.as_deref()));
    kafka_error::needing(checked, "alter", "--cluster")
}
