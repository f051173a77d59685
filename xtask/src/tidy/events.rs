//! Every info event of the broker has a row in the documentation of the log, and every row has an
//! event.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::shape::is_test_item;
use super::{Complaint, Source};

const PAGE: &str = "docs/operating/logs.md";

/// Level of the rows that are compared.
const LEVEL: &str = "| info |";

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let Some(page) = sources.iter().find(|source| source.path == Path::new(PAGE)) else { return Vec::new() };
    let (rows, mut complaints) = (rows(page), Vec::new());
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        let Ok(file) = syn::parse_file(&source.text) else { continue };
        let mut events = Events::default();
        events.visit_file(&file);
        for (line, message) in events.found {
            if !rows.iter().any(|(_, row)| is_of(row, &message)) {
                complaints
                    .push(source.complaint(line, format!("the event {message:?} has no row in {PAGE}")));
            }
            found.push(message);
        }
    }
    for (line, row) in &rows {
        if !found.iter().any(|message| is_of(row, message)) {
            complaints.push(page.complaint(*line, format!("no info event of the broker is {row:?}")));
        }
    }
    complaints
}

fn is_product(source: &Source) -> bool {
    let in_crate = super::BROKER.iter().any(|name| source.path.starts_with(Path::new("crates").join(name)));
    in_crate && source.has_extension("rs") && !source.is_test()
}

/// The messages in the first column of rows about info events, with their lines.
fn rows(page: &Source) -> Vec<(usize, String)> {
    let lines = (1..).zip(page.text.lines());
    let rows = lines.filter(|(_, line)| line.starts_with("| `") && line.contains(LEVEL));
    rows.flat_map(|(number, line)| {
        let column = line.split(" | ").next().unwrap_or_default();
        let messages = column.split('`').skip(1).step_by(2).map(str::to_string);
        messages.map(move |message| (number, message)).collect::<Vec<_>>()
    })
    .collect()
}

/// True if the row names this message; a placeholder of the message matches any text.
fn is_of(row: &str, message: &str) -> bool {
    let Some((start, rest)) = message.split_once('{') else { return row == message };
    let end = rest.split_once('}').map_or("", |(_, end)| end);
    let end = end.split('{').next().unwrap_or_default();
    let start = start.trim_end_matches(": ");
    row.starts_with(start) && row.ends_with(end)
}

/// Messages of info events outside of tests, with their lines.
#[derive(Default)]
struct Events {
    found: Vec<(usize, String)>,
}

impl<'ast> Visit<'ast> for Events {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_macro(&mut self, node: &'ast syn::Macro) {
        let name = node.path.segments.last().map(|segment| segment.ident.to_string());
        match name.as_deref() {
            Some("info" | "log_change") => self.take(node.tokens.clone()),
            // The events of other macros' arguments.
            _ => self.search(node.tokens.clone()),
        }
        visit::visit_macro(self, node);
    }
}

impl Events {
    /// Takes the message of an event: the argument that is a text. An event with a separate target
    /// is not part of the log.
    fn take(&mut self, tokens: TokenStream) {
        let mut is_first = true;
        for token in tokens {
            match &token {
                TokenTree::Ident(word) if is_first && word == "target" => return,
                TokenTree::Literal(literal) if is_first => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.found.push((literal.span().start().line, text.value()));
                        return;
                    }
                }
                _ => {}
            }
            is_first = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == ',');
        }
    }

    /// Searches for `info!(…)` within the arguments of another macro.
    fn search(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let TokenTree::Group(group) = token else { continue };
            let before = at.checked_sub(2).and_then(|at| tokens.get(at));
            match before {
                Some(TokenTree::Ident(word)) if word == "info" || word == "log_change" => {
                    self.take(group.stream());
                }
                _ => self.search(group.stream()),
            }
        }
    }
}
