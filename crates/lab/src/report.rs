//! The report of a run: one HTML page without external files, for the screen (light or dark), for
//! paper, and without a network.
//!
//! The page is made from a [record](crate::record) alone, so that it can be made again from an old
//! record. For each experiment it has a sentence with the question, a sentence with the result, a
//! picture, the table, and doubts. The raw record and the command that repeats the run are at the
//! end. Losses have the same size as wins.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::picture::Form;
use crate::machine::flame;
use crate::method::statistics::Interval;
use crate::record::summary::{self, Group, Row, Summary};
use crate::record::{Flame, Line, Metric, Run};

mod head;
mod machine;
pub(crate) mod number;
mod picture;
mod said;
mod scale;

/// Returns the page of a record.
pub fn html(lines: &[Line]) -> String {
    let summaries = summary::of(lines);
    let run = lines.iter().find_map(|line| match line {
        Line::Run(run) => Some(&**run),
        _ => None,
    });
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Levada: what each path costs on this machine" }
                style { (PreEscaped(include_str!("report/style.css"))) (PreEscaped(include_str!("report/layout.css"))) }
            }
            body {
                (head::head(run, &summaries, &said::before(lines)))
                main {
                    @for summary in &summaries { (experiment(summary, &flames(lines, &summary.name))) }
                    (tail(lines, run))
                }
            }
        }
    };
    page.into_string()
}

/// Returns one picture of the page as a separate SVG file: the bars of a group, or the curves of a
/// panel. None if the record does not contain the values.
pub fn picture(lines: &[Line], experiment: &str, group: &str) -> Option<String> {
    let summaries = summary::of(lines);
    let summary = summaries.iter().find(|summary| summary.name == experiment)?;
    let metric = summary.metrics.first()?;
    let (axis, drawn) = if summary.sweep.is_some() {
        let sweep = said::sweeps(summary).into_iter().find(|sweep| sweep.name == group)?;
        (None, picture::curves(&sweep.curves, &sweep.across, &said::up(metric), Form::Wide))
    } else {
        let group = summary.groups.iter().find(|one| one.name == group)?;
        (Some(said::axis_of(group, metric)), picture::bars(&bars(group, metric), &metric.unit, Form::Wide))
    };
    Some(picture::alone(&drawn, axis.as_deref(), include_str!("report/style.css")))
}

fn flames<'l>(lines: &'l [Line], experiment: &str) -> Vec<&'l Flame> {
    let own = lines.iter().filter_map(|line| match line {
        Line::Flame(flame) if flame.experiment == experiment => Some(flame),
        _ => None,
    });
    own.collect()
}

/// Section with the profile of a case.
fn burnt(flame: &Flame) -> Markup {
    let Some(svg) = flame::draw(&flame.stacks) else { return html! {} };
    html! {
        details class="flame" {
            summary { "Where the time goes: " (flame.group) ", " (flame.case) }
            p class="axis-title" { "Sampled with " (flame.with) "; the width is the time, and each function calls the one above it." }
            img alt="a flame graph" src={ "data:image/svg+xml;base64," (BASE64.encode(svg)) };
        }
    }
}

fn experiment(summary: &Summary, flames: &[&Flame]) -> Markup {
    html! {
        section id=(summary.name) {
            h2 { (summary.name) }
            p class="asked" { (summary.shows) }
            @if let Some(metric) = summary.metrics.first() {
                @for sweep in said::sweeps(summary) { (swept(&sweep, metric)) }
                @for group in &summary.groups { (compared(group, summary, metric)) }
                (clocked(summary))
            }
            @for flame in flames { (burnt(flame)) }
            (doubts(summary))
        }
    }
}

/// Section of a group: a sentence, the picture and the table.
fn compared(group: &Group, summary: &Summary, metric: &Metric) -> Markup {
    html! {
        figure {
            figcaption {
                @if !group.name.is_empty() { h3 { (group.name) } }
                p { (said::outcome(group, metric)) }
            }
            @if summary.sweep.is_none() {
                p class="axis-title" { (said::axis_of(group, metric)) }
                (picture::fitting(|form| picture::bars(&bars(group, metric), &metric.unit, form)))
            }
            (table(group, &summary.metrics))
        }
    }
}

fn bars(group: &Group, metric: &Metric) -> Vec<picture::Bar> {
    let best = said::best(group, metric);
    let bar = |(at, row): (usize, &Row)| {
        let interval = *row.metrics.get(&metric.name)?;
        let label = match row.caveat {
            Some(_) => format!("{} (not as named)", row.case),
            None => said::label(group, row),
        };
        Some(picture::Bar { label, interval, best: Some(at) == best })
    };
    group.rows.iter().enumerate().filter_map(bar).collect()
}

