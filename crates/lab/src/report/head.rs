//! The top of the page: the machine, doubts with their remedies, and the results in a few lines.

use maud::{Markup, html};

use super::picture::{self, Ratio};
use super::{machine, number, said};
use crate::record::summary::{Group, Summary};
use crate::record::{Better, Run};

/// Returns the header of the page.
pub(super) fn head(run: Option<&Run>, summaries: &[Summary], before: &[&str]) -> Markup {
    html! {
        header {
            h1 { "What each path costs on this machine" }
            @if let Some(run) = run { (machine::line(run)) }
            (doubts(summaries, before))
            (findings(summaries))
            (beside_kafka(summaries))
            nav {
                @for summary in summaries {
                    a href={ "#" (summary.name) } { (summary.name) }
                }
            }
        }
    }
}

fn doubts(summaries: &[Summary], before: &[&str]) -> Markup {
    let doubts = said::doubts(summaries);
    html! {
        @if doubts > 0 {
            p class="verdict doubtful" {
                "The machine was not quiet in " (doubts) " of " (summaries.len())
                " experiments. Each of them names the cause and the next step. Repeat them before you use their figures."
            }
        }
        @for doubt in before {
            p class="verdict doubtful" { "The figures are not reliable: " (doubt) "." }
        }
        @if doubts == 0 && before.is_empty() {
            p class="verdict" { "The machine was quiet." }
        }
    }
}

/// List with a line for each experiment that ranks its cases.
fn findings(summaries: &[Summary]) -> Markup {
    let found: Vec<_> = summaries.iter().filter_map(|one| Some((one, finding(one)?))).collect();
    html! {
        @if !found.is_empty() {
            h2 { "On this machine:" }
            ul class="findings" {
                @for (summary, finding) in &found {
                    li {
                        a href={ "#" (summary.name) } { (summary.name) } ": " (finding)
                        @if said::is_doubtful(summary) { " " strong { (DOUBTFUL) } }
                    }
                }
            }
        }
    }
}

/// Mark of a result that the state of the machine makes doubtful.
const DOUBTFUL: &str = "Doubtful: the machine was busy, or the run is not complete.";

/// Name of the bare loop of the unavoidable system calls, which has no rank.
const FLOOR: &str = "floor";

/// Result of an experiment in one sentence: the best case of its only group, or the case that is
/// the best in most groups, with its greatest lead.
fn finding(summary: &Summary) -> Option<String> {
    let metric = summary.metrics.first().filter(|metric| metric.better != Better::Neither)?;
    let contest = |group: &Group| Group {
        rows: group.rows.iter().filter(|row| row.case != FLOOR).cloned().collect(),
        name: group.name.clone(),
    };
    let groups: Vec<Group> = summary.groups.iter().map(contest).collect();
    if let [group] = &groups[..] {
        return Some(said::outcome(group, metric)).filter(|said| !said.is_empty());
    }
    let won = |group: &Group| said::best(group, metric).map(|at| group.rows[at].case.clone());
    let mut wins: Vec<(String, usize)> = Vec::new();
    for case in groups.iter().filter_map(won) {
        match wins.iter_mut().find(|(other, _)| *other == case) {
            Some((_, count)) => *count += 1,
            None => wins.push((case, 1)),
        }
    }
    let most = wins.iter().map(|(_, count)| *count).max()?;
    let (case, _) = wins.into_iter().find(|(_, count)| *count == most)?;
    let mut said =
        format!("{case} has the best {} in {most} of {} comparisons", metric.label, summary.groups.len());
    let lead = |group: &Group| {
        let row = group.rows.iter().skip(1).find(|row| row.case == case)?;
        let first = group.rows.first()?.case.clone();
        Some((row.relative.filter(|relative| relative.low > 1.0)?.median, first, group.name.clone()))
    };
    let leads = groups.iter().filter_map(lead);
    let first = groups.iter().find_map(|group| Some(group.rows.first()?.case.clone()));
    match leads.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((times, first, group)) => {
            said.push_str(&format!("; at most {} times better than {first}, {group}", number::plain(times)));
        }
        None if first.as_ref() != Some(&case) => said.push_str(", and is not clearly better in any"),
        None => {}
    }
    Some(said + ".")
}

/// Picture of Levada beside Kafka, if the record contains both.
fn beside_kafka(summaries: &[Summary]) -> Markup {
    let ratios: Vec<Ratio> = summaries.iter().flat_map(of_experiment).collect();
    let is_doubtful = |summary: &&Summary| said::is_doubtful(summary) && !of_experiment(summary).is_empty();
    let doubtful: Vec<&str> = summaries.iter().filter(is_doubtful).map(|one| one.name.as_str()).collect();
    html! {
        @if !ratios.is_empty() {
            h2 { "Levada beside Kafka" }
            p class="axis-title" {
                "How many times better Levada is in the first metric of each experiment, in equal steps for equal factors; the line is Kafka."
            }
            (picture::fitting(|form| picture::ratios(&ratios, ("Kafka is better", "Levada is better"), form)))
            @if !doubtful.is_empty() { p class="axis-title" { "Doubtful: " (doubtful.join(", ")) "." } }
        }
    }
}

fn of_experiment(summary: &Summary) -> Vec<Ratio> {
    let ranks = summary.metrics.first().is_some_and(|metric| metric.better != Better::Neither);
    let of_group = |group: &Group| {
        let first = group.rows.first().filter(|row| row.case == "kafka" && ranks)?;
        let ours = group.rows.iter().find(|row| row.case == "levada" && row.case != first.case)?;
        let label = format!("{} {}", summary.name, group.name).trim_end().to_owned();
        Some(Ratio { label, interval: ours.relative? })
    };
    summary.groups.iter().filter_map(of_group).collect()
}
