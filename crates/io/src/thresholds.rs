//! The sizes that the plan and the engine turn on, and the file that keeps those of one machine:
//! `key=value` lines, written by `levada lab calibrate` and loaded by the owner of an engine.
//!
//! Every key may be left out: its default holds then. A key that is unknown or repeated, or a value
//! that is not a number or out of range, is an error that names the line: a threshold that is
//! silently not in force would be looked for in the wrong place.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The sizes by which the plan and the engine choose paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Extents up to this size are copied and leave together with their neighbours.
    pub small_extent_bytes: u64,
    /// Maximum size of a read into memory, at least one small extent; each engine owns one buffer
    /// of this size.
    pub copy_bytes: usize,
    /// The requested size of a pipe.
    pub pipe_bytes: usize,
    /// Smallest useful size of a pipe: a smaller one is no better than `sendfile`'s internal one
    /// and is not used.
    pub pipe_floor_bytes: usize,
    /// Number of pipes one engine may have.
    pub pipes: usize,
    /// Memory from this size on is sent by reference, where the route does not copy.
    pub zero_copy_send_bytes: usize,
    /// Registered buffers from this size on are sent by reference, where the route does not copy.
    pub registered_send_bytes: usize,
    /// Bytes of an extent whose residency is checked in one call when cold pages are reported,
    /// rounded up to whole pages.
    pub cold_window_bytes: u64,
}

impl Thresholds {
    /// Defaults without a measurement.
    pub const DEFAULT: Self = Self {
        small_extent_bytes: 16 << 10,
        copy_bytes: 128 << 10,
        pipe_bytes: 1 << 20,
        pipe_floor_bytes: 128 << 10,
        pipes: 32,
        zero_copy_send_bytes: 16 << 10,
        registered_send_bytes: 4 << 10,
        cold_window_bytes: 1 << 20,
    };
}

const _: () = {
    let default = Thresholds::DEFAULT;
    assert!(default.small_extent_bytes <= default.copy_bytes as u64, "a small extent fits into the buffer");
    assert!(default.pipe_floor_bytes <= default.pipe_bytes, "a pipe of the size asked for is used");
    assert!(default.registered_send_bytes <= default.zero_copy_send_bytes, "pinned buffers cost less");
};

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The sizes that a calibration can set, by field name.
const KEYS: [Key; 4] = [
    Key {
        name: "small_extent_bytes",
        // One small extent must fit into the buffer for copying.
        range: (0, 128 << 10),
        read: |thresholds| thresholds.small_extent_bytes,
        write: |thresholds, bytes| thresholds.small_extent_bytes = bytes,
    },
    Key {
        name: "pipe_bytes",
        range: (4 << 10, 64 << 20),
        read: |thresholds| thresholds.pipe_bytes as u64,
        write: |thresholds, bytes| thresholds.pipe_bytes = size(bytes),
    },
    Key {
        name: "zero_copy_send_bytes",
        range: (256, 64 << 20),
        read: |thresholds| thresholds.zero_copy_send_bytes as u64,
        write: |thresholds, bytes| thresholds.zero_copy_send_bytes = size(bytes),
    },
    Key {
        name: "registered_send_bytes",
        range: (256, 64 << 20),
        read: |thresholds| thresholds.registered_send_bytes as u64,
        write: |thresholds, bytes| thresholds.registered_send_bytes = size(bytes),
    },
];

/// One line of the file.
struct Key {
    name: &'static str,
    /// Smallest and largest valid value, bytes.
    range: (u64, u64),
    read: fn(&Thresholds) -> u64,
    write: fn(&mut Thresholds, u64),
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The reason why a file with thresholds is not used.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The file cannot be read.
    #[error("cannot read the thresholds in {}: {cause}", path.display())]
    Unreadable {
        /// File that cannot be read.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// A line is wrong.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// File with the line.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The key and the error.
        what: String,
    },
}

impl Thresholds {
    /// Thresholds of a file, and the defaults for missing keys.
    ///
    /// # Errors
    /// The file cannot be read, or one of its lines is wrong.
    pub fn load(path: &Path) -> Result<Self, CalibrationError> {
        let text = fs::read_to_string(path)
            .map_err(|cause| CalibrationError::Unreadable { path: path.to_owned(), cause })?;
        Self::parse(&text).map_err(|(line, what)| CalibrationError::Line {
            path: path.to_owned(),
            line,
            what,
        })
    }

    /// The sizes that a machine can be calibrated for, by name, in bytes.
    pub fn calibrated(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KEYS.iter().map(|key| (key.name, (key.read)(self)))
    }

    /// The text of a file with these thresholds. Each line of `head` becomes a comment.
    pub fn to_text(&self, head: &str) -> String {
        let mut text = String::new();
        for line in head.lines() {
            text.push_str(format!("# {line}").trim_end());
            text.push('\n');
        }
        for (name, bytes) in self.calibrated() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}={bytes}");
        }
        text
    }

    /// The thresholds of a text, or the error and its line.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut thresholds = Self::default();
        let mut seen = [false; KEYS.len()];
        for (index, line) in text.lines().enumerate() {
            let (line, wrong) = (line.trim(), |what: String| (index + 1, what));
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) =
                line.split_once('=').ok_or_else(|| wrong(format!("expected key=value, found {line:?}")))?;
            let (name, value) = (name.trim(), value.trim());
            let known = KEYS.iter().zip(&mut seen).find(|(key, _)| key.name == name);
            let Some((key, seen)) = known else {
                let names = KEYS.map(|key| key.name).join(", ");
                return Err(wrong(format!("unknown key {name:?}; there are {names}")));
            };
            if std::mem::replace(seen, true) {
                return Err(wrong(format!("{name} is there twice")));
            }
            let (least, most) = key.range;
            let bytes = value.parse().ok().filter(|bytes| (least..=most).contains(bytes));
            let bytes = bytes
                .ok_or_else(|| wrong(format!("{name} must be {least} to {most} bytes, and is {value:?}")))?;
            (key.write)(&mut thresholds, bytes);
        }
        // Otherwise no pipe would be large enough.
        thresholds.pipe_floor_bytes = thresholds.pipe_floor_bytes.min(thresholds.pipe_bytes);
        Ok(thresholds)
    }
}

/// Default paths of the file of thresholds, in this order: the user's, then the machine's.
pub fn default_files() -> Vec<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(absolute);
    let home = || std::env::home_dir().filter(absolute).map(|home| home.join(".config"));
    let user = named.or_else(home).map(|dir| dir.join("levada/thresholds"));
    user.into_iter().chain([PathBuf::from("/etc/levada/thresholds")]).collect()
}

#[cfg(test)]
mod tests;