/// Section of a sweep: the curves of a parameter.
fn swept(sweep: &said::CurveSet, metric: &Metric) -> Markup {
    html! {
        figure {
            figcaption { @if !sweep.name.is_empty() { h3 { (sweep.name) } } }
            (picture::fitting(|form| picture::curves(&sweep.curves, &sweep.across, &said::up(metric), form)))
        }
    }
}

fn table(group: &Group, metrics: &[Metric]) -> Markup {
    let present = |metric: &&Metric| group.rows.iter().any(|row| row.metrics.contains_key(&metric.name));
    let metrics: Vec<&Metric> = metrics.iter().filter(present).collect();
    html! {
        div class="scroll" {
            table {
                thead {
                    tr {
                        th class="name" { "case" }
                        @for metric in &metrics { th { (metric.label) @if !metric.unit.is_empty() { " " span class="unit" { (metric.unit) } } } }
                        th { "relative" }
                        th { "bytes" }
                    }
                }
                tbody {
                    @for row in &group.rows {
                        tr {
                            th class="name" scope="row" { (row.case) @if row.caveat.is_some() { " " span class="caveat" { "(not as named)" } } }
                            @for metric in &metrics { (cell(row.metrics.get(&metric.name))) }
                            td { @if let Some(relative) = &row.relative { (number::plain(relative.median)) } }
                            (checked(row.sound))
                        }
                    }
                }
            }
        }
    }
}

/// Table of the system calls of each case, if the experiment timed them.
fn clocked(summary: &Summary) -> Markup {
    let rows = summary.groups.iter().flat_map(|group| &group.rows);
    let calls: Vec<_> = rows.flat_map(|row| row.calls.iter().map(move |calls| (&row.case, calls))).collect();
    if calls.is_empty() {
        return html! {};
    }
    let heads = ["calls", "total ms", "min ms", "avg ms", "max ms"];
    html! {
        h3 { "Duration of system calls" }
        div class="scroll" {
            table {
                thead { tr { th class="name" { "case" } th class="name" { "system call" } @for head in heads { th { (head) } } } }
                tbody {
                    @for (case, one) in &calls {
                        tr {
                            th class="name" scope="row" { (case) }
                            td class="name" { (one.name) }
                            @for value in [one.calls, one.total_ms, one.min_ms, one.avg_ms, one.max_ms] { td { (number::plain(value)) } }
                        }
                    }
                }
            }
        }
    }
}

fn cell(interval: Option<&Interval>) -> Markup {
    html! {
        td {
            @if let Some(interval) = interval {
                (number::plain(interval.median))
                @if let Some(spread) = interval.spread().filter(|_| interval.count > 1) {
                    " " span class="spread" { "±" (format!("{:.0}", spread * 100.0)) "\u{202f}%" }
                }
            }
        }
    }
}

fn checked(sound: Option<bool>) -> Markup {
    match sound {
        Some(true) => html! { td class="sound" { "all right" } },
        Some(false) => html! { td class="broken" { "WRONG" } },
        None => html! { td { "unchecked" } },
    }
}

fn doubts(summary: &Summary) -> Markup {
    let noise = summary.noise.iter().flat_map(|noise| &noise.doubts);
    let unfinished = summary
        .noise
        .is_none()
        .then_some("the record stops before the end of this experiment; next: repeat it");
    html! {
        @let doubts: Vec<&str> = noise.map(String::as_str).chain(unfinished).collect();
        @if !doubts.is_empty() {
            aside class="doubt" {
                strong { "Reasons for doubt:" }
                ul { @for doubt in doubts { li { (doubt) "." } } }
            }
        }
        @if !summary.notes.is_empty() {
            ul class="notes" { @for note in &summary.notes { li { (note) } } }
        }
    }
}

fn tail(lines: &[Line], run: Option<&Run>) -> Markup {
    let raw: Vec<String> = lines.iter().filter_map(|line| serde_json::to_string(line).ok()).collect();
    html! {
        section id="method" {
            h2 { "how this was measured" }
            p {
                "The cases of a group took turns in random order, round after round; the number is the median, the whisker its "
                "95\u{202f}% confidence interval by order statistics; of fewer than six rounds it is the range of all, with less confidence. "
                em { "relative" } " is the median of the quotients within a round, how many times better than the first case of the group. "
                "Another round, not timed, compared every byte. Sender and receiver are separate processes."
            }
            @if let Some(run) = run {
                (machine::table(run))
                p { "To repeat the run:" }
                pre class="command" { (said::command(run)) }
            }
            details {
                summary { "The record, " (raw.len()) " lines of JSON" }
                pre class="raw" { (raw.join("\n")) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
