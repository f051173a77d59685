//! `levada token create|list|renew|expire`: delegation tokens.

use std::io::Write;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use clap::Subcommand;
use levada_client::Cluster;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use levada_wire::StrBytes;
use levada_wire::messages::create_delegation_token_request::CreatableRenewers;
use levada_wire::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use levada_wire::messages::describe_delegation_token_response::DescribedDelegationToken;
use levada_wire::messages::{
    CreateDelegationTokenRequest, DescribeDelegationTokenRequest, ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
};
use serde::Serialize;

use crate::cluster::ClusterCommand;
use crate::outcomes::Outcomes;
use crate::{kafka_error, time};

/// Create, list, renew and expire delegation tokens
///
/// A client logs in by SCRAM with the id of a token as its user and the token's HMAC as its
/// password, and has the permissions of the token's owner.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada token create --lifetime 7d
  levada token list
  levada token renew mEUlLYkIRoCpW1u9lFnlWA --for 1d
  levada token expire mEUlLYkIRoCpW1u9lFnlWA")]
pub(crate) enum Verb {
    Create(Create),
    List(List),
    Renew(Renew),
    Expire(Expire),
}

/// Create a token, and print its id and its HMAC
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada token create --lifetime 7d --renewer scheduler
  levada token create --owner alice --output json | jq -r .hmac")]
pub(crate) struct Create {
    /// Owner of the token, if it is another user
    #[arg(long, value_name = "USER", value_parser = principal)]
    owner: Option<Principal>,
    /// Another user who may renew the token; repeatable
    #[arg(long, value_name = "USER", value_parser = principal)]
    renewer: Vec<Principal>,
    /// Longest life of the token with all renewals [default: the broker's]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    lifetime: Option<i64>,
    #[command(flatten)]
    format: FormatArgs,
}

/// List tokens without their secrets
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada token list
  levada token list --owner alice --sort expires")]
pub(crate) struct List {
    /// Only tokens of this owner; repeatable
    #[arg(long, value_name = "USER", value_parser = principal)]
    owner: Vec<Principal>,
    /// Order of the rows
    #[arg(long, value_name = "COLUMN", default_value = "expires")]
    sort: Order,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    Token,
    Owner,
    Expires,
}

/// Extend the life of tokens
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada token renew mEUlLYkIRoCpW1u9lFnlWA
  levada token renew mEUlLYkIRoCpW1u9lFnlWA --for 1d")]
pub(crate) struct Renew {
    /// Ids of the tokens
    #[arg(value_name = "TOKEN", required = true)]
    tokens: Vec<String>,
    /// Time from now on [default: the broker's delegation.token.expiry.time.ms]
    #[arg(long = "for", value_name = "DURATION", value_parser = time::duration)]
    period: Option<i64>,
    #[command(flatten)]
    format: FormatArgs,
}

/// End the life of tokens, now or after a time
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada token expire mEUlLYkIRoCpW1u9lFnlWA
  levada token expire mEUlLYkIRoCpW1u9lFnlWA --after 10m")]
pub(crate) struct Expire {
    /// Ids of the tokens
    #[arg(value_name = "TOKEN", required = true)]
    tokens: Vec<String>,
    /// Time from now on [default: none]
    #[arg(long, value_name = "DURATION", value_parser = time::duration)]
    after: Option<i64>,
    #[command(flatten)]
    format: FormatArgs,
}

/// A principal: its type and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Principal {
    kind: String,
    name: String,
}

/// A token as programs read it.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    owner: String,
    requester: String,
    renewers: Vec<String>,
    issued_ms: i64,
    expires_ms: i64,
    /// Latest time to which a renewal can extend the token's life, ms since 1970.
    last_ms: i64,
}

/// A new token as programs read it.
#[derive(Debug, Serialize)]
struct Created {
    #[serde(flatten)]
    row: Row,
    /// The secret, in base64 as clients need it.
    hmac: String,
}

