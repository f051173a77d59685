//! JSON text of a bounded length.

use std::io;

/// JSON that grows up to a limit.
#[derive(Debug)]
pub(crate) struct JsonText {
    text: String,
    most: usize,
}

/// The text would exceed its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl JsonText {
    /// An empty text, which grows to at most this many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { text: String::new(), most }
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }

    /// Appends JSON.
    pub(crate) fn push(&mut self, json: &str) -> Result<(), TooLong> {
        if self.text.len() + json.len() > self.most {
            return Err(TooLong);
        }
        self.text.push_str(json);
        Ok(())
    }

    /// Appends a string with quotes and escapes.
    pub(crate) fn push_string(&mut self, string: &str) -> Result<(), TooLong> {
        if self.text.len() + string.len() + 2 > self.most {
            return Err(TooLong);
        }
        self.push(&quoted(string))
    }
}

impl io::Write for JsonText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let json = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.push(json).map_err(|TooLong| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A string as JSON.
pub(crate) fn quoted(string: &str) -> String {
    serde_json::Value::from(string).to_string()
}

/// JSON without the space between its tokens: one line.
pub(crate) fn compact(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for letter in json.chars() {
        if !is_quoted && letter.is_ascii_whitespace() {
            continue;
        }
        text.push(letter);
        if letter == '"' && !is_escaped {
            is_quoted = !is_quoted;
        }
        is_escaped = is_quoted && !is_escaped && letter == '\\';
    }
    text
}
