//! The list of programs.

use std::path::Path;

use super::{NAMES, program};

#[test]
fn every_dependency_name_has_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in NAMES {
        let program = program(root, name).unwrap();
        assert!(!program.tools.is_empty() || !program.made.is_empty(), "{name}");
        for list in program.made.iter().flat_map(|made| &made.lists) {
            assert!(list.exists(), "{name}: {}", list.display());
        }
    }
    assert!(program(root, "abacus").is_err_and(|error| error.contains("no program is called abacus")));
}
