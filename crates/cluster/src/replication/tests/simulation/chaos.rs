//! Accidents and the work of operators, as a list that can be shortened.

use rand::RngExt;
use rand::rngs::StdRng;

use super::harm::Harm;
use super::world::CHAOS_MS;

/// A disturbance of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Accident {
    /// The process ends; its page cache stays.
    Kill {
        node: i32,
        down_ms: i64,
    },
    /// The machine loses its power.
    Lose {
        node: i32,
        is_torn: bool,
        down_ms: i64,
    },
    /// A controlled shutdown.
    Stop {
        node: i32,
        down_ms: i64,
    },
    Pause {
        node: i32,
        ms: i64,
    },
    /// Messages of one direction are lost.
    Cut {
        from: i32,
        to: i32,
        ms: i64,
    },
    Isolate {
        node: i32,
        ms: i64,
    },
    /// The leader is cut off, and so is the next one as soon as it leads: no other node has a batch
    /// of its epoch.
    Strike {
        ms: i64,
    },
    /// The controller hears nothing of the leader, and a follower hears nothing of the controller:
    /// it goes on with the former leader.
    Deafen {
        ms: i64,
    },
    /// Messages are delayed.
    Slow {
        ms: i64,
    },
    Reassign {
        target: Vec<i32>,
    },
    Checkpoint {
        node: i32,
        flushes: bool,
    },
    /// DeleteRecords at the leader.
    Delete,
    /// Answers to fetches have other batches than the log: the first one begins before the fetch
    /// offset.
    Merge {
        ms: i64,
    },
    /// Answers to fetches have wrong bits, or say that the offset is out of range.
    Corrupt {
        ms: i64,
    },
    /// The log goes offline, and its process continues. An operator restarts the process some time
    /// after the controller has the report.
    Break {
        node: i32,
        ms: i64,
    },
    /// An operator has another replica in sync lead, which lacks the leader's last records, and
    /// then the former leader again. That one hears only of its second election.
    Detour {
        ms: i64,
    },
    /// Election of the preferred leader.
    Prefer {
        node: i32,
    },
    /// The files of the node are damaged before its next process opens them.
    Damage {
        node: i32,
        harm: Harm,
    },
    /// Waits for the next request of a kind.
    Trick {
        trick: Trick,
        ms: i64,
    },
}

/// An accident at the time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trick {
    /// A fetch of a broker that is not in the ISR arrives late. The broker loses its power
    /// meanwhile, and is back without its last records.
    LateFetch,
    /// AlterPartition with a broker that joins the ISR arrives late. The broker loses its power
    /// meanwhile, and is back without its last records.
    LateJoining,
    /// AlterPartition with a broker that joins does not arrive. Its repetition does, while the
    /// fetches of the broker do not arrive.
    LostJoining,
    /// The controller takes a broker into the ISR. For a time, no message of the controller or of
    /// the broker reaches the leader.
    Unheard,
    /// While the leader takes a broker out of the ISR, another one begins to stop.
    Collision,
}

impl Accident {
    fn draw(random: &mut StdRng, loses: bool) -> Self {
        let node = random.random_range(1..5);
        let ms = random.random_range(50..1_500);
        match random.random_range(0..27) {
            0..3 => Self::Kill { node, down_ms: ms },
            3 | 4 if loses => Self::Lose { node, is_torn: random.random_bool(0.5), down_ms: ms },
            3 | 4 => Self::Kill { node, down_ms: ms },
            5..7 => Self::Stop { node, down_ms: ms },
            7..9 => Self::Pause { node, ms },
            9..12 => {
                // Between a node and the controller, or between two nodes.
                match random.random_range(0..3) {
                    0 => Self::Cut { from: 0, to: node, ms },
                    1 => Self::Cut { from: node, to: 0, ms },
                    _ => Self::Cut { from: node % 4 + 1, to: node, ms },
                }
            }
            12..14 => Self::Isolate { node, ms },
            14 => Self::Slow { ms },
            15 => Self::Strike { ms: 600 + ms / 2 },
            16 => {
                let out = random.random_range(1..5);
                Self::Reassign { target: (1..5).filter(|id| *id != out).collect() }
            }
            17 => Self::Delete,
            18 | 19 => Self::Deafen { ms: 1_000 + ms / 2 },
            20 => Self::Merge { ms },
            21 => Self::Corrupt { ms },
            22..26 => {
                let trick = match random.random_range(0..5) {
                    0 => Trick::LateFetch,
                    1 => Trick::LateJoining,
                    2 => Trick::LostJoining,
                    3 => Trick::Unheard,
                    _ => Trick::Collision,
                };
                Self::Trick { trick, ms: 600 + ms / 2 }
            }
            _ => Self::Checkpoint { node, flushes: random.random_bool(0.5) },
        }
    }
}

