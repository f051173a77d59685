//! JAAS configuration in the one-line form of Kafka's `sasl.jaas.config`:
//! `org.apache.kafka.…PlainLoginModule required username="admin" user_alice="secret";`

use std::collections::BTreeMap;
use std::fmt;

#[cfg(test)]
mod tests;

/// One login module with its options.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Jaas {
    /// Java class of the login module.
    pub module: String,
    /// The options as written.
    pub options: BTreeMap<String, String>,
}

impl fmt::Debug for Jaas {
    /// Omits the values of options, because they are passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jaas").field("module", &self.module).field("options", &self.options.keys()).finish()
    }
}

/// Fault of a JAAS configuration. Never repeats its text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("expected {expected} at character {at}")]
pub struct JaasError {
    /// Token that was expected.
    pub expected: &'static str,
    /// Position, in characters from 1.
    pub at: usize,
}

const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

impl Jaas {
    /// Reads a configuration with exactly one login module, as Kafka requires.
    ///
    /// # Errors
    /// The first place at which another token is expected.
    pub fn parse(text: &str) -> Result<Self, JaasError> {
        let mut tokens = Tokens::read(text)?;
        let module = tokens.word("the name of a login module")?;
        let flag = tokens.word("a control flag such as required")?;
        if !FLAGS.iter().any(|known| known.eq_ignore_ascii_case(&flag)) {
            return Err(tokens.before("a control flag such as required"));
        }
        let mut options = BTreeMap::new();
        loop {
            match tokens.next() {
                Some(Token::Mark(';')) => break,
                Some(Token::Word(name)) => {
                    tokens.mark('=', "= after the name of an option")?;
                    options.insert(name, tokens.word("the value of an option")?);
                }
                _ => return Err(tokens.before("an option or ;")),
            }
        }
        match tokens.next() {
            None => Ok(Self { module, options }),
            Some(_) => Err(tokens.before("the end (there can be one login module)")),
        }
    }

    /// The users that a PLAIN login module admits, with their passwords: its options `user_NAME`.
    pub fn plain_users(&self) -> BTreeMap<String, String> {
        let user = |(name, password): (&String, &String)| {
            Some((name.strip_prefix("user_")?.to_owned(), password.clone()))
        };
        self.options.iter().filter_map(user).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Mark(char),
}

/// Words, quoted texts and marks, each with its position.
struct Tokens {
    tokens: Vec<(Token, usize)>,
    at: usize,
    end: usize,
}

impl Tokens {
    fn read(text: &str) -> Result<Self, JaasError> {
        let mut tokens = Vec::new();
        let mut characters = text.chars().enumerate().peekable();
        let end = text.chars().count() + 1;
        while let Some((at, next)) = characters.next() {
            let token = match next {
                space if space.is_whitespace() => continue,
                '=' | ';' => Token::Mark(next),
                quote @ ('"' | '\'') => Token::Word(quoted(&mut characters, quote, at + 1)?),
                first => {
                    let mut word = String::from(first);
                    while let Some((_, more)) =
                        characters.next_if(|(_, more)| !more.is_whitespace() && !"=;\"'".contains(*more))
                    {
                        word.push(more);
                    }
                    Token::Word(word)
                }
            };
            tokens.push((token, at + 1));
        }
        Ok(Self { tokens, at: 0, end })
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).map(|(token, _)| token.clone());
        self.at += 1;
        token
    }

    fn word(&mut self, expected: &'static str) -> Result<String, JaasError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            _ => Err(self.before(expected)),
        }
    }

    fn mark(&mut self, mark: char, expected: &'static str) -> Result<(), JaasError> {
        match self.next() {
            Some(Token::Mark(found)) if found == mark => Ok(()),
            _ => Err(self.before(expected)),
        }
    }

    /// An error about the last token.
    fn before(&self, expected: &'static str) -> JaasError {
        let at = self.tokens.get(self.at - 1).map_or(self.end, |(_, at)| *at);
        JaasError { expected, at }
    }
}

/// The rest of a quoted text, with Java's escapes.
fn quoted(
    characters: &mut impl Iterator<Item = (usize, char)>,
    quote: char,
    begin: usize,
) -> Result<String, JaasError> {
    let mut text = String::new();
    while let Some((_, next)) = characters.next() {
        match next {
            end if end == quote => return Ok(text),
            '\\' => match characters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, other)) => text.push(other),
                None => break,
            },
            other => text.push(other),
        }
    }
    Err(JaasError { expected: "the end of the quoted text", at: begin })
}
