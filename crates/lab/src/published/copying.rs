//! The page about kernels whose `splice` copies, made from the record of `lab transfer`: cost of
//! each path on tmpfs, where the kernel copies pages for a descriptor with `O_DIRECT`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::claims::{circumstances, values_of};
use crate::method::statistics::Interval;
use crate::record::Line;
use crate::report::number;

mod text;

/// Experiment that measures the figures of the page.
const EXPERIMENT: &str = "transfer";

/// Prefixes of the groups that the page compares: files in the page cache, and in tmpfs.
const GROUPS: [&str; 2] = ["hot", "tmpfs"];

/// Metrics of the sender and of the receiver.
const COSTS: [&str; 2] = ["cpu_s_per_gb", "receiver_cpu_s_per_gb"];

/// Case of `splice` on common kernels, which is the base of the factors.
const BY_REFERENCE: &str = "splice, pipe 1M";
/// Case of `splice` on a kernel that copies.
const COPYING: &str = "splice that copies, pipe 1M";
/// Case of the path that the engine takes on such a kernel.
const SECOND_LANE: &str = "mmap+write 1M";

/// Cases of the page, in table order.
const CASES: [&str; 8] = [
    BY_REFERENCE,
    "sendfile",
    COPYING,
    SECOND_LANE,
    "read+write 64K",
    "read+write 1M",
    "read+MSG_ZEROCOPY 256K",
    "read+SEND_ZC registered 256K",
];

/// True if the page needs a case.
pub(super) fn needs((experiment, group, case): (&str, &str, &str)) -> bool {
    experiment == EXPERIMENT && is_compared(group) && CASES.contains(&case)
}

fn is_compared(group: &str) -> bool {
    GROUPS.iter().any(|prefix| group.starts_with(prefix))
}

/// Returns the page from records by experiment.
pub fn page(records: &BTreeMap<String, Vec<Line>>) -> String {
    let lines = records.get(EXPERIMENT).map_or(&[][..], Vec::as_slice);
    let measured: Vec<&Line> = lines.iter().collect();
    let mut page = text::HEAD.to_owned();
    let _ = writeln!(page, "Measured: {}.", circumstances(lines));
    for group in groups(lines) {
        let _ = write!(page, "\n### {group}\n\n{}", text::COLUMNS);
        for case in CASES {
            page.push_str(&row(&measured, &group, case).unwrap_or_default());
        }
        let factor = |metrics: &[&str]| factor(&measured, metrics, &group, (SECOND_LANE, COPYING));
        if let (Some(sender), Some(both)) = (factor(&COSTS[..1]), factor(&COSTS)) {
            let _ = writeln!(
                page,
                "\nThe second lane against the splice that copies: sender {sender}, sender and receiver {both}."
            );
        }
    }
    page + text::END
}

/// Groups of the page, in the order of the record.
fn groups(lines: &[Line]) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for line in lines {
        let Line::Experiment(announced) = line else { continue };
        let own = announced.cases.iter().map(|case| &case.group).filter(|group| is_compared(group));
        for group in own {
            if !groups.contains(group) {
                groups.push(group.clone());
            }
        }
    }
    groups
}

/// Returns the row of a case: its medians, and the factor of its total cost to `splice` by
/// reference. None for a case without figures.
fn row(lines: &[&Line], group: &str, case: &str) -> Option<String> {
    let [sender, receiver] = COSTS.map(|metric| median(lines, &[metric], group, case));
    let copies = median(lines, &["copies_per_byte"], group, case)?;
    let factor = factor(lines, &COSTS, group, (case, BY_REFERENCE))?;
    let plain = number::plain;
    Some(format!(
        "| {case} | {} | {} | {} | {factor} | {} |\n",
        plain(sender?),
        plain(receiver?),
        plain(median(lines, &COSTS, group, case)?),
        plain(copies)
    ))
}

fn median(lines: &[&Line], metrics: &[&str], group: &str, case: &str) -> Option<f64> {
    Some(Interval::of(values_of(lines, metrics, (EXPERIMENT, group, case)).into_values())?.median)
}

/// Median quotient of two cases in the same rounds, with its interval.
fn factor(lines: &[&Line], metrics: &[&str], group: &str, (this, that): (&str, &str)) -> Option<String> {
    let of = |case| values_of(lines, metrics, (EXPERIMENT, group, case));
    let (mine, theirs) = (of(this), of(that));
    let quotients = mine.iter().filter_map(|(round, value)| Some(value / theirs.get(round)?));
    let Interval { median, low, high, .. } = Interval::of(quotients)?;
    let plain = number::plain;
    Some(format!("{}× ({} to {})", plain(median), plain(low), plain(high)))
}

#[cfg(test)]
mod tests;
