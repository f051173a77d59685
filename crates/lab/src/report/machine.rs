//! The machine of a run, as a report shows it.

use jiff::Timestamp;
use maud::{Markup, html};

use super::number;
use crate::record::Run;

/// Returns time and machine in one line.
pub(super) fn line(run: &Run) -> Markup {
    let machine = &run.environment;
    html! {
        p class="machine" {
            (when(run)) " · " (machine.processor) ", " (machine.processors) " processors · Linux " (machine.kernel)
            " · " (number::size(machine.memory_bytes as f64)) " · Levada " (run.levada)
        }
    }
}

/// Returns all facts about the machine as a table.
pub(super) fn table(run: &Run) -> Markup {
    let machine = &run.environment;
    let pinning = match machine.pinning {
        Some((sender, receiver)) => format!("sender on processor {sender}, receiver on {receiver}"),
        None => "none".to_owned(),
    };
    let congestion =
        format!("{} on both sides (the system's own: {})", machine.congestion, machine.congestion_default);
    let mtu: Vec<_> = machine.mtu.iter().map(|(device, mtu)| format!("{device} {mtu}")).collect();
    let facts = [
        ("measured", when(run)),
        ("scale", format!("{}, {} rounds, seed {}", run.scale, run.rounds, run.seed)),
        ("hypervisor", machine.hypervisor.clone().unwrap_or_else(|| "none detected".to_owned())),
        ("pinning", pinning),
        ("congestion control", congestion),
        ("largest packet", mtu.join(", ")),
        ("files", format!("{} ({})", machine.directory, machine.file_system)),
    ];
    html! {
        table class="facts" {
            tbody {
                @for (name, value) in facts { tr { th scope="row" { (name) } td { (value) } } }
                @for (name, value) in &machine.capabilities { tr { th scope="row" { (name) } td { (value) } } }
            }
        }
    }
}

fn when(run: &Run) -> String {
    let started = i64::try_from(run.started_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    started.map_or_else(
        || "at an unknown time".to_owned(),
        |started| started.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}
