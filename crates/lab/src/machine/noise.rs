//! Other activity of the machine during a measurement, and its effect on the reliability of the
//! result.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Disturbances of an experiment. Shares refer to the time of all processors, from 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Share of the time that the hypervisor gave to other virtual machines.
    pub steal: f64,
    /// Share of the time of processes that do not belong to the laboratory.
    pub others: f64,
    /// Share of the time in which any task waited for a processor (`/proc/pressure/cpu`), possibly
    /// one of the laboratory.
    pub waiting: Option<f64>,
    /// Lowest and highest observed frequency in MHz, if the machine shows frequencies.
    pub frequency_mhz: Option<(u64, u64)>,
    /// Reasons why the result is not reliable; empty if there is none.
    pub doubts: Vec<String>,
}

/// Greatest shares of steal and of other processes at which figures are reliable.
const STEAL: f64 = 0.01;
const OTHERS: f64 = 0.05;

/// Observer of the machine since [`Watch::start`].
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    before: Ticks,
    /// Processor time of the laboratory at the start, in ticks.
    ours: u64,
    waited: Option<Duration>,
    frequency: Option<(u64, u64)>,
}

impl Watch {
    /// Starts the observation.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            before: Ticks::now().unwrap_or_default(),
            ours: ticks_of("self"),
            waited: waited(),
            frequency: frequency_mhz(),
        }
    }

    /// Reads the frequencies. Callers repeat this, because frequencies change.
    pub fn look(&mut self) {
        self.frequency = match (self.frequency, frequency_mhz()) {
            (Some(seen), Some(now)) => Some((seen.0.min(now.0), seen.1.max(now.1))),
            (seen, now) => seen.or(now),
        };
    }

    /// Returns the disturbances since the start.
    pub fn noise(mut self) -> Noise {
        self.look();
        let (after, elapsed) = (Ticks::now().unwrap_or_default(), self.start.elapsed());
        let spent = after.since(&self.before);
        let ours = ticks_of("self").saturating_sub(self.ours);
        let waiting = self.waited.zip(waited()).map(|(before, after)| {
            after.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
        });
        let mut noise = Noise {
            steal: spent.share(spent.steal),
            others: spent.share(spent.busy.saturating_sub(ours)),
            waiting,
            frequency_mhz: self.frequency,
            doubts: Vec::new(),
        };
        noise.doubts = noise.judged(spent.total);
        noise
    }
}

impl Noise {
    fn judged(&self, ticks: u64) -> Vec<String> {
        // With fewer ticks (10 ms each), shares have no meaning.
        const ENOUGH_TICKS: u64 = 50;
        let mut doubts = Vec::new();
        if ticks >= ENOUGH_TICKS && self.steal > STEAL {
            doubts.push(format!(
                "other virtual machines took {:.1} % of the processors (steal); next: repeat when the host is quiet",
                self.steal * 100.0
            ));
        }
        if ticks >= ENOUGH_TICKS && self.others > OTHERS {
            doubts.push(format!(
                "other processes had {:.0} % of the processors; next: stop them (top shows them) and repeat",
                self.others * 100.0
            ));
        }
        if let Some((low, high)) = self.frequency_mhz
            && low * 10 < high * 9
        {
            doubts.push(format!(
                "the processors ran at {low} to {high} MHz; next: cpupower frequency-set -g performance, and repeat"
            ));
        }
        doubts
    }
}

/// First line of `/proc/stat`, in ticks.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    total: u64,
    busy: u64,
    steal: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        // Order: user nice system idle iowait irq softirq steal; guest time is a part of user.
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else { return None };
        let busy = user + nice + system + irq + softirq;
        Some(Self { total: busy + idle + iowait + steal, busy, steal })
    }

    /// Ticks since `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            total: self.total.saturating_sub(before.total),
            busy: self.busy.saturating_sub(before.busy),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    /// Share of the ticks in the time of all processors, even if this process may use only some of
    /// them.
    fn share(&self, ticks: u64) -> f64 {
        if self.total == 0 { 0.0 } else { ticks as f64 / self.total as f64 }
    }
}

/// Processor time of a process and its descendants, including ended ones, in ticks.
fn ticks_of(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The values follow the name in brackets: utime, stime, cutime and cstime (of ended children)
    // are the fields 14 to 17 of the line.
    let fields = text.rsplit(") ").next().unwrap_or_default().split_whitespace().skip(11).take(4);
    let own: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let of_children = |list: String| -> u64 { list.split_whitespace().map(ticks_of).sum() };
    own + children.map(of_children).sum::<u64>()
}

/// Time that tasks have waited for a processor since the start of the machine.
fn waited() -> Option<Duration> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    Some(Duration::from_micros(some.rsplit_once("total=")?.1.trim().parse().ok()?))
}

/// Lowest and highest frequency of the processors in MHz.
pub(crate) fn frequency_mhz() -> Option<(u64, u64)> {
    let processors = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let frequency = |entry: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(entry.path().join("cpufreq/scaling_cur_freq")).ok()?;
        Some(text.trim().parse::<u64>().ok()? / 1000)
    };
    let all: Vec<u64> = processors.filter_map(frequency).collect();
    Some((*all.iter().min()?, *all.iter().max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_parsed_to_ticks() {
        let ticks = Ticks::parse("cpu  10 1 20 300 5 2 3 4 9 9\ncpu0 1 2 3\n").unwrap();
        assert_eq!((ticks.total, ticks.busy, ticks.steal), (345, 36, 4));
        assert!(Ticks::parse("intr 1").is_none());
        assert!(Ticks::parse("cpu 1 2").is_none());
    }

    #[test]
    fn other_load_counts_across_all_processors() {
        // Ten seconds of 64 processors. The laboratory used two of them, and another process four.
        let spent = Ticks { total: 64_000, busy: 6_000, steal: 0 };
        let ours = 2_000;
        assert_eq!(spent.share(spent.busy - ours), 4_000.0 / 64_000.0);
        assert_eq!(Ticks::default().share(0), 0.0);
    }

    #[test]
    fn doubts_state_their_reasons_and_remedies() {
        fn check(noise: Noise, ticks: u64, expected: &[&str]) {
            let doubts = noise.judged(ticks);
            assert_eq!(doubts.len(), expected.len(), "{doubts:?}");
            for (doubt, word) in doubts.iter().zip(expected) {
                assert!(doubt.contains(word) && doubt.contains("; next: "), "{doubt}");
            }
        }
        check(Noise::default(), 1000, &[]);
        check(Noise { steal: 0.5, others: 0.5, ..Noise::default() }, 10, &[]);
        check(Noise { steal: 0.02, others: 0.2, ..Noise::default() }, 1000, &["steal", "20 %"]);
        check(Noise { frequency_mhz: Some((1200, 3400)), ..Noise::default() }, 1000, &["1200 to 3400"]);
        check(Noise { frequency_mhz: Some((3300, 3400)), ..Noise::default() }, 1000, &[]);
    }

    #[test]
    fn ticks_include_time_of_this_process() {
        let before = ticks_of("self");
        let start = Instant::now();
        while ticks_of("self") == before {
            assert!(start.elapsed() < Duration::from_secs(20), "no tick of this process in 20 s of work");
        }
    }
}
