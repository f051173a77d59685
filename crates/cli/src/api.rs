//! `levada api`: sends a request by name with JSON, and prints the response as JSON, for debugging.

use std::io::{self, Read, Write};

use levada_client::Connection;
use levada_wire::json::JsonApi;
use serde_json::{Value, json};

use crate::cluster::BrokerArgs;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs, NOTHING};

/// Send one request of Kafka's protocol, and print the response as JSON
///
/// For debugging: sends the request once, to one broker, and does not treat error codes in the
/// response as failures. Fields have the names of Kafka's message definitions; omitted fields have
/// their defaults. Bytes and records are in base64. NAME is an API, or `list` for the APIs that the
/// broker offers.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada api list
  levada api Metadata --version 12 '{\"Topics\": null}'
  levada api ListOffsets --template
  levada api DescribeGroups '{\"Groups\": [\"readers\"]}' --node 2 | jq '.Groups[].GroupState'
  levada api CreateTopics - < request.json")]
pub(crate) struct Args {
    /// Name of the API, such as Metadata; or list
    #[arg(value_name = "NAME")]
    name: String,
    /// The request; - reads it from stdin
    #[arg(value_name = "JSON", default_value = "{}")]
    request: String,
    /// Version of the API [default: the highest that the broker and this program support]
    #[arg(long, value_name = "N")]
    version: Option<i16>,
    /// Send the request to the broker of this number instead of the first
    #[arg(long, value_name = "N")]
    node: Option<i32>,
    /// Print a request with all fields instead of sending one
    #[arg(long)]
    template: bool,
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Versions from the first to the second.
type Range = (i16, i16);

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if args.name == "list" {
        let mut cluster = args.brokers.connect()?;
        return list(cluster.client(args.node)?, args.format.format, out);
    }
    let api = JsonApi::named(&args.name).ok_or_else(|| unknown(&args.name))?;
    let (least, most) = api.versions();
    if let Some(version) = args.version.filter(|version| !(least..=most).contains(version)) {
        let text = format!("levada supports versions {least} to {most} of {}, not {version}", api.name());
        return Err(Failure::Usage(text));
    }
    if args.template {
        return output::json(out, &api.template(args.version.unwrap_or(api.newest_stable())));
    }
    let request = args.json()?;
    let mut cluster = args.brokers.connect()?;
    let client = cluster.client(args.node)?;
    let offered = offered(client, api.key());
    let version = match (args.version, offered) {
        (Some(version), Some((least, most))) => {
            if !(least..=most).contains(&version) {
                tell!("note: the broker offers versions {least} to {most} of {}", api.name());
            }
            version
        }
        (Some(version), None) => {
            tell!("note: the broker does not offer {}", api.name());
            version
        }
        (None, offered) => shared(api, offered).map(|shared| shared.1).ok_or_else(|| {
            let what = match offered {
                Some((least, most)) => {
                    format!(
                        "the broker offers versions {least} to {most} of {}, which levada does not support",
                        api.name()
                    )
                }
                None => format!("the broker does not offer {}", api.name()),
            };
            Failure::with_next(
                what,
                "levada api list shows the versions; --version N sends the request anyway",
            )
        })?,
    };
    ask(client, api, (version, &request), out)
}

/// Sends the request and prints the response. Does not wait if the API has none.
fn ask(
    client: &mut Connection,
    api: &JsonApi,
    (version, request): (i16, &Value),
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // Other than those of the requests that the connection began with, which are answered.
    const CORRELATION_ID: i32 = 0x6170_6900;
    const PRODUCE: i16 = 0;
    client.send(&api.encode(version, (CORRELATION_ID, "levada"), request)?)?;
    let acks = request.get("Acks").or_else(|| request.get("acks")).and_then(Value::as_i64).unwrap_or(0);
    if api.key() == PRODUCE && acks == 0 {
        tell!("sent; a request with Acks 0 gets no response");
        return Ok(());
    }
    let (correlation_id, answer) = api.decode(version, &client.receive()?)?;
    if correlation_id != CORRELATION_ID {
        return Err(Failure::new(format!(
            "the response belongs to request {correlation_id}, not to {CORRELATION_ID}"
        )));
    }
    output::json(out, &answer)
}

/// A line for each API that the broker offers.
fn list(client: &Connection, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
    let known = |key: i16| JsonApi::all().iter().find(|api| api.key() == key);
    let mut offered: Vec<_> = client.versions().to_vec();
    offered.sort_by_key(|one| one.key);
    let rows = offered.iter().map(|one| {
        let (api, range) = (known(one.key), (one.min, one.max));
        (
            one.key,
            api.map(JsonApi::name),
            range,
            api.map(JsonApi::versions),
            api.and_then(|api| shared(api, Some(range))),
        )
    });
    if format == Format::Json {
        let row = |(key, name, broker, client, shared)| {
            let range = |range: Range| json!({"min": range.0, "max": range.1});
            let (client, shared) = (Option::map(client, range), Option::map(shared, range));
            let name: Option<&str> = name;
            let key: i16 = key;
            json!({"key": key, "name": name, "broker": range(broker), "client": client, "shared": shared})
        };
        return output::json(out, &rows.map(row).collect::<Vec<_>>());
    }
    let shown = |range: Range| format!("{} to {}", range.0, range.1);
    let or_nothing = |range: Option<Range>| range.map_or_else(|| NOTHING.to_owned(), shown);
    let cells = rows.map(|(key, name, broker, client, shared)| {
        let name = name.unwrap_or(NOTHING).to_owned();
        vec![key.to_string(), name, shown(broker), or_nothing(client), or_nothing(shared)]
    });
    output::table(out, &["KEY", "NAME", "BROKER", "CLIENT", "SHARED"], cells.collect())
}

/// The versions of an API that the broker offers.
fn offered(client: &Connection, key: i16) -> Option<Range> {
    client.versions().iter().find(|one| one.key == key).map(|one| (one.min, one.max))
}

/// The versions that both support, without one that Kafka calls unstable.
fn shared(api: &JsonApi, offered: Option<Range>) -> Option<Range> {
    let (least, most) = offered?;
    let range = (least.max(api.versions().0), most.min(api.newest_stable()));
    (range.0 <= range.1).then_some(range)
}

fn unknown(name: &str) -> Failure {
    let names = JsonApi::all().iter().map(JsonApi::name);
    let distance = |other: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
    let near = names.min_by_key(distance).filter(|near| distance(near) * 3 <= near.len());
    let hint =
        near.map_or_else(|| "levada api list shows them".to_owned(), |near| format!("did you mean {near}?"));
    Failure::Usage(format!("there is no API {name}; {hint}"))
}

impl Args {
    fn json(&self) -> Result<Value, Failure> {
        let mut text = self.request.clone();
        if text == "-" {
            text.clear();
            let read = io::stdin().read_to_string(&mut text);
            read.map_err(|error| Failure::new(format!("cannot read the request from stdin: {error}")))?;
        }
        serde_json::from_str(&text)
            .map_err(|error| Failure::Usage(format!("the request is not JSON: {error}")))
    }
}
