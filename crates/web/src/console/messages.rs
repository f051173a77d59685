//! The records of a topic: from the start, the end, an offset or a time on, filtered by text.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::failure::Failed;
use super::fields::Fields;
use super::json_field::JsonField;
use super::layout::{self, Page, Section, choice, field, notice, table_of};
use super::part::ShownPart;
use super::question::{EARLIEST, LATEST, Place, within};
use super::records::{Filter, Found, Looked, Wanted};
use super::topic::Tab;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format, tail};

/// Number of records on one page, unless the request has a smaller limit.
const PAGE_RECORDS: usize = 100;
const USUAL_RECORDS: usize = 50;
/// Bytes of batches that one page reads without a filter, and in search of records that match a
/// filter. Batches that expand far count more.
const PAGE_BYTES: u64 = 1 << 20;
const SEARCH_BYTES: u64 = 16 << 20;
/// Longest text of a filter: a long one makes the search in large values slow.
const FILTER_BYTES_MAX: usize = 1024;
/// Fields of the form that filter records.
pub(super) const FILTERS: [&str; 4] = ["key", "value", "field", "header"];
/// Number of partitions that one page reads.
pub(super) const PAGE_PARTITIONS: usize = 64;

/// Number of characters of a key or value in its line.
const LINE_CHARS: usize = 200;
/// Columns that a narrow window leaves out.
pub(super) const MINOR: [usize; 4] = [1, 3, 6, 7];

/// Columns of a table of records.
pub(super) const COLUMNS: [&str; 7] =
    ["#Partition", "#Offset", "Time (UTC)", "Key", "Value", "Headers", "#Batch"];

/// Renders the page of a topic's records.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let page = page(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, page)
}

async fn page(console: &Console, visitor: &Visitor, (name, fields): (&str, &Fields)) -> Result<Page, Failed> {
    let follows = fields.text("from") == "tail";
    let content = html! {
        (layout::done(fields.text("done")))
        (form(fields))
        @if follows { (tail::section(name, fields)) }
        @else { (found(console, visitor, (name, fields)).await?) }
    };
    Ok(Tab::Messages.page(name, content))
}

fn form(fields: &Fields) -> Markup {
    let starts = [
        ("end", "the last records"),
        ("start", "the start of the log"),
        ("offset", "an offset"),
        ("time", "a time (UTC)"),
        ("tail", "now, following"),
    ];
    let isolation = [("committed", "committed"), ("all", "all, including aborted")];
    html! {
        form.line method="get" {
            (field("Partition (empty: all)", html! { input type="number" name="partition" min="0" value=(fields.text("partition")); }))
            (field("From", choice("from", starts, fields.text("from"))))
            (field("Offset", html! { input type="number" name="offset" min="0" value=(fields.text("offset")); }))
            (field("Time", html! { input type="datetime-local" step="1" name="time" value=(fields.text("time")); }))
            (field("Key contains", html! { input name="key" value=(fields.raw("key")); }))
            (field("Value contains", html! { input name="value" value=(fields.raw("value")); }))
            (field("JSON field of the value", html! { input name="field" value=(fields.raw("field")) placeholder="order.id=7"; }))
            (field("Header contains", html! { input name="header" value=(fields.raw("header")); }))
            (field("Transactions", choice("isolation", isolation, fields.text("isolation"))))
            (field("Records", html! { input type="number" name="limit" min="1" max=(PAGE_RECORDS) value=(fields.text("limit")) placeholder=(USUAL_RECORDS); }))
            button { "Show" }
        }
    }
}

/// The partitions that are read, and where reading begins in each.
pub(super) async fn wanted(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
) -> Result<(Wanted, bool), Failed> {
    let topic = console.topic(&visitor.caller, name).await?;
    let chosen = fields.number::<i32>("partition")?;
    let served = topic.partitions.iter().filter(|one| one.leader_id >= 0).map(|one| one.partition_index);
    let mut indexes: Vec<i32> = served.filter(|index| chosen.is_none_or(|chosen| chosen == *index)).collect();
    if let (Some(chosen), true) = (chosen, indexes.is_empty()) {
        return Err(Failed::Missing(format!("Topic {name} has no partition {chosen} that is served.")));
    }
    let cut = indexes.len() > PAGE_PARTITIONS;
    indexes.truncate(PAGE_PARTITIONS);
    let text = |name: &str| match fields.raw(name).as_bytes() {
        text if text.len() <= FILTER_BYTES_MAX => Ok(text.to_vec()),
        _ => Err(too_long(name)),
    };
    let field = match fields.text("field") {
        "" => None,
        field if field.len() > FILTER_BYTES_MAX => return Err(too_long("field")),
        field => Some(JsonField::parse(field).map_err(|error| Failed::Input(format!("field: {error}")))?),
    };
    let filter = Filter { key: text("key")?, value: text("value")?, header: text("header")?, field };
    let positions = positions(console, visitor, (name, &indexes, fields)).await?;
    let committed_only = fields.text("isolation") != "all";
    let schemas = console.schemas.clone();
    let topic = name.to_owned();
    let wanted = Wanted { topic, positions, filter, schemas, committed_only, wait_ms: 0, first: 0 };
    Ok((wanted, cut))
}

