//! Words and operators of a script.

use std::iter::Peekable;
use std::str::Chars;

use crate::failure::Failure;

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text as it is.
    Text(String),
    /// `$NAME` or `${NAME}`, with the default of `${NAME:-DEFAULT}`.
    Variable { name: String, default: Option<String>, is_quoted: bool },
    /// `$(COMMANDS)`.
    Output { script: String, is_quoted: bool },
}

/// A word. An empty list of parts is an empty word, such as `""`.
pub(crate) type Word = Vec<Part>;

/// A token, and the kind of its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(Word),
    /// `;` or the end of a line.
    End,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `>`, `>>` and `<` with the descriptor; the target is the next word.
    Redirect {
        descriptor: u8,
        kind: Kind,
    },
    /// `2>&1` and the like: the descriptor becomes a copy of another.
    Copy {
        descriptor: u8,
        of: u8,
    },
}

/// Kind of a redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Append,
}

/// A token and its line, from 1.
pub(crate) type Located = (Token, usize);

/// Splits a script into tokens.
pub(crate) fn tokens(text: &str) -> Result<Vec<Located>, Failure> {
    let mut lexer = Lexer { rest: text.chars().peekable(), line: 1, found: Vec::new() };
    while lexer.token()? {}
    Ok(lexer.found)
}

