//! Messages as Cargo writes them.

use super::{Kind, TestBinary, binaries, package};

const BUILT: &str = r#"   Compiling levada-log v0.1.0 (/levada/crates/log)
{"reason":"build-script-executed","package_id":"registry+https://github.com/rust-lang/crates.io-index#libc@0.2.191"}
{"reason":"compiler-artifact","package_id":"path+file:///levada/crates/log#levada-log@0.1.0","manifest_path":"/levada/crates/log/Cargo.toml","target":{"kind":["lib"],"name":"levada_log"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///levada/crates/log#levada-log@0.1.0","manifest_path":"/levada/crates/log/Cargo.toml","target":{"kind":["lib"],"name":"levada_log"},"profile":{"test":true},"executable":"/levada/target/debug/deps/levada_log-1"}
{"reason":"compiler-artifact","package_id":"path+file:///levada/crates/log#levada-log@0.1.0","manifest_path":"/levada/crates/log/Cargo.toml","target":{"kind":["test"],"name":"model"},"profile":{"test":true},"executable":"/levada/target/debug/deps/model-2"}
{"reason":"compiler-artifact","package_id":"path+file:///levada/xtask#0.1.0","manifest_path":"/levada/xtask/Cargo.toml","target":{"kind":["bin"],"name":"xtask"},"profile":{"test":false},"executable":"/levada/target/debug/xtask"}
{"reason":"compiler-artifact","package_id":"path+file:///levada/xtask#0.1.0","manifest_path":"/levada/xtask/Cargo.toml","target":{"kind":["bin"],"name":"xtask"},"profile":{"test":true},"executable":"/levada/target/debug/deps/xtask-3"}
{"reason":"build-finished","success":true}
"#;

#[test]
fn test_binaries_are_found_and_nothing_else() {
    let found = |package: &str, target: &str, kind, folder: &str, executable: &str| TestBinary {
        package: package.to_owned(),
        target: target.to_owned(),
        kind,
        folder: folder.into(),
        executable: executable.into(),
    };
    let log = "/levada/crates/log";
    let expected = vec![
        found("levada-log", "levada_log", Kind::Lib, log, "/levada/target/debug/deps/levada_log-1"),
        found("levada-log", "model", Kind::Test, log, "/levada/target/debug/deps/model-2"),
        found("xtask", "xtask", Kind::Bin, "/levada/xtask", "/levada/target/debug/deps/xtask-3"),
    ];
    assert_eq!(binaries(BUILT), Ok(expected));
}

#[test]
fn output_without_test_binaries_is_an_error() {
    assert!(binaries("{\"reason\":\"build-finished\",\"success\":true}").is_err());
}

#[test]
fn packages_have_their_cargo_names() {
    assert_eq!(package("path+file:///levada/crates/cli#levada@0.1.0"), Some("levada"));
    assert_eq!(package("path+file:///levada/xtask#0.1.0"), Some("xtask"));
    assert_eq!(package("levada"), None);
}
