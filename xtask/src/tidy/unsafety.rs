//! Unsafe code is in one folder, one operation a block, with its reason directly above.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Complaint, Source};

const HOME: &str = "crates/io/src/sys";
const MARK: &str = "// SAFETY: ";

pub(super) fn check(source: &Source, file: &syn::File) -> Vec<Complaint> {
    let at_home = source.path.starts_with(HOME) || source.path.ends_with(format!("{HOME}.rs"));
    let lines = source.text.lines().collect();
    let mut unsafety = Unsafety { source, lines, at_home, complaints: Vec::new() };
    unsafety.visit_file(file);
    unsafety.complaints
}

struct Unsafety<'a> {
    source: &'a Source,
    lines: Vec<&'a str>,
    at_home: bool,
    complaints: Vec<Complaint>,
}

impl Unsafety<'_> {
    fn complain(&mut self, line: usize, what: &str) {
        self.complaints.push(self.source.complaint(line, what));
    }

    /// An `unsafe` whose reason is in a comment above `line`.
    fn marked(&mut self, line: usize) {
        self.home(line);
        if self.at_home && !self.comment_above(line).any(|comment| comment.starts_with(MARK)) {
            self.complain(line, "unsafe without a `// SAFETY: ` comment directly above");
        }
    }

    fn home(&mut self, line: usize) {
        if !self.at_home {
            self.complain(line, &format!("unsafe outside {HOME}"));
        }
    }

    /// The lines of the comment that ends right above `line` (1-based), last line first.
    fn comment_above(&self, line: usize) -> impl Iterator<Item = &str> {
        let above = self.lines[..line - 1].iter().rev().map(|line| line.trim_start());
        above.take_while(|line| line.starts_with("//"))
    }

    fn function(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute]) {
        let syn::Safety::Unsafe(word) = &signature.safety else { return };
        let line = word.span().start().line;
        self.home(line);
        let documented =
            attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).any(|attribute| {
                let text = attribute.meta.require_name_value().map(|doc| doc.value.span().source_text());
                text.ok().flatten().is_some_and(|text| text.contains("# Safety"))
            });
        if self.at_home && !documented {
            self.complain(line, "an unsafe fn has a `# Safety` section");
        }
    }
}

impl<'ast> Visit<'ast> for Unsafety<'_> {
    fn visit_expr_unsafe(&mut self, item: &'ast syn::ExprUnsafe) {
        let line = item.unsafe_token.span.start().line;
        self.marked(line);
        let mut operations = Operations::default();
        operations.visit_block(&item.block);
        if item.block.stmts.len() != 1 || operations.control {
            self.complain(line, "one operation in an unsafe block: no statements before it, no control flow");
        }
        visit::visit_expr_unsafe(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(word) = &item.unsafety {
            self.marked(word.span().start().line);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        self.marked(item.span().start().line);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if let Some(word) = &item.unsafety {
            self.home(word.span().start().line);
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.attrs);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, &item.attrs);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        // The parser does not look into macros, so none may hide such a block.
        if mentions_unsafe(item.tokens.clone()) {
            self.complain(item.span().start().line, "unsafe inside a macro");
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("unsafe") {
            self.marked(attribute.span().start().line);
        }
    }
}

fn mentions_unsafe(tokens: proc_macro2::TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Group(group) => mentions_unsafe(group.stream()),
        proc_macro2::TokenTree::Ident(word) => word == "unsafe",
        _ => false,
    })
}

/// Finds expressions in a block that could run more than one operation.
#[derive(Default)]
struct Operations {
    control: bool,
}

impl<'ast> Visit<'ast> for Operations {
    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        self.control |= matches!(
            expression,
            syn::Expr::If(_)
                | syn::Expr::Match(_)
                | syn::Expr::Loop(_)
                | syn::Expr::While(_)
                | syn::Expr::ForLoop(_)
                | syn::Expr::Block(_)
                | syn::Expr::Unsafe(_)
                | syn::Expr::Closure(_)
        );
        visit::visit_expr(self, expression);
    }
}
