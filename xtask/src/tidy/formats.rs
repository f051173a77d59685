//! Every file that the product writes has a page in `docs/format/`.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::shape::is_test_item;
use super::{Complaint, Source};

/// Names (or endings) of files on disk, as string literals of the code spell them.
const FILES: [&str; 18] = [
    ".cleaned",
    ".deleted",
    ".index",
    ".kafka_cleanshutdown",
    ".log",
    ".snapshot",
    ".swap",
    ".timeindex",
    ".txnindex",
    "__cluster_metadata",
    "__consumer_offsets",
    "cleaner-offset-checkpoint",
    "leader-epoch-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
];

const PAGES: &str = "docs/format";

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let pages: Vec<&Source> = sources
        .iter()
        .filter(|source| source.path.starts_with(PAGES) && source.has_extension("md"))
        .collect();
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        let Ok(file) = syn::parse_file(&source.text) else { continue };
        let mut literals = Literals::default();
        literals.visit_file(&file);
        for (line, name) in literals.found {
            if !pages.iter().any(|page| page.text.contains(name)) {
                complaints.push(source.complaint(line, format!("{name} has no page in {PAGES}")));
            }
        }
    }
    complaints
}

fn is_product(source: &Source) -> bool {
    let in_crate = super::BROKER.iter().any(|name| source.path.starts_with(Path::new("crates").join(name)));
    in_crate && source.has_extension("rs") && !source.is_test()
}

#[derive(Default)]
struct Literals {
    found: Vec<(usize, &'static str)>,
}

impl Literals {
    fn literal(&mut self, line: usize, text: &str) {
        let named = |name: &&&'static str| {
            let before = text.strip_suffix(**name).map(|stem| stem.chars().last());
            let extension = before.is_some_and(|last| last.is_none_or(|c| c == '}' || c.is_ascii_digit()));
            let file = name.starts_with('.') && extension;
            file || !name.starts_with('.') && text.contains(**name)
        };
        self.found.extend(FILES.iter().find(named).map(|name| (line, *name)));
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    let line = literal.span().start().line;
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.literal(line, &text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Literals {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.literal(text.span().start().line, &text.value());
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
    }
}