fn too_long(name: &str) -> Failed {
    Failed::Input(format!("{name}: a filter has at most {FILTER_BYTES_MAX} bytes"))
}

async fn positions(
    console: &Console,
    visitor: &Visitor,
    (name, indexes, fields): (&str, &[i32], &Fields),
) -> Result<BTreeMap<i32, i64>, Failed> {
    let at = |time: i64| indexes.iter().map(move |index| ((name.to_owned(), *index), time));
    let first = console.offsets(visitor, at(EARLIEST)).await?;
    let last = console.offsets(visitor, at(LATEST)).await?;
    let time = match fields.text("from") {
        "time" => {
            let text = fields.required("time")?;
            let ms = format::parse_time(text);
            ms.ok_or_else(|| {
                Failed::Input(format!("time: {text:?} is not a time; write 2026-01-31T12:00:00"))
            })?
        }
        _ => EARLIEST,
    };
    let timed = console.offsets(visitor, at(time)).await?;
    let resumed = tail::positions(fields.text(tail::POSITIONS));
    let limit = i64::try_from(limit(fields)?).unwrap_or(0);
    let offset = fields.number::<i64>("offset")?.unwrap_or(0);
    let ends = indexes.iter().filter_map(|index| {
        let place = (name.to_owned(), *index);
        Some((place.clone(), (first.get(&place).copied()?, last.get(&place).copied()?)))
    });
    let ends: BTreeMap<Place, (i64, i64)> = ends.collect();
    let is_filtered = FILTERS.iter().any(|name| !fields.raw(name).is_empty());
    let lengths = ends.values().map(|(start, end)| end - start);
    let share = if is_filtered { limit } else { share(limit, lengths) };
    let position = |(place, (start, end)): (Place, (i64, i64))| {
        let position = match fields.text("from") {
            "start" => start,
            "offset" => within(offset, (start, end)),
            // No record is so late.
            "time" => timed.get(&place).copied().filter(|offset| *offset >= 0).unwrap_or(end),
            "tail" => resumed.get(&place.1).map_or(end, |offset| within(*offset, (start, end))),
            _ => within(end - share, (start, end)),
        };
        (place.1, position)
    };
    Ok(ends.into_iter().map(position).collect())
}

/// Number of the last offsets of each log, rounded up, that are `limit` in total, or all offsets if
/// the logs have fewer.
fn share(limit: i64, lengths: impl Iterator<Item = i64>) -> i64 {
    let mut lengths: Vec<i64> = lengths.map(|length| length.max(0)).collect();
    lengths.sort_unstable();
    let (mut left, mut count) = (limit, i64::try_from(lengths.len()).unwrap_or(i64::MAX));
    for length in lengths {
        let share = left.saturating_add(count - 1) / count;
        if length >= share {
            return share;
        }
        (left, count) = (left - length, count - 1);
    }
    limit
}

fn limit(fields: &Fields) -> Result<usize, Failed> {
    Ok(fields.number::<usize>("limit")?.unwrap_or(USUAL_RECORDS).clamp(1, PAGE_RECORDS))
}