/// Accidents of one history, with their times.
pub(super) fn draw(random: &mut StdRng) -> Vec<(i64, Accident)> {
    let loses = random.random_bool(0.5);
    let count = random.random_range(3..16);
    let mut all: Vec<(i64, Accident)> = (0..count)
        .map(|_| (random.random_range(0..CHAOS_MS - 1_000), Accident::draw(random, loses)))
        .collect();
    all.sort_by_key(|(ms, _)| *ms);
    all
}

/// Logs that go offline, with their times.
pub(super) fn draw_broken(random: &mut StdRng) -> Vec<(i64, Accident)> {
    let count = if random.random_bool(0.25) { random.random_range(1..3) } else { 0 };
    let draw = |_| {
        let (node, ms) = (random.random_range(1..5), random.random_range(50..1_500));
        (random.random_range(0..CHAOS_MS - 1_000), Accident::Break { node, ms })
    };
    (0..count).map(draw).collect()
}

/// Elections in working clusters, with their times.
pub(super) fn draw_detours(random: &mut StdRng) -> Vec<(i64, Accident)> {
    let count = if random.random_bool(0.25) { random.random_range(1..4) } else { 0 };
    let draw = |_| {
        let ms = random.random_range(40..400);
        (random.random_range(0..CHAOS_MS - 1_000), Accident::Detour { ms })
    };
    (0..count).map(draw).collect()
}

/// One of three replicas is damaged while its process is down, and all processes are killed at
/// about the same time; the damage is from before, or from then.
pub(super) fn draw_damage(random: &mut StdRng) -> Vec<(i64, Accident)> {
    let node = random.random_range(1..4);
    let mut all = Vec::new();
    for _ in 0..random.random_range(2..7) {
        let (node, flushes) = (random.random_range(1..4), random.random_bool(0.5));
        all.push((random.random_range(0..CHAOS_MS - 1_000), Accident::Checkpoint { node, flushes }));
    }
    let is_early = random.random_bool(0.6);
    if is_early || random.random_bool(0.3) {
        let (at, down_ms) = (random.random_range(300..1_300), random.random_range(50..600));
        if is_early {
            all.push((at - 1, Accident::Damage { node, harm: Harm::draw(random) }));
        }
        let is_clean = random.random_bool(0.7);
        all.push((
            at,
            if is_clean { Accident::Stop { node, down_ms } } else { Accident::Kill { node, down_ms } },
        ));
    }
    for _ in 0..random.random_range(0..3) {
        let prefers = if random.random_bool(0.7) { node } else { random.random_range(1..4) };
        all.push((random.random_range(1_000..2_400), Accident::Prefer { node: prefers }));
    }
    let at = random.random_range(2_400..2_900);
    if !is_early || random.random_bool(0.2) {
        all.push((at - 1, Accident::Damage { node, harm: Harm::draw(random) }));
    }
    let spread_ms = if random.random_bool(0.5) { 1 } else { 200 };
    for node in 1..4 {
        let down_ms = random.random_range(10..1_500);
        all.push((at + random.random_range(0..spread_ms), Accident::Kill { node, down_ms }));
    }
    // The operator tries again.
    if random.random_bool(0.3) {
        let (at, down_ms) = (random.random_range(2_950..CHAOS_MS), random.random_range(10..300));
        all.push((at, Accident::Kill { node, down_ms }));
    }
    all.sort_by_key(|(ms, _)| *ms);
    all
}
