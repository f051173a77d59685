//! Names that say nothing are refused, and so is the `get_` prefix.

use syn::visit::{self, Visit};

use super::{Complaint, Source};

const EMPTY_WORDS: [&str; 8] = ["common", "helper", "helpers", "impls", "manager", "misc", "util", "utils"];
const EMPTY_ENDINGS: [&str; 4] = ["Helper", "Manager", "Util", "Utils"];

pub(super) fn check(source: &Source, file: &syn::File) -> Vec<Complaint> {
    let mut names = Names { source, in_trait_impl: false, complaints: Vec::new() };
    for part in &source.path.with_extension("") {
        names.module(1, &part.to_string_lossy());
    }
    names.visit_file(file);
    names.complaints
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
    }

    fn function(&mut self, name: &syn::Ident) {
        if name.to_string().starts_with("get_") && !self.in_trait_impl {
            let what = format!("fn {name}: a getter is called by what it returns, without `get_`");
            self.complaints.push(self.source.complaint(name.span().start().line, what));
        }
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

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.item(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let before = std::mem::replace(&mut self.in_trait_impl, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.in_trait_impl = before;
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.function(&signature.ident);
        visit::visit_signature(self, signature);
    }
}
