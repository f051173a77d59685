//! Division of a run into parts for several machines, `--part K/N`.

/// Expected seconds of the jobs that are not suites, on two processors and in parallel with others.
const JOBS: [(&str, u64); 8] = [
    ("virtual machine", 330),
    ("levada-broker", 170),
    ("lints", 120),
    ("packages", 60),
    ("starts of the image", 40),
    ("documentation", 40),
    ("documentation tests", 40),
    ("levada-cluster", 40),
];

/// Expected seconds of any other job.
const OTHER: u64 = 8;

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Index of the part, from 0.
    index: usize,
    count: usize,
}

impl Part {
    /// The only part of a run.
    pub(crate) const WHOLE: Self = Self { index: 0, count: 1 };

    /// Parses `2/3`: the second of three parts.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, count) = text.split_once('/')?;
        let (number, count): (usize, usize) = (number.parse().ok()?, count.parse().ok()?);
        (1..=count).contains(&number).then(|| Self { index: number - 1, count })
    }

    /// The items that belong to this part: each item, the longest first, goes to the part with the
    /// lowest sum so far. Depends on names and seconds only, so that every machine agrees.
    pub(crate) fn take<T>(self, items: Vec<T>, describe: impl Fn(&T) -> (String, u64)) -> Vec<T> {
        let mut items: Vec<(u64, String, T)> = items
            .into_iter()
            .map(|item| {
                let (name, seconds) = describe(&item);
                (seconds, name, item)
            })
            .collect();
        items.sort_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
        let mut loads = vec![0; self.count];
        let mut taken = Vec::new();
        for (seconds, _, item) in items {
            let least = (0..self.count).min_by_key(|index| loads[*index]).expect("a part");
            loads[least] += seconds;
            if least == self.index {
                taken.push(item);
            }
        }
        taken
    }
}

/// Expected seconds of a job that is no suite.
pub(crate) fn seconds(name: &str) -> u64 {
    JOBS.iter().find(|(job, _)| *job == name).map_or(OTHER, |(_, seconds)| *seconds)
}

#[cfg(test)]
mod tests;
