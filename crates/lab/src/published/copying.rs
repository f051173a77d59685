//! The page about kernels whose `splice` copies, made of the record of `lab transfer`: cost of each
//! path on tmpfs, where a descriptor with `O_DIRECT` has the kernel copy pages.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::claims::{circumstances, values_of};
use crate::method::statistics::Interval;
use crate::record::Line;
use crate::report::number;

mod text;

/// The experiment that measures it.
const EXPERIMENT: &str = "transfer";

/// Prefixes of the groups that the page compares: files in the page cache, and in memory.
const GROUPS: [&str; 2] = ["hot", "tmpfs"];

/// Sender, and receiver.
const COSTS: [&str; 2] = ["cpu_s_per_gb", "receiver_cpu_s_per_gb"];

/// `splice` as kernels have it: the base of the factors.
const BY_REFERENCE: &str = "splice, pipe 1M";
/// `splice` on a kernel that copies.
const COPYING: &str = "splice that copies, pipe 1M";
/// Path of the engine on such a kernel.
const SECOND_LANE: &str = "mmap+write 1M";

/// Cases of the page, in its order.
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

/// The page of a set of records, by experiment.
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

/// Medians of a case, and its sum in that of references; none for a case without figures.
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

/// Quotient of two cases in the same rounds, with its interval.
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
