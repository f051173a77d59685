//! The field of a JSON text at which an error is.

/// The error with the field's path instead of line and column.
pub(super) fn explained(json: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let path = path(json, offset(json, error.line(), error.column()));
    if path.is_empty() { text.to_owned() } else { format!("{path}: {text}") }
}

/// The offset of a line and a column, both from 1 on.
fn offset(json: &str, line: usize, column: usize) -> usize {
    let before = json.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    (before + column).min(json.len())
}

/// One bracket that is open: the key in an object, or the index in an array.
enum Step {
    Key(String),
    Index(usize),
}

/// Path of the value that is open, or has just ended, at an offset.
fn path(json: &str, end: usize) -> String {
    let mut steps: Vec<Step> = Vec::new();
    let (mut string, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for (at, letter) in json.char_indices() {
        if at >= end {
            break;
        }
        if is_quoted {
            if letter == '"' && !is_escaped {
                is_quoted = false;
            } else {
                string.push(letter);
            }
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            '"' => {
                is_quoted = true;
                string.clear();
            }
            '{' => steps.push(Step::Key(String::new())),
            '[' => steps.push(Step::Index(0)),
            '}' | ']' => drop(steps.pop()),
            ':' => {
                if let Some(Step::Key(key)) = steps.last_mut() {
                    *key = std::mem::take(&mut string);
                }
            }
            ',' => {
                string.clear();
                match steps.last_mut() {
                    Some(Step::Index(index)) => *index += 1,
                    Some(Step::Key(key)) => key.clear(),
                    None => {}
                }
            }
            _ => {}
        }
    }
    if let Some(Step::Key(key)) =
        steps.last_mut().filter(|step| matches!(step, Step::Key(key) if key.is_empty()))
    {
        // The error is in the name of a field.
        *key = string;
    }
    written(steps)
}

fn written(steps: Vec<Step>) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(key) if key.is_empty() => {}
            Step::Key(key) if path.is_empty() => path = key,
            Step::Key(key) => path = format!("{path}.{key}"),
            Step::Index(index) => path = format!("{path}[{index}]"),
        }
    }
    path
}
