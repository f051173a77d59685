//! The text form that Kafka's checkpoint files share: a version, a count, then that many lines.

use std::io;
use std::path::Path;

use crate::LogError;
use crate::disk::Disk;

const VERSION: &str = "0";

/// The lines of a checkpoint whose head has been checked.
pub(crate) struct Lines<'a>(std::str::Lines<'a>);

impl<'a> Lines<'a> {
    /// Checks version and count, and that the last line is terminated: otherwise its last number
    /// may lack digits.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        let mut lines = text.lines();
        let version = lines.next().unwrap_or_default().trim();
        if version != VERSION {
            return Err(format!("version is {version:?}, not {VERSION}"));
        }
        let count = lines.next().and_then(|line| line.trim().parse::<usize>().ok());
        let count = count.ok_or("the second line is not a count")?;
        let have = lines.clone().filter(|line| !line.trim().is_empty()).count();
        if have != count {
            return Err(format!("{count} entries are announced and {have} are there"));
        }
        Ok(Lines(lines))
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.by_ref().find(|line| !line.trim().is_empty())
    }
}

/// Contents of a whole checkpoint file.
pub(crate) fn render(entries: impl ExactSizeIterator<Item = String>) -> String {
    let mut text = format!("{VERSION}\n{}\n", entries.len());
    for entry in entries {
        text.push_str(&entry);
        text.push('\n');
    }
    text
}

/// The text of a file; `None` if there is no such file, or it has no content: a crash of the
/// machine can leave a file that is empty or contains zeros.
///
/// # Errors
/// Same as [`read_text`].
pub fn read_content(disk: &dyn Disk, path: &Path) -> Result<Option<String>, LogError> {
    Ok(read_text(disk, path)?.filter(|text| text.bytes().any(|byte| byte != 0)))
}

/// The text of a file; `None` if there is no such file.
///
/// # Errors
/// A failing disk, or bytes that are not text.
pub fn read_text(disk: &dyn Disk, path: &Path) -> Result<Option<String>, LogError> {
    match disk.read_file(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| LogError::corrupt(path, "not text")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LogError::io("read", path, error)),
    }
}
