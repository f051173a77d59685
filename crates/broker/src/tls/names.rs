//! Names of certificates: the subject in Java's form, and the rules that map it to a principal.

use std::collections::BTreeSet;

use regex::Regex;
use x509_parser::asn1_rs::ToDer;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::x509::AttributeTypeAndValue;

/// The subject of a certificate in the form of RFC 2253, as `X500Principal.getName` gives it.
/// `None` if the certificate is broken.
pub fn subject(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(distinguished_name(certificate.subject()))
}

/// Names in a client certificate that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedName {
    /// The subject's distinguished name in the form of RFC 2253, as Java writes it.
    pub(crate) distinguished: String,
    /// The name of the principal, by `ssl.principal.mapping.rules`: the part after `User:`.
    pub(crate) principal: String,
}

/// Names in a broker's certificate: its subject, and its alternative names.
#[derive(Clone, Debug)]
pub struct Names {
    subject: String,
    others: BTreeSet<String>,
}

impl Names {
    /// Names of a certificate; `None` if the certificate cannot be parsed.
    pub fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let others = certificate.subject_alternative_name().ok()?;
        let others = others.iter().flat_map(|others| &others.value.general_names).map(ToString::to_string);
        Some(Self { subject: distinguished_name(certificate.subject()), others: others.collect() })
    }

    /// True if they may follow `before` while the broker runs, as in Kafka: the same subject unless
    /// `ssl.allow.dn.changes`, and no other name missing unless `ssl.allow.san.changes`.
    ///
    /// # Errors
    /// The key that would allow it, and why not.
    pub fn follow(
        &self,
        before: &Self,
        allowed: impl Fn(&str) -> bool,
    ) -> Result<(), (&'static str, String)> {
        const DN: &str = "ssl.allow.dn.changes";
        const SAN: &str = "ssl.allow.san.changes";
        if self.subject != before.subject && !allowed(DN) {
            let (old, new) = (&before.subject, &self.subject);
            return Err((
                DN,
                format!("Keystore DistinguishedName does not match: existing={old}, new={new}"),
            ));
        }
        if !self.others.is_superset(&before.others) && !allowed(SAN) {
            let (old, new) = (&before.others, &self.others);
            return Err((
                SAN,
                format!("Keystore SubjectAltNames do not match: existing={old:?}, new={new:?}"),
            ));
        }
        Ok(())
    }
}

fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts: Vec<String> =
        name.iter_rdn().map(|rdn| rdn.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

/// The types that RFC 2253 has words for. Others are written as numbers, with their value in
/// hexadecimal.
const WORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let kind = attribute.attr_type().to_id_string();
    let word = WORDS.iter().find(|(number, _)| *number == kind).map(|(_, word)| *word);
    match (word, attribute.as_str()) {
        (Some(word), Ok(text)) => format!("{word}={}", escaped(text)),
        _ => {
            let mut text = format!("{}=#", word.unwrap_or(&kind));
            // The value as in a certificate: a parsed value can be encoded.
            let value = attribute.attr_value().to_der_vec().unwrap_or_default();
            value.iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
            text
        }
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let blank_front = text.len() - text.trim_start_matches(' ').len();
    let blank_end = text.trim_end_matches(' ').len();
    for (at, character) in text.char_indices() {
        let blank = character == ' ' && (at < blank_front || at >= blank_end);
        if blank || ",+<>;\"\\=#".contains(character) {
            escaped.push('\\');
        }
        match character {
            '\0' => escaped.push_str("\\00"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// `ssl.principal.mapping.rules`: the first rule that matches a name determines the principal.
#[derive(Clone, Debug)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug)]
enum Rule {
    /// The whole distinguished name, unchanged.
    Default,
    /// A name that the pattern fits as a whole.
    Replace { pattern: Regex, with: String, case: Case },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Kept,
    Lower,
    Upper,
}

impl Rules {
    /// Reads rules as Kafka writes them: `RULE:pattern/replacement/`, then `L` or `U` if the name
    /// is to be in small letters or capitals, or `DEFAULT`; separated by commas.
    ///
    /// # Errors
    /// The first rule that is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (rule, after) = Rule::parse(rest)?;
            rules.push(rule);
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(next) => next.trim_start(),
                None if after.is_empty() => "",
                None => return Err(format!("a comma is missing before {after:?}")),
            };
        }
        Ok(Self(if rules.is_empty() { vec![Rule::Default] } else { rules }))
    }

    /// The principal's name; none if no rule fits, and then this certificate cannot authenticate.
    pub fn principal(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|rule| rule.apply(name))
    }
}

impl Rule {
    fn parse(text: &str) -> Result<(Self, &str), String> {
        if let Some(after) = text.strip_prefix("DEFAULT") {
            return Ok((Self::Default, after));
        }
        let wrong = || format!("{text:?} is not a rule; write RULE:pattern/replacement/ or DEFAULT");
        let body = text.strip_prefix("RULE:").ok_or_else(wrong)?;
        let (pattern, rest) = until_slash(body).ok_or_else(wrong)?;
        let (with, rest) = until_slash(rest).ok_or_else(wrong)?;
        let (case, rest) = match rest.as_bytes().first() {
            Some(b'L') => (Case::Lower, &rest[1..]),
            Some(b'U') => (Case::Upper, &rest[1..]),
            _ => (Case::Kept, rest),
        };
        // The pattern alone first: a stray parenthesis must not find its partner outside.
        let compiled = Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$")));
        let pattern = compiled
            .map_err(|error| format!("the pattern {pattern:?} is not a regular expression: {error}"))?;
        let with = replacement(with, pattern.captures_len());
        Ok((Self::Replace { pattern, with, case }, rest))
    }

    fn apply(&self, name: &str) -> Option<String> {
        let Self::Replace { pattern, with, case } = self else { return Some(name.to_owned()) };
        let mut made = String::new();
        pattern.captures(name)?.expand(with, &mut made);
        Some(match case {
            Case::Kept => made,
            Case::Lower => made.to_lowercase(),
            Case::Upper => made.to_uppercase(),
        })
    }
}

/// The text before the next slash that no backslash escapes, and the text after it.
fn until_slash(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            '/' if !escaped => return Some((&text[..at], &text[at + 1..])),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// Converts Java's `$1` to the regex crate's form; a missing group stays as text, as in Kafka.
fn replacement(text: &str, groups: usize) -> String {
    let mut made = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => made.extend(
                characters.next().map(|next| if next == '$' { "$$".to_owned() } else { next.to_string() }),
            ),
            '$' => match characters.peek().and_then(|digit| digit.to_digit(10)) {
                Some(group) if (group as usize) < groups => {
                    characters.next();
                    made.push_str(&format!("${{{group}}}"));
                }
                _ => made.push_str("$$"),
            },
            other => made.push(other),
        }
    }
    made
}

#[cfg(test)]
mod tests;
