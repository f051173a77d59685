//! Limits of size and form: a paragraph at the head of each file, limits on the length of files,
//! functions and comment lines and on parameters, comments with a subject, headings of
//! documentation on lines of their own, one `use` for each module, and no `unwrap` outside tests.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Complaint, Source};

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 500;
const PARAMETERS: usize = 5;
const COMMENT_COLUMNS: usize = 100;

/// First words of comments that hide their subject.
const SUBJECTLESS: [&str; 23] = [
    "Everybody",
    "How",
    "It",
    "Nobody",
    "So",
    "Somebody",
    "Something",
    "These",
    "They",
    "Until",
    "Those",
    "What",
    "Whatever",
    "When",
    "Where",
    "Whether",
    "Which",
    "Whichever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
];

/// Headings of the documentation of functions.
const HEADINGS: [&str; 3] = ["Errors", "Panics", "Safety"];

/// A file whose head has such a line, with a reason, may be long: it lists entries of one form.
const CATALOGUE: &str = "//! Catalogue: ";
const REASON_CHARACTERS: usize = 20;

pub(super) fn check(source: &Source, file: &syn::File) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if !source.text.starts_with("//! ") {
        complaints.push(source.complaint(1, "a file opens with a `//!` paragraph that says what it owns"));
    }
    let catalogue = is_catalogue(&source.text);
    let lines = source.text.lines().count();
    if lines > FILE_LINES && !catalogue && !source.is_test() {
        let what = format!("{lines} lines: at most {FILE_LINES} (tests go into a sibling tests.rs)");
        complaints.push(source.complaint(FILE_LINES + 1, what));
    }
    complaints.extend(wide_comments(source));
    complaints.extend(subjectless(source));
    complaints.extend(joined_headings(source));
    let mut shapes =
        Shapes { source, catalogue, in_test: source.is_test(), in_trait_impl: false, complaints };
    shapes.visit_file(file);
    shapes.complaints
}

fn is_catalogue(text: &str) -> bool {
    let mut head = text.lines().take_while(|line| line.starts_with("//!"));
    head.any(|line| line.strip_prefix(CATALOGUE).is_some_and(|reason| reason.len() >= REASON_CHARACTERS))
}

/// Comment lines that are too wide. Code and drawings between ``` may be wider, and so may tables
/// and words that cannot be cut.
fn wide_comments(source: &Source) -> Vec<Complaint> {
    let mut in_code = false;
    let mut complaints = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            in_code = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim();
        in_code ^= text.starts_with("```");
        let columns = line.chars().count();
        if columns > COMMENT_COLUMNS && !in_code && !text.starts_with('|') && text.contains(' ') {
            let what = format!("a comment of {columns} columns: at most {COMMENT_COLUMNS}");
            complaints.push(source.complaint(index + 1, what));
        }
    }
    complaints
}

/// Comments that begin with a clause instead of a noun phrase or a verb.
fn subjectless(source: &Source) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut before = None;
    for (index, line) in source.text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        // A comment on an item may follow that of the file.
        let kind = comment.map(|text| text.chars().next().filter(|mark| ['/', '!'].contains(mark)));
        let text = comment.map(|text| text.trim_start_matches(['/', '!']).trim_start());
        let first = text.and_then(|text| text.split([' ', '.', ',']).next());
        if kind != before && first.is_some_and(|word| SUBJECTLESS.contains(&word)) {
            let what = "a comment begins with a noun phrase or a verb, not with a question word or a pronoun";
            complaints.push(source.complaint(index + 1, what));
        }
        before = kind;
    }
    complaints
}

/// Headings of documentation with a text on the same line, which becomes part of the heading.
fn joined_headings(source: &Source) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("///").or_else(|| line.trim_start().strip_prefix("//!"));
        let heading = comment.and_then(|text| text.trim_start().strip_prefix("# "));
        if heading.and_then(|text| text.split_once(' ')).is_some_and(|(first, _)| HEADINGS.contains(&first)) {
            complaints
                .push(source.complaint(index + 1, "the text below a heading begins on a line of its own"));
        }
    }
    complaints
}

/// True if these attributes make an item test code.
pub(super) fn is_test_item(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let condition = || attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
        path.segments.last().is_some_and(|last| last.ident == "test") || path.is_ident("cfg") && condition()
    })
}

