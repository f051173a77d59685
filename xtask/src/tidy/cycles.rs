//! The top-level modules of a crate form a directed acyclic graph: no module uses another that uses
//! it, directly or through others. Code of tests is exempt.
//!
//! Paths are found by their tokens (`crate::name`, `super::name` at the top level, and re-exports
//! of the crate's root), so that those in macros count as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{Complaint, Source};

/// The uses among one crate's top-level modules: the using and the used module, and the first line.
type Uses<'a> = BTreeMap<String, BTreeMap<String, (&'a Source, usize)>>;

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let mut crates: BTreeMap<String, Vec<(&Source, Vec<String>)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.has_extension("rs") && !source.is_test()) {
        if let Some((name, module)) = place(&source.path) {
            crates.entry(name).or_default().push((source, module));
        }
    }
    crates.values().flat_map(|files| check_crate(files)).collect()
}

/// The folder of the crate that a file belongs to, and the module in it; the root's is empty. None
/// for programs outside the crate.
pub(super) fn place(path: &Path) -> Option<(String, Vec<String>)> {
    let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
    let src = parts.iter().position(|part| *part == "src")?;
    let mut module: Vec<String> = parts[src + 1..].iter().map(|part| (*part).to_owned()).collect();
    let file = module.pop()?;
    match file.strip_suffix(".rs")? {
        _ if module.first().is_some_and(|folder| folder == "bin") => return None,
        "lib" | "main" if module.is_empty() => {}
        "mod" => {}
        name => module.push(name.to_owned()),
    }
    Some((parts[..src].join("/"), module))
}

fn check_crate(files: &[(&Source, Vec<String>)]) -> Vec<Complaint> {
    let modules: BTreeSet<&String> = files.iter().filter_map(|(_, module)| module.first()).collect();
    let exports: BTreeMap<String, String> = files
        .iter()
        .filter(|(_, module)| module.is_empty())
        .flat_map(|(source, _)| exports(source))
        .collect();
    let mut uses = Uses::new();
    for (source, module) in files {
        let Some(user) = module.first() else { continue };
        // Files that are not Rust are reported elsewhere.
        let Ok(tokens) = source.text.parse() else { continue };
        let mut names = Vec::new();
        scan(tokens, module.len(), &mut names);
        for (name, line) in names {
            let used = exports.get(&name).unwrap_or(&name);
            if used != user && modules.contains(used) {
                let of_user = uses.entry(user.clone()).or_default();
                of_user.entry(used.clone()).or_insert((source, line));
            }
        }
    }
    cycles(&uses)
}

/// One complaint for each group of modules that use each other: the shortest way round.
fn cycles(uses: &Uses<'_>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut told = BTreeSet::new();
    for module in uses.keys() {
        let Some(round) = round(uses, module).filter(|_| !told.contains(module)) else { continue };
        told.extend(
            reachable(uses, module).into_iter().filter(|other| reachable(uses, other).contains(module)),
        );
        let place = |at: usize| uses[&round[at]][&round[at + 1]];
        let steps = (0..round.len() - 1).map(|at| {
            let (source, line) = place(at);
            format!("{} uses {} ({}:{line})", round[at], round[at + 1], source.path.display())
        });
        let what = format!("modules in a cycle: {}", steps.collect::<Vec<_>>().join(", "));
        let (source, line) = place(0);
        complaints.push(source.complaint(line, what));
    }
    complaints
}

