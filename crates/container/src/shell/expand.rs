//! Expansion of words: variables and the output of commands replace their names.

use super::lexer::{Part, Word};
use super::run::Shell;
use crate::failure::Failure;

impl Shell {
    /// The texts of words. Values of unquoted variables are split at white space, and an unquoted
    /// empty value is no word.
    pub(super) fn texts(&mut self, words: &[Word]) -> Result<Vec<String>, Failure> {
        let mut texts = Vec::new();
        for word in words {
            texts.extend(self.fields(word)?);
        }
        Ok(texts)
    }

    /// The text of a word that stays one word, such as the value of an assignment.
    pub(super) fn text(&mut self, word: &Word) -> Result<String, Failure> {
        let mut text = String::new();
        for part in word {
            text.push_str(&self.value(part)?);
        }
        Ok(text)
    }

    fn fields(&mut self, word: &Word) -> Result<Vec<String>, Failure> {
        let mut fields: Vec<String> = Vec::new();
        // True if the next text continues the last field.
        let mut is_open = false;
        for part in word {
            let value = self.value(part)?;
            let is_whole = match part {
                Part::Text(_) => true,
                Part::Variable { is_quoted, .. } | Part::Output { is_quoted, .. } => *is_quoted,
            };
            if is_whole {
                match fields.last_mut().filter(|_| is_open) {
                    Some(field) => field.push_str(&value),
                    None => fields.push(value),
                }
                is_open = true;
                continue;
            }
            is_open &= !value.starts_with(char::is_whitespace);
            for piece in value.split_whitespace() {
                match fields.last_mut().filter(|_| is_open) {
                    Some(field) => field.push_str(piece),
                    None => fields.push(piece.to_owned()),
                }
                is_open = false;
            }
            is_open = !value.is_empty() && !value.ends_with(char::is_whitespace);
        }
        Ok(fields)
    }

    fn value(&mut self, part: &Part) -> Result<String, Failure> {
        match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Variable { name, default, .. } => {
                let value = self.variable(name).filter(|value| default.is_none() || !value.is_empty());
                Ok(value.or_else(|| default.clone()).unwrap_or_default())
            }
            Part::Output { script, .. } => {
                let script = super::parser::parse(script)?;
                Ok(self.output(&script)?.trim_end_matches('\n').to_owned())
            }
        }
    }
}