struct Shapes<'a> {
    source: &'a Source,
    catalogue: bool,
    in_test: bool,
    in_trait_impl: bool,
    complaints: Vec<Complaint>,
}

impl Shapes<'_> {
    fn complain(&mut self, line: usize, what: String) {
        self.complaints.push(self.source.complaint(line, what));
    }

    fn function(&mut self, signature: &syn::Signature, whole: proc_macro2::Span) {
        let (first, last) = (signature.span().start().line, whole.end().line);
        let (name, lines) = (&signature.ident, last + 1 - first);
        if lines > FUNCTION_LINES && !self.catalogue {
            self.complain(first, format!("fn {name} has {lines} lines: at most {FUNCTION_LINES}"));
        }
        let own = |input: &&syn::FnArg| matches!(input, syn::FnArg::Typed(_));
        let parameters: usize = if self.in_test {
            signature.inputs.iter().filter(own).count()
        } else {
            signature.inputs.iter().map(values).sum()
        };
        if parameters > PARAMETERS && !self.in_trait_impl {
            self.complain(first, format!("fn {name} has {parameters} parameters: at most {PARAMETERS}"));
        }
    }

    fn unwrap(&mut self, line: usize) {
        if !self.in_test {
            let what = "no unwrap outside tests: return the error, or state the invariant with expect";
            self.complain(line, what.to_string());
        }
    }

    fn within(&mut self, in_test: bool, visit: impl FnOnce(&mut Self)) {
        let before = self.in_test;
        self.in_test |= in_test;
        visit(self);
        self.in_test = before;
    }
}

impl<'ast> Visit<'ast> for Shapes<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(is_test_item(&item.attrs), |shapes| visit::visit_item_mod(shapes, item));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if let Some(line) = path_in_group(&item.tree) {
            self.complain(
                line,
                "one `use` for each module: a group has names, no paths or groups".to_string(),
            );
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, item.span());
        self.within(is_test_item(&item.attrs), |shapes| visit::visit_item_fn(shapes, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // A trait dictates the parameters of its implementations.
        let before = std::mem::replace(&mut self.in_trait_impl, item.trait_.is_some());
        self.within(is_test_item(&item.attrs), |shapes| visit::visit_item_impl(shapes, item));
        self.in_trait_impl = before;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, item.span());
        self.within(is_test_item(&item.attrs), |shapes| visit::visit_impl_item_fn(shapes, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, item.span());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "unwrap" && call.args.is_empty() {
            self.unwrap(call.method.span().start().line);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        for line in unwraps(item.tokens.clone()) {
            self.unwrap(line);
        }
        visit::visit_macro(self, item);
    }
}

/// Line of the first path or group inside a group.
fn path_in_group(tree: &syn::UseTree) -> Option<usize> {
    match tree {
        syn::UseTree::Path(path) => path_in_group(&path.tree),
        syn::UseTree::Group(group) => {
            let mut inner = group.items.iter();
            let found = inner.find(|one| matches!(one, syn::UseTree::Path(_) | syn::UseTree::Group(_)));
            found.map(|one| one.span().start().line)
        }
        _ => None,
    }
}

/// Number of values that a parameter carries: each element of a tuple counts, `self` does not.
/// Tests may pass cases of a table as tuples.
fn values(input: &syn::FnArg) -> usize {
    fn of_type(kind: &syn::Type) -> usize {
        match kind {
            syn::Type::Tuple(tuple) => tuple.elems.iter().map(of_type).sum(),
            syn::Type::Reference(reference) => of_type(&reference.elem),
            _ => 1,
        }
    }
    match input {
        syn::FnArg::Typed(typed) => of_type(&typed.ty),
        syn::FnArg::Receiver(_) => 0,
    }
}

/// The lines of `.unwrap()` among the tokens of a macro, which the parser does not parse.
fn unwraps(tokens: TokenStream) -> Vec<usize> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut lines = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match (token, tokens.get(index + 1), tokens.get(index + 2)) {
            (TokenTree::Group(group), ..) => lines.extend(unwraps(group.stream())),
            (TokenTree::Punct(dot), Some(TokenTree::Ident(name)), Some(TokenTree::Group(arguments)))
                if dot.as_char() == '.' && name == "unwrap" && arguments.stream().is_empty() =>
            {
                lines.push(name.span().start().line);
            }
            _ => {}
        }
    }
    lines
}
