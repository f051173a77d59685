//! `levada schema list|get|register`: schemas of a schema registry. Also the options of the
//! commands that decode or encode records by them.

mod chosen;

use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use levada_schema::{Language, Reference, Registry, RegistryError, SchemaId, Source, Version};
use levada_terminal::escapes;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use serde_json::json;

pub(crate) use self::chosen::Chosen;
use crate::cluster::{BrokerArgs, ClusterCommand};

/// The option that names a registry.
#[derive(Debug, clap::Args)]
pub(crate) struct RegistryArgs {
    /// URL of the schema registry [default: schema.registry.url of the profile or of
    /// --command-config]; an empty URL turns schemas off
    #[arg(long, value_name = "URL")]
    schema_registry: Option<String>,
}

impl RegistryArgs {
    /// The registry, if one is named.
    pub(crate) fn registry(&self, brokers: &BrokerArgs) -> Result<Option<Registry>, Failure> {
        brokers.registry(self.schema_registry.as_deref())
    }

    /// The registry; a usage error without one.
    pub(crate) fn required(&self, brokers: &BrokerArgs) -> Result<Registry, Failure> {
        let missing = || {
            let what =
                "no schema registry is named: --schema-registry URL, or schema.registry.url in the profile";
            Failure::Usage(what.to_owned())
        };
        self.registry(brokers)?.ok_or_else(missing)
    }
}

/// List, show and register schemas of a schema registry
///
/// The registry is Confluent's, or one with the same API. It is not a part of a broker.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada schema list --schema-registry http://127.0.0.1:8081
  levada schema get orders-value
  levada schema register orders-value order.avsc")]
pub(crate) enum Verb {
    List(List),
    Get(Get),
    Register(Register),
}

/// List the subjects with their latest version
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada schema list --schema-registry http://127.0.0.1:8081
  levada schema list --output json | jq -r '.[].subject'")]
