//! Parser of scripts: from words and operators to commands.

use super::lexer::{Kind, Located, Part, Token, Word, tokens, unsupported};
use crate::failure::Failure;

/// Commands, one after the other.
pub(crate) type Script = Vec<Chain>;

/// A command, and the commands that run depending on the status before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) first: Command,
    /// True for `&&`, false for `||`.
    pub(crate) rest: Vec<(bool, Command)>,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Simple(Simple),
    /// `! COMMAND`
    Not(Box<Self>),
    /// `while` if the flag is true, `until` otherwise.
    Loop(bool, Script, Script),
    /// `if … then …`, with `elif` as an `if` in `else`.
    If(Script, Script, Script),
    /// `for NAME in WORDS`
    For(String, Vec<Word>, Script),
}

/// Assignments, a program with its arguments, and redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<(String, Word)>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) line: usize,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    File { descriptor: u8, kind: Kind, path: Word },
    Copy { descriptor: u8, of: u8 },
}

/// Reserved words that no construct of this shell has.
const OTHERS: [&str; 7] = ["case", "esac", "function", "select", "{", "}", "[["];

/// Reads a whole script.
pub(crate) fn parse(text: &str) -> Result<Script, Failure> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let script = parser.script(&[])?;
    match parser.tokens.get(parser.at) {
        None => Ok(script),
        Some((_, line)) => Err(Failure::usage(format!("line {line}: a word without its command"))),
    }
}

struct Parser {
    tokens: Vec<Located>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    /// The next token, if it is a word without quotes and variables.
    fn reserved(&self) -> Option<&str> {
        match self.peek()? {
            Token::Word(parts) => match parts.as_slice() {
                [Part::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), Failure> {
        if self.reserved() == Some(word) {
            self.at += 1;
            return Ok(());
        }
        Err(Failure::usage(format!("line {}: expected {word}", self.line())))
    }

    /// Reads commands up to one of these words, which stays.
    fn script(&mut self, ends: &[&str]) -> Result<Script, Failure> {
        let mut script = Script::new();
        loop {
            while self.peek() == Some(&Token::End) {
                self.at += 1;
            }
            let is_end = self.reserved().is_some_and(|word| ends.contains(&word));
            if is_end || self.peek().is_none() {
                return Ok(script);
            }
            script.push(self.chain()?);
            if !matches!(self.peek(), None | Some(Token::End)) {
                return Ok(script);
            }
        }
    }

    fn chain(&mut self) -> Result<Chain, Failure> {
        let mut chain = Chain { first: self.command()?, rest: Vec::new() };
        while let Some(token @ (Token::And | Token::Or)) = self.peek() {
            let is_and = *token == Token::And;
            self.at += 1;
            while self.peek() == Some(&Token::End) {
                self.at += 1;
            }
            chain.rest.push((is_and, self.command()?));
        }
        Ok(chain)
    }

    fn command(&mut self) -> Result<Command, Failure> {
        let line = self.line();
        match self.reserved() {
            Some("!") => {
                self.at += 1;
                Ok(Command::Not(Box::new(self.command()?)))
            }
            Some(word @ ("while" | "until")) => {
                let is_while = word == "while";
                self.at += 1;
                let condition = self.script(&["do"])?;
                Ok(Command::Loop(is_while, condition, self.body()?))
            }
            Some("if") => {
                self.at += 1;
                self.branches()
            }
            Some("for") => self.each(),
            Some(word) if OTHERS.contains(&word) => Err(unsupported(line, word)),
            _ => self.simple().map(Command::Simple),
        }
    }

    fn body(&mut self) -> Result<Script, Failure> {
        self.expect("do")?;
        let body = self.script(&["done"])?;
        self.expect("done")?;
        Ok(body)
    }

    /// The rest of an `if` or `elif`.
    fn branches(&mut self) -> Result<Command, Failure> {
        let condition = self.script(&["then"])?;
        self.expect("then")?;
        let then = self.script(&["else", "elif", "fi"])?;
        let line = self.line();
        let otherwise = match self.reserved() {
            Some("elif") => {
                self.at += 1;
                let inner = self.branches()?;
                return Ok(Command::If(condition, then, vec![Chain { first: inner, rest: Vec::new() }]));
            }
            Some("else") => {
                self.at += 1;
                self.script(&["fi"])?
            }
            Some(_) => Script::new(),
            None => return Err(Failure::usage(format!("line {line}: expected fi"))),
        };
        self.expect("fi")?;
        Ok(Command::If(condition, then, otherwise))
    }

    fn each(&mut self) -> Result<Command, Failure> {
        self.at += 1;
        let line = self.line();
        let name = self.reserved().map(str::to_owned);
        let name = name.ok_or_else(|| Failure::usage(format!("line {line}: expected a name after for")))?;
        self.at += 1;
        self.expect("in")?;
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.at += 1;
        }
        while self.peek() == Some(&Token::End) {
            self.at += 1;
        }
        Ok(Command::For(name, words, self.body()?))
    }

    fn simple(&mut self) -> Result<Simple, Failure> {
        let mut simple = Simple { line: self.line(), ..Simple::default() };
        let start = self.at;
        while let Some(token) = self.peek().cloned() {
            match token {
                Token::Word(word) => match assignment(&word).filter(|_| simple.words.is_empty()) {
                    Some(pair) => simple.assignments.push(pair),
                    None => simple.words.push(word),
                },
                Token::Copy { descriptor, of } => simple.redirects.push(Redirect::Copy { descriptor, of }),
                Token::Redirect { descriptor, kind } => {
                    self.at += 1;
                    let Some(Token::Word(path)) = self.peek().cloned() else {
                        return Err(Failure::usage(format!("line {}: expected a path", self.line())));
                    };
                    simple.redirects.push(Redirect::File { descriptor, kind, path });
                }
                Token::End | Token::And | Token::Or => break,
            }
            self.at += 1;
        }
        if self.at == start {
            return Err(Failure::usage(format!("line {}: expected a command", self.line())));
        }
        Ok(simple)
    }
}

/// Name and value of a word such as `NAME=value`.
pub(super) fn assignment(word: &Word) -> Option<(String, Word)> {
    let Some(Part::Text(first)) = word.first() else { return None };
    let (name, value) = first.split_once('=')?;
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value = [Part::Text(value.to_owned())].into_iter().chain(word[1..].iter().cloned()).collect();
    is_name.then(|| (name.to_owned(), value))
}
