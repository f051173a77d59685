//! A Kafka Streams application that counts words exactly once, the words that were written for it,
//! and the counts that it has committed.

use std::collections::HashMap;
use std::path::Path;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::Tool;

/// Topics of the lines that the application reads, and of the counts that it writes.
pub const TOPICS: [&str; 2] = [LINES, COUNTS];
const LINES: &str = "lines";
const COUNTS: &str = "counts";

const WORDS: [&str; 12] =
    ["the", "water", "runs", "by", "gravity", "alone", "nothing", "is", "lifted", "across", "a", "mountain"];
const WORDS_PER_LINE: usize = 4;

/// Words that were written.
pub struct Words {
    random: StdRng,
    written: HashMap<&'static str, usize>,
}

impl Words {
    /// A state without words.
    pub fn new(random: StdRng) -> Self {
        Self { random, written: HashMap::new() }
    }

    /// Draws a line to write.
    pub fn line(&mut self) -> String {
        let words: Vec<&str> =
            (0..WORDS_PER_LINE).map(|_| WORDS[self.random.random_range(0..WORDS.len())]).collect();
        words.iter().for_each(|word| *self.written.entry(word).or_default() += 1);
        words.join(" ")
    }

    /// Number of words in all lines.
    pub fn len(&self) -> usize {
        self.written.values().sum()
    }

    /// True if no line has been drawn.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Fails unless each word was counted once each time that it was written.
    pub fn assert_counted(&self, counts: &[(String, usize)]) {
        let mut reached: HashMap<&str, usize> = HashMap::new();
        for (word, count) in counts {
            let last = reached.entry(word).or_default();
            assert_eq!(*count, *last + 1, "{word} after {last}");
            *last = *count;
        }
        assert_eq!(reached, self.written);
    }
}

/// The application; `state` is the directory of its state.
pub fn application(bootstrap: &str, state: &Path) -> Tool {
    application_at("OFF", bootstrap, state)
}

/// The application with its log from this level on.
pub fn application_at(level: &str, bootstrap: &str, state: &Path) -> Tool {
    let mut tool = Tool::own_java_at(level, "WordCount");
    tool.args([bootstrap, &state.display().to_string(), "num.stream.threads=2"]);
    tool
}

/// The process that writes the lines of its standard input, each once and in order.
pub fn writer(bootstrap: &str) -> Tool {
    let mut tool = Tool::python("produce_lines.py");
    tool.args([bootstrap, LINES]);
    tool
}

/// The counts as a reader of committed records sees them, in order.
pub fn counts(bootstrap: &str) -> Vec<(String, usize)> {
    let said = reader(bootstrap).run().stdout;
    let count = |line: &str| {
        let (word, count) = line.split_once(' ')?;
        Some((word.to_string(), count.parse().ok()?))
    };
    said.lines().map(|line| count(line).unwrap_or_else(|| panic!("a word and a number: {line}"))).collect()
}

/// Number of counts that a reader gets to, which are not all of them if a broker is absent.
pub fn counted(bootstrap: &str) -> usize {
    reader(bootstrap).outcome().1.stdout.lines().count()
}

fn reader(bootstrap: &str) -> Tool {
    let mut kcat = Tool::kcat();
    kcat.args(["-C", "-b", bootstrap, "-t", COUNTS, "-e", "-q"]);
    kcat.args(["-X", "isolation.level=read_committed", "-s", "value=>q", "-f", "%k %s\n"]);
    kcat
}
