//! Names: no empty words, no retired words, no `get_` prefix, one meaning for a name within a
//! crate, and short names of tests.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::ffi::OsStr;

use syn::visit::{self, Visit};

use super::{Complaint, Source};

const EMPTY_WORDS: [&str; 8] = ["common", "helper", "helpers", "impls", "manager", "misc", "util", "utils"];
/// Retired names of Levada, and the terms of the field that replace them. A function's name may not
/// begin with such a word either.
const RETIRED: [(&str, &str); 15] = [
    ("Dirt", "DirtySection"),
    ("Doorman", "Acceptor"),
    ("Farewell", "Closing"),
    ("Gravity", "Severity"),
    ("Hasty", "NoSyncDisk"),
    ("Passage", "AuthStep"),
    ("Pen", "LogHandle"),
    ("Servant", "PeerProcess"),
    ("TurnedAway", "AuthError"),
    ("Twin", "FaultyDisk"),
    ("doom", "mark_deleted"),
    ("look_after", "check_files_present"),
    ("make_way", "displace_stale"),
    ("say_goodbye", "send_close_notify"),
    ("set_strays_aside", "quarantine_strays"),
];

/// Top-level folders that do not share names with the rest of their crate: the state machines of
/// the coordinators are built alike and use the same names.
const APART: [&str; 3] = ["group", "share_state", "txn"];

/// Crates whose modules are commands, built alike.
const COMMANDS: [&str; 1] = ["crates/cli"];

/// Maximum number of words of a test's name.
const TEST_WORDS: usize = 8;

const EMPTY_ENDINGS: [&str; 4] = ["Helper", "Manager", "Util", "Utils"];

pub(super) fn check(source: &Source, file: &syn::File) -> Vec<Complaint> {
    let mut names = Names { source, in_trait_impl: false, complaints: Vec::new() };
    for part in &source.path.with_extension("") {
        names.module(1, &part.to_string_lossy());
    }
    names.visit_file(file);
    names.complaints
}

/// Complains about types that a whole crate can see and that share their name with another: readers
/// who search for one find both.
pub(super) fn check_crates(sources: &[Source]) -> Vec<Complaint> {
    let mut seen: BTreeMap<(String, String), &Source> = BTreeMap::new();
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension("rs") && !source.is_test()) {
        let Some(space) = name_space(source) else { continue };
        // Other rules complain about text that is not Rust.
        let Ok(file) = syn::parse_file(&source.text) else { continue };
        for name in file.items.iter().filter_map(visible_type) {
            let (text, line) = (name.to_string(), name.span().start().line);
            match seen.entry((space.clone(), text)) {
                Vacant(first) => drop(first.insert(source)),
                Occupied(first) => {
                    let other = first.get().path.display();
                    complaints.push(source.complaint(line, format!("`{name}` is also a type in {other}")));
                }
            }
        }
    }
    complaints
}

/// The crate of a file, or a folder in it with separate names. None outside of crates.
fn name_space(source: &Source) -> Option<String> {
    let parts: Vec<&str> = source.path.iter().filter_map(OsStr::to_str).collect();
    let [folder, name, "src", first, ..] = parts[..] else { return None };
    let space = format!("{folder}/{name}");
    let apart = APART.iter().find(|apart| first.strip_suffix(".rs").unwrap_or(first) == **apart);
    (!COMMANDS.contains(&&*space)).then(|| match apart {
        Some(apart) => format!("{space}/{apart}"),
        None => space,
    })
}

fn visible_type(item: &syn::Item) -> Option<&syn::Ident> {
    let (visibility, name) = match item {
        syn::Item::Struct(item) => (&item.vis, &item.ident),
        syn::Item::Enum(item) => (&item.vis, &item.ident),
        syn::Item::Trait(item) => (&item.vis, &item.ident),
        syn::Item::Type(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    let visible = match visibility {
        syn::Visibility::Public(_) => true,
        syn::Visibility::Restricted(within) => within.path.is_ident("crate"),
        syn::Visibility::Inherited => false,
    };
    visible.then_some(name)
}

struct Names<'a> {
    source: &'a Source,
    in_trait_impl: bool,
    complaints: Vec<Complaint>,
}

impl Names<'_> {
    fn module(&mut self, line: usize, name: &str) {
        if EMPTY_WORDS.contains(&name) {
            self.complaints.push(self.source.complaint(line, format!("`{name}` names no subject")));
        }
    }

    fn item(&mut self, name: &syn::Ident) {
        let text = name.to_string();
        if EMPTY_ENDINGS.iter().any(|ending| text.ends_with(ending)) {
            let line = name.span().start().line;
            self.complaints.push(self.source.complaint(line, format!("`{text}` names no subject")));
        }
        self.retired(name);
    }

    fn retired(&mut self, name: &syn::Ident) {
        let text = name.to_string();
        let begins =
            |word: &str| text.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        if let Some((word, term)) = RETIRED.iter().find(|(word, _)| begins(word)) {
            let what = format!("`{text}`: not `{word}`; the term is `{term}`");
            self.complaints.push(self.source.complaint(name.span().start().line, what));
        }
    }

    fn function(&mut self, name: &syn::Ident) {
        if name.to_string().starts_with("get_") && !self.in_trait_impl {
            let what = format!("fn {name}: a getter is called by what it returns, without `get_`");
            self.complaints.push(self.source.complaint(name.span().start().line, what));
        }
        self.retired(name);
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module(item.ident.span().start().line, &item.ident.to_string());
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.item(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.item(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.item(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.item(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let before = std::mem::replace(&mut self.in_trait_impl, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.in_trait_impl = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let of_test = |attribute: &syn::Attribute| {
            attribute.path().segments.last().is_some_and(|last| last.ident == "test")
        };
        let words = item.sig.ident.to_string().split('_').count();
        if words > TEST_WORDS && item.attrs.iter().any(of_test) {
            let name = &item.sig.ident;
            let what = format!("{name} has {words} words: a test's name has at most {TEST_WORDS}");
            self.complaints.push(self.source.complaint(name.span().start().line, what));
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.function(&signature.ident);
        visit::visit_signature(self, signature);
    }
}