/// A construct that the shell does not have.
pub(super) fn unsupported(line: usize, construct: &str) -> Failure {
    Failure::usage(format!(
        "line {line}: {construct} is not supported by the shell of this image (docs/operating/testing-with-levada.md)"
    ))
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    found: Vec<Located>,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn next_if(&mut self, expected: char) -> bool {
        let is_next = self.rest.peek() == Some(&expected);
        if is_next {
            self.next();
        }
        is_next
    }

    fn push(&mut self, token: Token) {
        self.found.push((token, self.line));
    }

    /// Reads one token or a piece of white space; false at the end.
    fn token(&mut self) -> Result<bool, Failure> {
        let Some(&next) = self.rest.peek() else { return Ok(false) };
        match next {
            ' ' | '\t' | '\r' => drop(self.next()),
            '\n' | ';' => {
                self.push(Token::End);
                self.next();
            }
            '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
            '&' => {
                self.next();
                if self.next_if('&') {
                    self.push(Token::And);
                } else {
                    return Err(unsupported(self.line, "a command in the background (&)"));
                }
            }
            '|' => {
                self.next();
                if self.next_if('|') {
                    self.push(Token::Or);
                } else {
                    return Err(unsupported(self.line, "a pipe (|)"));
                }
            }
            '>' | '<' => {
                let descriptor = u8::from(next == '>');
                self.redirect(descriptor)?;
            }
            '(' | ')' => return Err(unsupported(self.line, "a subshell or function")),
            '1' | '2' if self.is_descriptor() => {
                let descriptor = if self.next() == Some('1') { 1 } else { 2 };
                self.redirect(descriptor)?;
            }
            _ => {
                let word = self.word()?;
                self.push(Token::Word(word));
            }
        }
        Ok(true)
    }

    /// True if a digit is the descriptor of a redirection.
    fn is_descriptor(&self) -> bool {
        self.rest.clone().nth(1) == Some('>')
    }

    fn redirect(&mut self, descriptor: u8) -> Result<(), Failure> {
        let is_write = self.next() == Some('>');
        if !is_write {
            if self.rest.peek().is_some_and(|next| "<(&".contains(*next)) {
                return Err(unsupported(self.line, "a here-document"));
            }
            self.push(Token::Redirect { descriptor, kind: Kind::Read });
            return Ok(());
        }
        if self.next_if('&') {
            let of = self.next().and_then(|digit| u8::try_from(digit.to_digit(10)?).ok());
            let of = of.filter(|of| matches!(of, 1 | 2));
            let of = of.ok_or_else(|| unsupported(self.line, "this copy of a descriptor"))?;
            self.push(Token::Copy { descriptor, of });
        } else {
            let kind = if self.next_if('>') { Kind::Append } else { Kind::Write };
            self.push(Token::Redirect { descriptor, kind });
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Word, Failure> {
        let mut word = Word::new();
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '>' | '<' | '(' | ')' => break,
                '\'' => self.single(&mut word)?,
                '"' => self.double(&mut word)?,
                '\\' => {
                    self.next();
                    match self.next() {
                        // The line goes on.
                        Some('\n') | None => {}
                        Some(escaped) => text(&mut word, escaped),
                    }
                }
                '$' => self.dollar(&mut word, false)?,
                '`' => return Err(unsupported(self.line, "a command in backticks")),
                _ => {
                    self.next();
                    text(&mut word, next);
                }
            }
        }
        Ok(word)
    }

    fn single(&mut self, word: &mut Word) -> Result<(), Failure> {
        let start = self.line;
        self.next();
        word.push(Part::Text(String::new()));
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(other) => text(word, other),
                None => return Err(Failure::usage(format!("line {start}: ' has no end"))),
            }
        }
    }

    fn double(&mut self, word: &mut Word) -> Result<(), Failure> {
        let start = self.line;
        self.next();
        word.push(Part::Text(String::new()));
        while let Some(&next) = self.rest.peek() {
            match next {
                '"' => {
                    self.next();
                    return Ok(());
                }
                '$' => self.dollar(word, true)?,
                '`' => return Err(unsupported(self.line, "a command in backticks")),
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped) if "\\\"$`".contains(escaped) => text(word, escaped),
                        Some(other) => {
                            text(word, '\\');
                            text(word, other);
                        }
                    }
                }
                _ => {
                    self.next();
                    text(word, next);
                }
            }
        }
        Err(Failure::usage(format!("line {start}: \" has no end")))
    }

    /// Reads `$NAME`, `${NAME}`, `${NAME:-DEFAULT}`, `$?`, `$1` or `$(COMMANDS)`.
    fn dollar(&mut self, word: &mut Word, is_quoted: bool) -> Result<(), Failure> {
        self.next();
        match self.rest.peek().copied() {
            Some('(') => {
                let script = self.output()?;
                word.push(Part::Output { script, is_quoted });
            }
            Some('{') => {
                let line = self.line;
                let inner: String =
                    std::iter::from_fn(|| self.next().filter(|c| *c != '}')).skip(1).collect();
                let (name, default) = match inner.split_once(":-") {
                    Some((name, default)) => (name.to_owned(), Some(default.to_owned())),
                    None => (inner, None),
                };
                if name.is_empty() || !name.chars().all(is_of_name) {
                    return Err(unsupported(line, &format!("${{{name}}}")));
                }
                word.push(Part::Variable { name, default, is_quoted });
            }
            Some('?' | '@' | '0'..='9') => {
                let name = self.next().map(String::from).unwrap_or_default();
                word.push(Part::Variable { name, default: None, is_quoted });
            }
            Some(next) if is_of_name(next) => {
                let mut name = String::new();
                while let Some(next) = self.rest.next_if(|c| is_of_name(*c)) {
                    name.push(next);
                }
                word.push(Part::Variable { name, default: None, is_quoted });
            }
            _ => text(word, '$'),
        }
        Ok(())
    }

    /// The text between the parentheses of `$(…)`.
    fn output(&mut self) -> Result<String, Failure> {
        let start = self.line;
        self.next();
        if self.rest.peek() == Some(&'(') {
            return Err(unsupported(start, "arithmetic"));
        }
        let (mut script, mut depth, mut quote) = (String::new(), 1, None);
        while let Some(next) = self.next() {
            match (quote, next) {
                (Some(open), _) if next == open => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(next),
                (None, '(') => depth += 1,
                (None, ')') => depth -= 1,
                (None, _) => {}
            }
            if depth == 0 {
                return Ok(script);
            }
            script.push(next);
        }
        Err(Failure::usage(format!("line {start}: $( has no end")))
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn text(word: &mut Word, c: char) {
    match word.last_mut() {
        Some(Part::Text(text)) => text.push(c),
        _ => word.push(Part::Text(String::from(c))),
    }
}