/// Reads `alice` or `User:alice`.
fn principal(text: &str) -> Result<Principal, String> {
    let (kind, name) = text.split_once(':').unwrap_or(("User", text));
    if kind.is_empty() || name.is_empty() {
        return Err("expected a user such as alice or User:alice".to_owned());
    }
    Ok(Principal { kind: kind.to_owned(), name: name.to_owned() })
}

/// Parses the lifetime of a token. The protocol cannot express 0, which stands for the broker's
/// default.
fn lifetime(text: &str) -> Result<i64, String> {
    match time::duration(text)? {
        0 => Err("a token lives for at least 1 ms".to_owned()),
        lifetime => Ok(lifetime),
    }
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    match args.verb {
        Verb::Create(create) => create.run(&mut cluster, out),
        Verb::List(list) => list.run(&mut cluster, out),
        Verb::Renew(renew) => renew.run(&mut cluster, out),
        Verb::Expire(expire) => expire.run(&mut cluster, out),
    }
}

impl Create {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut request = CreateDelegationTokenRequest::default();
        if let Some(owner) = &self.owner {
            request.owner_principal_type = Some(StrBytes::from(owner.kind.as_str()));
            request.owner_principal_name = Some(StrBytes::from(owner.name.as_str()));
        }
        let renewer = |one: &Principal| {
            let mut renewer = CreatableRenewers::default();
            renewer.principal_type = StrBytes::from(one.kind.as_str());
            renewer.principal_name = StrBytes::from(one.name.as_str());
            renewer
        };
        request.renewers = self.renewer.iter().map(renewer).collect();
        request.max_lifetime_ms = self.lifetime.unwrap_or(-1);
        let response = cluster.ask_controller(&request, |response| response.error_code)?;
        kafka_error::check(response.error_code, "create a token", None)?;
        let created = Created {
            row: Row {
                id: response.token_id.as_str().to_owned(),
                owner: shown(&response.principal_type, &response.principal_name),
                // Before version 3 only owners request tokens.
                requester: Some(&response.token_requester_principal_name)
                    .filter(|name| !name.as_str().is_empty())
                    .map_or_else(
                        || shown(&response.principal_type, &response.principal_name),
                        |name| shown(&response.token_requester_principal_type, name),
                    ),
                renewers: self.renewer.iter().map(|one| format!("{}:{}", one.kind, one.name)).collect(),
                issued_ms: response.issue_timestamp_ms,
                expires_ms: response.expiry_timestamp_ms,
                last_ms: response.max_timestamp_ms,
            },
            hmac: BASE64_STANDARD.encode(&response.hmac),
        };
        let granted = created.row.last_ms - created.row.issued_ms;
        if self.lifetime.is_some_and(|wanted| granted < wanted) {
            tell!(
                "the broker has cut the life of the token to {} (delegation.token.max.lifetime.ms)",
                time::shown_duration(granted)
            );
        }
        match self.format.format {
            Format::Json => output::json(out, &created),
            Format::Table => created.print(out),
        }
    }
}

impl Created {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Row { id, owner, expires_ms, last_ms, .. } = &self.row;
        writeln!(out, "Token    {id}")?;
        writeln!(out, "HMAC     {}", self.hmac)?;
        writeln!(out, "Owner    {}", output::or_nothing(owner))?;
        writeln!(out, "Expires  {}", time::shown(*expires_ms))?;
        writeln!(out, "Ends     {}", time::shown(*last_ms))?;
        Ok(())
    }
}

impl List {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut rows: Vec<Row> = described(cluster, &self.owner)?.iter().map(Row::of).collect();
        match self.sort {
            Order::Token => rows.sort_by(|one, other| one.id.cmp(&other.id)),
            Order::Owner => rows.sort_by(|one, other| one.owner.cmp(&other.owner)),
            Order::Expires => rows.sort_by_key(|row| row.expires_ms),
        }
        match self.format.format {
            Format::Json => output::json(out, &rows),
            Format::Table => {
                let now = time::now_ms();
                let header = ["TOKEN", "OWNER", "RENEWERS", "EXPIRES", "ENDS"];
                output::table(out, &header, rows.iter().map(|row| row.cells(now)).collect())
            }
        }
    }
}

