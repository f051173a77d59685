//! The crates that keep data access files only through `levada_log::disk`. Tests can make an
//! operation fail, record it, or lose its effect only there.

use std::path::Path;

use syn::visit::{self, Visit};

use super::{Complaint, Source};

/// Files of the seam itself, and files that read something other than data: configuration, key
/// stores, and the kernel's information about the process and the machine.
const ALLOWED: [&str; 10] = [
    "crates/log/src/disk.rs",
    "crates/log/src/disk/",
    "crates/broker/src/access/signing_keys.rs",
    "crates/broker/src/replay/kernel.rs",
    "crates/broker/src/server/",
    "crates/broker/src/tls.rs",
    "crates/config/src/",
    "crates/process/src/usage.rs",
    "crates/security/src/keystore/",
    "crates/web/src/console/laboratory.rs",
];
/// Methods of a path that access the file system.
const QUESTIONS: [&str; 6] = ["canonicalize", "exists", "is_dir", "is_file", "read_dir", "try_exists"];

pub(super) fn check(source: &Source, file: &syn::File) -> Vec<Complaint> {
    let path = source.path.to_string_lossy();
    let covered =
        super::BROKER.iter().any(|name| source.path.starts_with(Path::new("crates").join(name).join("src")));
    // Support of tests is code of tests.
    let is_test = source.is_test() || path.contains("/tests/");
    if !covered || is_test || ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
        return Vec::new();
    }
    let mut seam = Seam { source, complaints: Vec::new() };
    seam.visit_file(file);
    seam.complaints
}

struct Seam<'a> {
    source: &'a Source,
    complaints: Vec<Complaint>,
}

impl Seam<'_> {
    fn complain(&mut self, line: usize, what: &str) {
        let what = format!("{what} passes `disk::Disk` by: no test can make it fail");
        self.complaints.push(self.source.complaint(line, what));
    }

    /// Everything in `std::fs` but the name of an open file.
    fn import(&mut self, tree: &syn::UseTree, inside: &[String]) {
        match tree {
            syn::UseTree::Path(path) => {
                self.import(&path.tree, &[inside, &[path.ident.to_string()]].concat());
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.import(item, inside)),
            syn::UseTree::Name(name) => self.imported(&name.ident, inside),
            syn::UseTree::Rename(rename) => self.imported(&rename.ident, inside),
            syn::UseTree::Glob(star) => {
                if inside == ["std", "fs"] {
                    self.complain(star.star_token.spans[0].start().line, "std::fs::*");
                }
            }
        }
    }

    fn imported(&mut self, name: &syn::Ident, inside: &[String]) {
        let whole = inside == ["std"] && name == "fs" || inside == ["std", "fs"] && name == "self";
        if whole || inside == ["std", "fs"] && name != "File" {
            self.complain(name.span().start().line, &format!("std::fs ({name})"));
        }
    }
}

impl<'ast> Visit<'ast> for Seam<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let refused = match &words[..] {
            ["std", "fs", "File"] => false,
            ["std", "fs", ..] => true,
            [.., "File", function] => ["create", "create_new", "open", "options"].contains(function),
            _ => false,
        };
        if refused {
            self.complain(path.segments[0].ident.span().start().line, &words.join("::"));
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if call.args.is_empty() && QUESTIONS.contains(&method.as_str()) {
            self.complain(call.method.span().start().line, &format!("`{method}` of a path"));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}