async fn found(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
) -> Result<Markup, Failed> {
    let (mut wanted, cut) = wanted(console, visitor, (name, fields)).await?;
    let limit = limit(fields)?;
    let from_end = !["start", "offset", "time"].contains(&fields.text("from"));
    let bytes_max = if wanted.filter.is_empty() { PAGE_BYTES } else { SEARCH_BYTES };
    // The parts of the partitions are rounded up: the page leaves the oldest records out.
    let most = if from_end { limit + wanted.positions.len() } else { limit };
    let mut all = Looked::default();
    while all.found.len() < most && all.cost < bytes_max {
        let looked = console.look(visitor, &mut wanted, most - all.found.len()).await?;
        let done = looked.bytes == 0;
        all.records += looked.records;
        all.bytes += looked.bytes;
        all.cost += looked.cost;
        all.found.extend(looked.found);
        all.damaged.extend(looked.damaged);
        if done || !all.damaged.is_empty() {
            break;
        }
    }
    if from_end {
        all.found.sort_by_key(|one| (std::cmp::Reverse(one.timestamp_ms), one.partition, -one.offset));
        all.found.truncate(limit);
    } else {
        all.found.sort_by_key(|one| (one.partition, one.offset));
    }
    let is_cut = !all.found.is_empty() || all.cost >= bytes_max;
    let further = if is_cut { further(console, visitor, &wanted).await? } else { None };
    Ok(html! {
        @for text in &all.damaged { (notice("bad", format!("A batch cannot be read: {text}"))) }
        @if cut { (notice("warn", format!("The first {PAGE_PARTITIONS} partitions are shown; choose one to see another."))) }
        p.soft {
            (format::counted(all.found.len(), "record")) " shown; "
            (format::count(i128::from(all.records))) " searched, in batches of " (format::bytes(all.bytes)) "."
        }
        (table_of(&COLUMNS, &MINOR, html! {
            @for one in &all.found { (row(one)) }
            @if all.found.is_empty() { tr { td colspan="7" { (empty(&wanted.filter, from_end)) } } }
        }))
        @if let Some((partition, offset)) = further { (next(fields, partition, offset)) }
    })
}

/// The position in the only partition of the page; none if no record follows there.
async fn further(
    console: &Console,
    visitor: &Visitor,
    wanted: &Wanted,
) -> Result<Option<(i32, i64)>, Failed> {
    let mut positions = wanted.positions.iter();
    let (Some((partition, offset)), None) = (positions.next(), positions.next()) else { return Ok(None) };
    let place = (wanted.topic.clone(), *partition);
    let ends = console.offsets(visitor, [(place.clone(), LATEST)]).await?;
    Ok(ends.get(&place).filter(|end| offset < *end).map(|_| (*partition, *offset)))
}

/// The form that continues after the records read so far, with the same filter.
fn next(fields: &Fields, partition: i32, offset: i64) -> Markup {
    html! {
        form method="get" {
            @for name in FILTERS.into_iter().chain(["isolation", "limit"]) {
                input type="hidden" name=(name) value=(fields.raw(name));
            }
            input type="hidden" name="partition" value=(partition);
            input type="hidden" name="offset" value=(offset);
            input type="hidden" name="from" value="offset";
            button { "From offset " (format::count(i128::from(offset))) " on" }
        }
    }
}

fn row(found: &Found) -> Markup {
    let batch = found.batch;
    html! {
        tr data-record={ (found.partition) "/" (found.offset) } {
            td.n { (found.partition) }
            td.n { (found.offset) }
            td.time { (format::time(found.timestamp_ms)) }
            td.key { (part(found.key.as_ref(), "no key")) }
            td.value { (part(found.value.as_ref(), "tombstone")) }
            td.key { @if !found.headers.is_empty() { (headers(found)) } }
            td.n title={ (batch.records) " records in the batch" } {
                (format::bytes(batch.bytes as u64)) " " span.soft { (batch.codec) @if batch.transactional { ", txn" } }
            }
        }
    }
}

/// A key or a value, or the word for its absence.
fn part(part: Option<&ShownPart>, absent: &str) -> Markup {
    let Some(part @ ShownPart { shown, len, .. }) = part else {
        return html! { span.form-tag { (absent) } };
    };
    html! {
        details.part {
            summary { code { (line(&shown.text)) } }
            p.soft data-copied {
                (part.form()) ", " (format::bytes(*len as u64))
                @if shown.left_out > 0 { "; the last " (format::bytes(shown.left_out as u64)) " are not shown" }
            }
            pre { (shown.text) }
        }
    }
}

/// The headers of a record, the first one in the line.
fn headers(found: &Found) -> Markup {
    let (first, count) = (found.headers.first().map_or("", String::as_str), found.headers.len());
    html! {
        details.part {
            summary { code { (line(first)) } @if count > 1 { " +" (count - 1) } }
            @for header in &found.headers { pre { (header) } }
            @if found.headers_left_out > 0 { span.hint { (found.headers_left_out) " more are not shown" } }
        }
    }
}

/// The beginning of a text in one line.
pub(super) fn line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_ascii_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(LINE_CHARS));
        if line.len() >= LINE_CHARS {
            line.push('…');
            break;
        }
    }
    if line.is_empty() { "(empty)".to_owned() } else { line }
}

/// The text of a table without records.
fn empty(filter: &Filter, from_end: bool) -> &'static str {
    match (filter.is_empty(), from_end) {
        (false, _) => {
            "No record that was read has this text. Next: continue below, or search from the start."
        }
        (true, true) => "No record yet. Produce one, or follow the topic: From “now, following”.",
        (true, false) => "No record from there on.",
    }
}

#[cfg(test)]
mod tests;
