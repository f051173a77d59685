//! One record, written by a form.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use levada_base::batch::Builder;
use levada_base::compress::Compression;
use levada_process::clock::now_ms;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::ProduceRequest;
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use maud::{Markup, html};

use super::cluster::CHANGE_TIME;
use super::failure::{Failed, Needing as _, check, missing};
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, notice, proof};
use super::topic::Tab;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// The newest version of Produce that names topics by name.
const NEWEST_WITH_NAMES: i16 = 12;
/// Time for the record to be appended.
const TIMEOUT_MS: i32 = 30_000;

/// Renders the form for one record.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let page = page(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, page)
}

async fn page(console: &Console, visitor: &Visitor, (name, fields): (&str, &Fields)) -> Result<Page, Failed> {
    let topic = console.topic(&visitor.caller, name).await?;
    let wanted = (Operation::Write, ResourceType::Topic, name);
    let written = fields.number::<i32>("partition")?.zip(fields.number::<i64>("offset")?);
    let content = html! {
        @if let Some((partition, offset)) = written { (written_notice(name, partition, offset)) }
        @if console.permits(visitor, wanted) { (form(visitor, topic.partitions.len())) }
        @else { div.notice.warn { (missing(visitor, wanted)) } }
    };
    Ok(Tab::Produce.page(name, content))
}

fn written_notice(name: &str, partition: i32, offset: i64) -> Markup {
    let name = format::linked(name);
    let target = format!("/topics/{name}/messages?partition={partition}&from=offset&offset={offset}");
    notice(
        "good",
        html! {
            "The record was written to partition " (partition) " at offset " (offset) ". " a href=(target) { "Show it" }
        },
    )
}

fn form(visitor: &Visitor, partitions: usize) -> Markup {
    let forms = [("text", "text"), ("base64", "Base64"), ("null", "absent")];
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    html! {
        form.card method="post" {
            (proof(visitor))
            (field("Partition", html! {
                input type="number" name="partition" min="0" max=(partitions.saturating_sub(1)) value="0" required;
            }))
            (field("Key", html! { textarea name="key" rows="2" {} }))
            (field("The key is (empty text: no key)", choice("key-form", forms, "text")))
            (field("Value", html! { textarea name="value" rows="8" {} }))
            (field("The value is (absent: a tombstone)", choice("value-form", forms, "text")))
            (field("Headers, one a line as name: value", html! { textarea name="headers" rows="3" {} }))
            (field("Compression", choice("codec", codecs.map(|codec| (codec, codec)), "none")))
            button { "Produce" }
        }
    }
}

/// Writes the record.
pub(super) async fn submit(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let written = write(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, written)
}

async fn write(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
) -> Result<Page, Failed> {
    let mut data = PartitionProduceData::default();
    data.index = fields.number("partition")?.unwrap_or_default();
    data.records = Some(batch(fields)?);
    let mut topic = TopicProduceData::default();
    topic.name = StrBytes::from(name);
    topic.partition_data = vec![data];
    let mut request = ProduceRequest::default();
    request.acks = -1;
    request.timeout_ms = TIMEOUT_MS;
    request.topic_data = vec![topic];
    let index = fields.number("partition")?.unwrap_or_default();
    let wanted = (Operation::Write, ResourceType::Topic, name);
    // Without a leader this broker tells the reason.
    let leader = console.leader(name, index).unwrap_or_else(|| console.own());
    console
        .permitted(visitor, leader, wanted, || format!("write to {name}/{index}"))
        .needing("write", format!("--topic {name}"))?;
    let asked = (request, CHANGE_TIME);
    let answer = console.ask_broker(visitor, (leader, NEWEST_WITH_NAMES), asked).await?;
    let mut written = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
    let one = written.next().ok_or_else(|| Failed::Missing(format!("There is no topic {name}.")))?;
    check(one.error_code, one.error_message.as_deref(), || format!("write to {name}/{}", one.index))
        .needing("write", format!("--topic {name}"))?;
    let name = format::linked(name);
    Err(Failed::Redirect(format!(
        "/topics/{name}/produce?partition={}&offset={}",
        one.index, one.base_offset
    )))
}

/// The batch of the single record.
fn batch(fields: &Fields) -> Result<bytes::Bytes, Failed> {
    let named = (0..5).filter_map(Compression::from_id).find(|codec| codec.name() == fields.text("codec"));
    let codec = named.unwrap_or_default();
    // A form has no other way to leave the key out; an empty value is no tombstone.
    let key = part(fields, "key")?.filter(|key| !key.is_empty() || fields.text("key-form") == "base64");
    let value = part(fields, "value")?;
    let headers = headers(fields.raw("headers"))?;
    let headers: Vec<(&[u8], Option<&[u8]>)> =
        headers.iter().map(|(name, value)| (name.as_bytes(), Some(value.as_bytes()))).collect();
    let mut builder = Builder::new().compression(codec);
    builder.push_with_headers(now_ms(), key.as_deref(), value.as_deref(), &headers);
    let batch =
        builder.build().map_err(|error| Failed::Input(format!("the record cannot be encoded: {error}")))?;
    Ok(batch.freeze())
}

fn part(fields: &Fields, name: &str) -> Result<Option<Vec<u8>>, Failed> {
    // Browsers end the lines of a text with two characters.
    let text = fields.raw(name).replace("\r\n", "\n");
    match fields.text(&format!("{name}-form")) {
        "null" if text.is_empty() => Ok(None),
        "null" => Err(Failed::Input(format!(
            "The {name} is marked as absent, but its field is filled in; empty the field, or choose text or Base64."
        ))),
        "base64" => {
            let packed: String = text.split_whitespace().collect();
            let bytes = BASE64
                .decode(packed)
                .map_err(|error| Failed::Input(format!("{name} is not Base64: {error}")))?;
            Ok(Some(bytes))
        }
        _ => Ok(Some(text.into_bytes())),
    }
}

fn headers(text: &str) -> Result<Vec<(String, String)>, Failed> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let pair =
                line.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
            pair.ok_or_else(|| Failed::Input(format!("{line:?} is not a header; write name: value")))
        })
        .collect()
}

#[cfg(test)]
mod tests;