pub(crate) struct List {
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Print the text of a schema
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada schema get 12                      by its id
  levada schema get orders-value            the latest version of a subject
  levada schema get orders-value:3 --output json")]
pub(crate) struct Get {
    /// An id, a SUBJECT, or SUBJECT:VERSION
    #[arg(value_name = "ID|SUBJECT[:VERSION]")]
    schema: Chosen,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Register a schema under a subject
///
/// Prints the id. A schema that the subject has already keeps its id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada schema register orders-value order.avsc
  levada schema register orders-value order.proto --reference common.proto=common:1
  levada schema register orders-value order.json")]
pub(crate) struct Register {
    /// The subject, such as TOPIC-value or TOPIC-key
    subject: String,
    /// File with the schema, or - for stdin
    file: PathBuf,
    /// Language of the schema [default: by the name of the file: .avsc, .proto or .json]
    #[arg(long = "type", value_name = "TYPE")]
    language: Option<Type>,
    /// A schema that this one uses, by the name in its text; repeatable
    #[arg(long, value_name = "NAME=SUBJECT:VERSION", value_parser = reference)]
    reference: Vec<Reference>,
    #[command(flatten)]
    registry: RegistryArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    Avro,
    Protobuf,
    Json,
}

fn reference(text: &str) -> Result<Reference, String> {
    let parsed = text.split_once('=').and_then(|(name, rest)| {
        let (subject, version) = rest.rsplit_once(':')?;
        Some(Reference { name: name.to_owned(), subject: subject.to_owned(), version: version.parse().ok()? })
    });
    parsed.ok_or_else(|| "expected NAME=SUBJECT:VERSION, such as common.proto=common:1".to_owned())
}

pub(crate) fn run(command: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let brokers = &command.brokers;
    match command.verb {
        Verb::List(list) => list.run(&list.registry.required(brokers)?, out),
        Verb::Get(get) => get.run(&get.registry.required(brokers)?, out),
        Verb::Register(register) => register.run(&register.registry.required(brokers)?, out),
    }
}

/// The failure of a request to the registry.
pub(crate) fn failed(error: &RegistryError) -> Failure {
    let next = match error {
        RegistryError::Unreachable { .. } | RegistryError::Garbage { .. } => {
            "the URL of the registry's API, such as http://HOST:8081"
        }
        RegistryError::Missing { .. } => "levada schema list shows the subjects",
        RegistryError::Refused { .. } => {
            "basic.auth.user.info in the profile, if the registry requires a login"
        }
    };
    Failure::with_next(error.to_string(), next)
}

impl List {
    fn run(&self, registry: &Registry, out: &mut dyn Write) -> Result<(), Failure> {
        let mut subjects = registry.subjects().map_err(|error| failed(&error))?;
        subjects.sort();
        let mut versions: Vec<Version> = Vec::new();
        for subject in &subjects {
            match registry.version(subject, None) {
                Ok(version) => versions.push(version),
                // Deleted since.
                Err(RegistryError::Missing { .. }) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        if self.format.format == Format::Json {
            return output::json(out, &versions.iter().map(object).collect::<Vec<_>>());
        }
        let row = |version: &Version| {
            let language = version.source.schema_type.name();
            vec![
                version.subject.clone(),
                version.version.to_string(),
                version.id.to_string(),
                language.to_owned(),
            ]
        };
        output::table(out, &["SUBJECT", "VERSION", "ID", "TYPE"], versions.iter().map(row).collect())
    }
}

fn object(version: &Version) -> serde_json::Value {
    json!({
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "type": version.source.schema_type.name(),
        "references": version.source.references,
    })
}

impl Get {
    fn run(&self, registry: &Registry, out: &mut dyn Write) -> Result<(), Failure> {
        let (mut shown, source) = match self.schema.number() {
            Some(number) => {
                let source = registry.schema(SchemaId::Number(number)).map_err(|error| failed(&error))?;
                let language = source.schema_type.name();
                (json!({"id": number, "type": language, "references": source.references}), source)
            }
            None => {
                let (subject, version) = self.schema.subject(None)?;
                let version = registry.version(&subject, version).map_err(|error| failed(&error))?;
                (object(&version), version.source)
            }
        };
        if self.format.format == Format::Json {
            shown["schema"] = source.schema.into();
            return output::json(out, &shown);
        }
        let text = source.schema.trim_end();
        if io::stdout().is_terminal() {
            writeln!(out, "{}", escapes::shown_on_terminal(text.as_bytes()))?;
        } else {
            writeln!(out, "{text}")?;
        }
        Ok(())
    }
}

impl Register {
    fn run(&self, registry: &Registry, out: &mut dyn Write) -> Result<(), Failure> {
        let shown = self.file.display();
        let text = if self.file.as_os_str() == "-" {
            io::read_to_string(io::stdin())
        } else {
            fs::read_to_string(&self.file)
        };
        let schema = text.map_err(|error| Failure::Usage(format!("cannot read {shown}: {error}")))?;
        let schema_type = self.language()?;
        let source = Source { schema, schema_type, references: self.reference.clone() };
        let id = registry.register(&self.subject, &source).map_err(|error| failed(&error))?;
        writeln!(out, "{id}")?;
        tell!("registered under subject {} with id {id}", self.subject);
        Ok(())
    }

    fn language(&self) -> Result<Language, Failure> {
        let ending = self.file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match (self.language, ending) {
            (Some(Type::Avro), _) | (None, "avsc") => Ok(Language::Avro),
            (Some(Type::Protobuf), _) | (None, "proto") => Ok(Language::Protobuf),
            (Some(Type::Json), _) | (None, "json") => Ok(Language::Json),
            (None, _) => {
                let what = format!(
                    "{}: the name does not end with .avsc, .proto or .json: add --type",
                    self.file.display()
                );
                Err(Failure::Usage(what))
            }
        }
    }
}

#[cfg(test)]
mod tests;
