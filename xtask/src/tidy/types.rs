//! Limit of the methods of a type. A type that is larger and stays whole says why, in its
//! documentation.

use std::collections::BTreeMap;

use super::cycles::place;
use super::shape::is_test_item;
use super::{Complaint, Source};

const METHODS: usize = 60;

/// A type whose documentation has such a line, with a reason, may have more methods.
const WHOLE: &str = "Whole: ";
const REASON_CHARACTERS: usize = 40;

/// A struct or enum.
struct Type<'a> {
    source: &'a Source,
    module: Vec<String>,
    line: usize,
    is_whole: bool,
    methods: usize,
}

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let mut types: BTreeMap<(String, String), Vec<Type<'_>>> = BTreeMap::new();
    let mut methods = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension("rs") && !source.is_test()) {
        let (Some((name, module)), Ok(file)) = (place(&source.path), syn::parse_file(&source.text)) else {
            continue;
        };
        for item in &file.items {
            let (ident, attributes) = match item {
                syn::Item::Struct(item) => (&item.ident, &item.attrs),
                syn::Item::Enum(item) => (&item.ident, &item.attrs),
                syn::Item::Impl(item) => {
                    methods.extend(
                        methods_of(item).map(|(ident, count)| (name.clone(), module.clone(), ident, count)),
                    );
                    continue;
                }
                _ => continue,
            };
            let line = ident.span().start().line;
            let one =
                Type { source, module: module.clone(), line, is_whole: is_whole(attributes), methods: 0 };
            types.entry((name.clone(), ident.to_string())).or_default().push(one);
        }
    }
    for (name, module, ident, count) in methods {
        let namesakes = types.get_mut(&(name, ident)).into_iter().flatten();
        // Of several types of one name, the one in the nearest module.
        let shared = |one: &&mut Type<'_>| one.module.iter().zip(&module).take_while(|(a, b)| a == b).count();
        if let Some(one) = namesakes.max_by_key(shared) {
            one.methods += count;
        }
    }
    let is_large = |((_, ident), one): ((String, String), Type<'_>)| {
        let what = format!(
            "{ident} has {} methods: at most {METHODS}; divide its state, or say why not (`{WHOLE}…`)",
            one.methods
        );
        (one.methods > METHODS && !one.is_whole).then(|| one.source.complaint(one.line, what))
    };
    let all = types
        .into_iter()
        .flat_map(|(key, namesakes)| namesakes.into_iter().map(move |one| (key.clone(), one)));
    all.filter_map(is_large).collect()
}

/// The type of an inherent implementation, and its number of methods.
fn methods_of(item: &syn::ItemImpl) -> Option<(String, usize)> {
    let syn::Type::Path(path) = &*item.self_ty else { return None };
    if item.trait_.is_some() || is_test_item(&item.attrs) {
        return None;
    }
    let ident = path.path.segments.last()?.ident.to_string();
    let is_method =
        |item: &&syn::ImplItem| matches!(item, syn::ImplItem::Fn(one) if !is_test_item(&one.attrs));
    Some((ident, item.items.iter().filter(is_method).count()))
}

fn is_whole(attributes: &[syn::Attribute]) -> bool {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let mut reasons = lines.filter_map(|line| line.trim().strip_prefix(WHOLE).map(str::len));
    reasons.any(|length| length >= REASON_CHARACTERS)
}