impl Renew {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut outcomes = Outcomes::new(self.format);
        for (id, hmac) in secrets(cluster, &self.tokens)? {
            let mut request = RenewDelegationTokenRequest::default();
            (request.hmac, request.renew_period_ms) = (hmac, self.period.unwrap_or(-1));
            let response = cluster.ask_controller(&request, |response| response.error_code)?;
            let done = kafka_error::check(response.error_code, &format!("renew token {id}"), None);
            let until = time::shown(response.expiry_timestamp_ms);
            outcomes.note(("token", &id), done, &format!("token {id} expires at {until}"));
        }
        outcomes.end(out)
    }
}

impl Expire {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut outcomes = Outcomes::new(self.format);
        for (id, hmac) in secrets(cluster, &self.tokens)? {
            let mut request = ExpireDelegationTokenRequest::default();
            (request.hmac, request.expiry_time_period_ms) = (hmac, self.after.unwrap_or(-1));
            let response = cluster.ask_controller(&request, |response| response.error_code)?;
            let done = kafka_error::check(response.error_code, &format!("expire token {id}"), None);
            let said = match self.after {
                Some(_) => format!("token {id} expires at {}", time::shown(response.expiry_timestamp_ms)),
                None => format!("token {id} has expired"),
            };
            outcomes.note(("token", &id), done, &said);
        }
        outcomes.end(out)
    }
}

/// The tokens that the user may see, of these owners or of all.
fn described(cluster: &mut Cluster, owners: &[Principal]) -> Result<Vec<DescribedDelegationToken>, Failure> {
    let owner = |one: &Principal| {
        let mut owner = DescribeDelegationTokenOwner::default();
        owner.principal_type = StrBytes::from(one.kind.as_str());
        owner.principal_name = StrBytes::from(one.name.as_str());
        owner
    };
    let mut request = DescribeDelegationTokenRequest::default();
    request.owners = Some(owners.iter().map(owner).collect()).filter(|owners: &Vec<_>| !owners.is_empty());
    let response = cluster.ask(&request)?;
    kafka_error::check(response.error_code, "list tokens", None)?;
    Ok(response.tokens)
}

/// The HMAC of each of these tokens, by which requests name a token.
fn secrets(cluster: &mut Cluster, ids: &[String]) -> Result<Vec<(String, Bytes)>, Failure> {
    let known = described(cluster, &[])?;
    let secret = |id: &String| {
        let found = known.iter().find(|token| token.token_id.as_str() == id);
        let token = found.ok_or_else(|| {
            Failure::with_next(
                format!("there is no token {id}, or you may not see it"),
                "levada token list shows the tokens that you may see",
            )
        })?;
        Ok((id.clone(), token.hmac.clone()))
    };
    ids.iter().map(secret).collect()
}

impl Row {
    fn of(token: &DescribedDelegationToken) -> Self {
        let owner = shown(&token.principal_type, &token.principal_name);
        let requester = &token.token_requester_principal_name;
        Self {
            id: token.token_id.as_str().to_owned(),
            requester: if requester.as_str().is_empty() {
                owner.clone()
            } else {
                shown(&token.token_requester_principal_type, requester)
            },
            owner,
            renewers: token
                .renewers
                .iter()
                .map(|one| shown(&one.principal_type, &one.principal_name))
                .collect(),
            issued_ms: token.issue_timestamp,
            expires_ms: token.expiry_timestamp,
            last_ms: token.max_timestamp,
        }
    }

    fn cells(&self, now: i64) -> Vec<String> {
        let left = |at: i64| match at - now {
            left if left > 0 => format!("in {}", time::shown_duration(left)),
            _ => "expired".to_owned(),
        };
        let renewers = output::or_nothing(&self.renewers.join(","));
        vec![self.id.clone(), self.owner.clone(), renewers, left(self.expires_ms), left(self.last_ms)]
    }
}

fn shown(kind: &StrBytes, name: &StrBytes) -> String {
    format!("{}:{}", kind.as_str(), name.as_str())
}
