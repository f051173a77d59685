//! `kafka-console-producer` and `kafka-console-consumer`.

use super::options::{Options, Spec};
use super::{Action, flag, value};
use crate::failure::Failure;

const PRODUCER: [Spec; 6] = [
    value("--topic"),
    value("--property"),
    value("--reader-property"),
    value("--compression-codec"),
    value("--request-required-acks"),
    flag("--sync"),
];

const CONSUMER: [Spec; 10] = [
    value("--topic"),
    value("--include"),
    flag("--from-beginning"),
    value("--offset"),
    value("--partition"),
    value("--group"),
    value("--max-messages"),
    value("--timeout-ms"),
    value("--isolation-level"),
    value("--property"),
];

/// Separator of key and value in both tools.
const TAB: &str = "\\t";

pub(super) fn producer(words: &[String]) -> Result<Action, Failure> {
    let options = Options::parse(words, &PRODUCER, "levada produce")?;
    let properties = Properties::of(&options, &["--property", "--reader-property"]);
    properties.refuse_others(&["parse.key", "key.separator"], "levada produce")?;
    let mut call = vec!["produce", options.required("--topic")?];
    if properties.is_true("parse.key") {
        call.extend(["--key-separator", properties.last("key.separator").unwrap_or(TAB)]);
    }
    for (theirs, ours) in [("--compression-codec", "--compression"), ("--request-required-acks", "--acks")] {
        let value = options.last(theirs).map(|value| if value == "-1" { "all" } else { value });
        call.extend(value.into_iter().flat_map(|value| [ours, value]));
    }
    Ok(Action::Levada(options.with_connection(&call)))
}

pub(super) fn consumer(words: &[String]) -> Result<Action, Failure> {
    let mut specs = CONSUMER.to_vec();
    specs.push(value("--formatter-property"));
    let options = Options::parse(words, &specs, "levada consume")?;
    let properties = Properties::of(&options, &["--property", "--formatter-property"]);
    let known =
        ["print.key", "print.value", "print.offset", "print.partition", "print.timestamp", "key.separator"];
    properties.refuse_others(&known, "levada consume")?;
    let topic = match options.last("--include") {
        Some(pattern) => format!("^{pattern}"),
        None => options.required("--topic")?.to_owned(),
    };
    let start = if options.has("--from-beginning") { "earliest" } else { "latest" };
    let format = properties.format();
    let mut call = vec!["consume", topic.as_str()];
    call.extend(["--offset", options.last("--offset").unwrap_or(start), "--format", &format]);
    call.extend(["--isolation", options.last("--isolation-level").unwrap_or("read_uncommitted")]);
    for (theirs, ours) in
        [("--partition", "--partition"), ("--group", "--group"), ("--max-messages", "--count")]
    {
        call.extend(options.last(theirs).into_iter().flat_map(|value| [ours, value]));
    }
    // Kafka's consumer ends after this time without a record, ours at the end of the log.
    call.extend(options.has("--timeout-ms").then_some("--exit"));
    Ok(Action::Levada(options.with_connection(&call)))
}

/// Properties of a reader or a formatter.
struct Properties<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Properties<'a> {
    fn of(options: &'a Options, names: &[&'static str]) -> Self {
        let all = names.iter().flat_map(|name| options.all(name));
        Self(all.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect())
    }

    fn last(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }

    fn is_true(&self, name: &str) -> bool {
        self.last(name) == Some("true")
    }

    fn refuse_others(&self, known: &[&str], instead: &str) -> Result<(), Failure> {
        match self.0.iter().find(|(given, _)| !known.contains(given)) {
            None => Ok(()),
            Some((other, _)) => Err(Failure::usage(format!(
                "the property {other} is not supported in this image; `{instead} --help` lists the options of levada"
            ))),
        }
    }

    /// The format of a record for `levada consume`.
    fn format(&self) -> String {
        let fields = [
            ("print.timestamp", "CreateTime:%T"),
            ("print.partition", "Partition:%p"),
            ("print.offset", "Offset:%o"),
            ("print.key", "%k"),
        ];
        let mut shown: Vec<&str> =
            fields.into_iter().filter(|(name, _)| self.is_true(name)).map(|(_, field)| field).collect();
        if self.last("print.value") != Some("false") {
            shown.push("%v");
        }
        let separator = self.last("key.separator").map(|text| text.replace('%', "%%"));
        format!("{}\\n", shown.join(separator.as_deref().unwrap_or(TAB)))
    }
}
