//! Other activity of the machine during a measurement, and its effect on the reliability of the
//! result.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Disturbances of an experiment. Shares are of all processors' time, from 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Time that the hypervisor gave to other machines.
    pub steal: f64,
    /// Time of processes of this machine that are not ours.
    pub others: f64,
    /// The share of the time in which a task waited for a processor (`/proc/pressure/cpu`); it may
    /// have been ours.
    pub waiting: Option<f64>,
    /// The lowest and highest frequency seen, in MHz, where the machine shows it.
    pub frequency_mhz: Option<(u64, u64)>,
    /// The reason why the result is not to be trusted; empty if there is no reason.
    pub doubts: Vec<String>,
}

/// More than this and figures are doubtful.
const STEAL: f64 = 0.01;
const OTHERS: f64 = 0.05;

/// Observes the machine from this time on.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    before: Ticks,
    /// In ticks.
    ours: u64,
    waited: Option<Duration>,
    frequency: Option<(u64, u64)>,
}

impl Watch {
    /// Starts.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            before: Ticks::now().unwrap_or_default(),
            ours: ticks_of("self"),
            waited: waited(),
            frequency: frequency_mhz(),
        }
    }

    /// Looks again; call it now and then, frequencies come and go.
    pub fn look(&mut self) {
        self.frequency = match (self.frequency, frequency_mhz()) {
            (Some(seen), Some(now)) => Some((seen.0.min(now.0), seen.1.max(now.1))),
            (seen, now) => seen.or(now),
        };
    }

    /// Values until now.
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
        // Below that many ticks (10 ms each) shares are made of nothing.
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

/// The first line of `/proc/stat`, in ticks.
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
        // user nice system idle iowait irq softirq steal; guests are part of user.
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else { return None };
        let busy = user + nice + system + irq + softirq;
        Some(Self { total: busy + idle + iowait + steal, busy, steal })
    }

    /// Ticks since then.
    fn since(&self, before: &Self) -> Self {
        Self {
            total: self.total.saturating_sub(before.total),
            busy: self.busy.saturating_sub(before.busy),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    /// The share of all processors' time, which these ticks are of: also if this process may use a
    /// few of the processors only.
    fn share(&self, ticks: u64) -> f64 {
        if self.total == 0 { 0.0 } else { ticks as f64 / self.total as f64 }
    }
}

/// Processor time of a process and its descendants, running or ended, in ticks.
fn ticks_of(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name in brackets; utime, stime, cutime and cstime (children that have ended) are
    // the fields 14 to 17 of the line.
    let fields = text.rsplit(") ").next().unwrap_or_default().split_whitespace().skip(11).take(4);
    let own: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let of_children = |list: String| -> u64 { list.split_whitespace().map(ticks_of).sum() };
    own + children.map(of_children).sum::<u64>()
}

/// Time that tasks waited for a processor, since the machine's start.
fn waited() -> Option<Duration> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    Some(Duration::from_micros(some.rsplit_once("total=")?.1.trim().parse().ok()?))
}

/// The lowest and the highest of the processors' frequencies.
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
    fn ticks_are_told_apart() {
        let ticks = Ticks::parse("cpu  10 1 20 300 5 2 3 4 9 9\ncpu0 1 2 3\n").unwrap();
        assert_eq!((ticks.total, ticks.busy, ticks.steal), (345, 36, 4));
        assert!(Ticks::parse("intr 1").is_none());
        assert!(Ticks::parse("cpu 1 2").is_none());
    }

    #[test]
    fn other_load_counts_across_all_processors() {
        // Ten seconds of 64 processors; ours had two of them, and another process had four.
        let spent = Ticks { total: 64_000, busy: 6_000, steal: 0 };
        let ours = 2_000;
        assert_eq!(spent.share(spent.busy - ours), 4_000.0 / 64_000.0);
        assert_eq!(Ticks::default().share(0), 0.0);
    }

    #[test]
    fn doubts_have_reasons() {
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
    fn our_own_time_is_counted() {
        let before = ticks_of("self");
        let start = Instant::now();
        while ticks_of("self") == before {
            assert!(start.elapsed() < Duration::from_secs(20), "no tick of our own in 20 s of work");
        }
    }
}
