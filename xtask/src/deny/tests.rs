//! Samples that the rules take and refuse.

use super::*;

#[test]
fn licence_expression_needs_one_allowed_alternative() {
    let allowed = |one: &str| ["MIT", "ISC", "Unicode-3.0"].contains(&one);
    let check = |expression: &str, expected: bool| {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    };
    check("MIT", true);
    check("GPL-3.0", false);
    check("GPL-3.0 OR MIT", true);
    check("GPL-3.0/MIT", true);
    check("GPL-3.0 AND MIT", false);
    check("ISC AND MIT", true);
    check("(MIT OR GPL-3.0) AND Unicode-3.0", true);
    check("(GPL-2.0 OR GPL-3.0) AND Unicode-3.0", false);
    check("GPL-3.0 OR MIT AND ISC", true);
    check("MIT WITH LLVM-exception", true);
    for broken in ["", "(MIT", "MIT)", "MIT ISC", "MIT AND"] {
        check(broken, false);
    }
}

#[test]
fn sources_and_duplicates_need_a_rule() {
    let rules: Table = r#"
        [licenses]
        allow = ["MIT"]
        [bans]
        skip = [{ crate = "b@1.0.0", reason = "x" }, { crate = "gone@1.0.0", reason = "x" }]
        [sources]
        allow-registry = ["https://r.test"]
    "#
    .parse()
    .unwrap();
    let package = |name: &str, version: &str, source: Value| serde_json::json!({ "name": name, "version": version, "license": "MIT", "source": source });
    let good = "registry+https://r.test";
    let metadata = serde_json::json!({ "packages": [
        package("ours", "1.0.0", Value::Null),
        package("a", "1.0.0", good.into()),
        package("a", "2.0.0", good.into()),
        package("b", "1.0.0", good.into()),
        package("b", "2.0.0", good.into()),
        package("c", "1.0.0", "git+https://r.test".into()),
    ]});
    let complaints = check(&rules, &metadata);
    let begins: Vec<&str> = complaints.iter().filter_map(|one| one.split(' ').next()).collect();
    assert_eq!(begins, ["c", "a", "gone@1.0.0"], "{complaints:?}");
}