/// The shortest path from a module back to itself.
fn round(uses: &Uses<'_>, from: &String) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![from.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in uses.get(way.last()?).into_iter().flat_map(BTreeMap::keys) {
            let longer = [&way[..], std::slice::from_ref(next)].concat();
            if next == from {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn reachable(uses: &Uses<'_>, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![from.to_owned()];
    while let Some(module) = left.pop() {
        let used = uses.get(&module).into_iter().flat_map(BTreeMap::keys);
        left.extend(used.filter(|used| found.insert((*used).clone())).cloned());
    }
    found
}

/// The names that a crate's root takes from its modules, with the module of each.
fn exports(root: &Source) -> Vec<(String, String)> {
    let Ok(file) = syn::parse_file(&root.text) else { return Vec::new() };
    let mut exports = Vec::new();
    for item in &file.items {
        if let syn::Item::Use(item) = item {
            leaves(&item.tree, &mut Vec::new(), &mut exports);
        }
    }
    exports
}

fn leaves(tree: &syn::UseTree, inside: &mut Vec<String>, exports: &mut Vec<(String, String)>) {
    let name = match tree {
        syn::UseTree::Path(path) => {
            let own = path.ident == "self" || path.ident == "crate";
            let depth = inside.len();
            inside.extend((!own).then(|| path.ident.to_string()));
            leaves(&path.tree, inside, exports);
            inside.truncate(depth);
            return;
        }
        syn::UseTree::Group(group) => {
            return group.items.iter().for_each(|item| leaves(item, inside, exports));
        }
        syn::UseTree::Glob(_) => return,
        syn::UseTree::Name(name) => &name.ident,
        syn::UseTree::Rename(rename) => &rename.rename,
    };
    exports.extend(inside.first().map(|module| (name.to_string(), module.clone())));
}

/// Collects names at the top level of the crate that code in a module so deep refers to, with their
/// lines.
fn scan(tokens: TokenStream, depth: usize, names: &mut Vec<(String, usize)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(&tokens, at) {
            at = end_of_item(&tokens, at);
            continue;
        }
        match &tokens[at] {
            TokenTree::Ident(word) if word == "mod" && is_inline_module(&tokens, at) => {
                if let TokenTree::Group(body) = &tokens[at + 2] {
                    scan(body.stream(), depth + 1, names);
                }
                at += 2;
            }
            TokenTree::Ident(word) if word == "crate" => heads(&tokens, at + 1, names),
            TokenTree::Ident(word) if word == "super" && !follows_path(&tokens, at) => {
                let more = tokens[at + 1..].chunks_exact(3);
                let more = more.take_while(|part| is_path(part, 0) && is_word(&part[2], "super")).count();
                if more + 1 == depth {
                    heads(&tokens, at + 1 + 3 * more, names);
                }
                at += 3 * more;
            }
            TokenTree::Group(group) => scan(group.stream(), depth, names),
            _ => {}
        }
        at += 1;
    }
}

/// The first segments of a path after `crate` or `super`: one, or those of a group.
fn heads(tokens: &[TokenTree], at: usize, names: &mut Vec<(String, usize)>) {
    match tokens.get(at + 2).filter(|_| is_path(tokens, at)) {
        Some(TokenTree::Ident(word)) => names.push((word.to_string(), word.span().start().line)),
        Some(TokenTree::Group(group)) => {
            let mut begins = true;
            for token in group.stream() {
                match token {
                    TokenTree::Ident(word) if begins => {
                        names.push((word.to_string(), word.span().start().line));
                        begins = false;
                    }
                    TokenTree::Punct(mark) => begins = mark.as_char() == ',',
                    _ => begins = false,
                }
            }
        }
        _ => {}
    }
}

fn is_path(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == ':');
    is_colon(at) && is_colon(at + 1)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

fn follows_path(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && is_path(tokens, at - 2)
}

fn is_inline_module(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at + 1), Some(TokenTree::Ident(_)))
        && matches!(tokens.get(at + 2), Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace)
}

/// `#[cfg(test)]`.
fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    matches!(&tokens[at], TokenTree::Punct(mark) if mark.as_char() == '#')
        && matches!(tokens.get(at + 1), Some(TokenTree::Group(group)) if group.to_string().replace(' ', "") == "[cfg(test)]")
}

/// The position after the item that begins here.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(mark) => mark.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    from + 1 + tokens[from..].iter().position(ends).unwrap_or(tokens.len() - from)
}
