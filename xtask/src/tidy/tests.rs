//! The repository keeps the rules, and each rule refuses a sample that breaks it.

use super::{Complaint, Source, changes, check, sources};

#[test]
fn the_repository_keeps_the_rules() {
    let sources = sources(&crate::root()).unwrap();
    assert!(sources.iter().any(|source| source.path.ends_with("xtask/src/tidy/tests.rs")));
    let mut complaints = check(&sources);
    complaints.extend(changes::check(&crate::root()).unwrap());
    let complaints: Vec<String> = complaints.iter().map(Complaint::to_string).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Complaints about files, given as (path, text), as `path:line: first words`.
fn complaints(files: &[(&str, &str)]) -> Vec<String> {
    let changelog = ("CHANGELOG.md", "## [Unreleased]\n");
    let given = files.iter().any(|(path, _)| *path == "CHANGELOG.md");
    let all = files.iter().chain((!given).then_some(&changelog));
    let sources: Vec<Source> =
        all.map(|(path, text)| Source { path: path.into(), text: (*text).to_string() }).collect();
    check(&sources).iter().map(Complaint::to_string).collect()
}

fn refused(path: &str, text: &str, line: usize, words: &str) {
    let found = complaints(&[(path, text)]);
    let [only] = found.as_slice() else { panic!("one complaint about {text}: {found:?}") };
    assert!(only.starts_with(&format!("{path}:{line}: ")) && only.contains(words), "{only}");
}

fn accepted(path: &str, text: &str) {
    assert_eq!(complaints(&[(path, text)]), Vec::<String>::new(), "{text}");
}

const RS: &str = "crates/log/src/a.rs";
const SYS: &str = "crates/io/src/sys/a.rs";

#[test]
fn files_open_with_a_paragraph() {
    refused(RS, "fn a() {}\n", 1, "opens with");
    refused(RS, "\n//! Late.\n", 1, "opens with");
    accepted(RS, "//! The part that it owns.\n");
}

#[test]
fn files_and_functions_are_short() {
    let function = |lines: usize| format!("//! A.\nfn a() {{\n{}}}\n", "    b();\n".repeat(lines - 2));
    accepted(RS, &function(70));
    refused(RS, &function(71), 2, "71 lines");
    let method =
        |lines: usize| format!("//! A.\nimpl A {{\nfn a() {{\n{}}}\n}}\n", "    b();\n".repeat(lines - 2));
    refused(RS, &method(71), 3, "71 lines");

    let file = |lines: usize| format!("//! A.\n{}", "const A: u8 = 0;\n".repeat(lines - 1));
    accepted(RS, &file(500));
    refused(RS, &file(501), 501, "501 lines");
    accepted("crates/log/src/a/tests.rs", &file(501));
    accepted("crates/log/tests/a.rs", &file(501));
    accepted("tests/tests/a.rs", &file(501));
    refused("tests/src/a.rs", &file(501), 501, "501 lines");
    accepted(RS, &format!("//! A.\n//! Catalogue: one entry per configuration key.\n{}", file(501)));
    refused(RS, &format!("//! A.\n//! Catalogue: because.\n{}", file(499)), 501, "501 lines");
}

#[test]
fn comments_begin_with_a_subject_or_a_verb() {
    refused(RS, "//! What it owns.\n", 1, "noun phrase");
    refused(RS, "//! A.\n/// Why.\nfn a() {}\n", 2, "noun phrase");
    refused(RS, "//! A.\nfn a() {\n    // Whom it serves.\n}\n", 3, "noun phrase");
    refused(RS, "//! A.\n/// Those that wait.\nfn a() {}\n", 2, "noun phrase");
    refused("tests/tests/a.rs", "//! A.\n// Those that wait.\nfn a() {}\n", 2, "noun phrase");
    for word in ["It", "So", "Something", "They", "When", "Where"] {
        refused(RS, &format!("//! A.\n/// {word} waits.\nfn a() {{}}\n"), 2, "noun phrase");
    }
    accepted(RS, "//! A.\n/// The part\n/// Which is meant.\nfn a() {}\n");
    accepted(RS, "//! A.\n/// Whole batches.\nfn a() {}\n");
}

#[test]
fn headings_have_lines_of_their_own() {
    refused(RS, "//! A.\n/// Reads.\n///\n/// # Errors A failing disk.\nfn a() {}\n", 4, "line of its own");
    accepted(RS, "//! A.\n/// Reads.\n///\n/// # Errors\n/// A failing disk.\nfn a() {}\n");
    accepted(RS, "//! # Errors\n//! A.\nconst A: &str = \"# Errors A\";\n");
}

#[test]
fn types_have_few_methods() {
    let methods = |count: usize| {
        let all: String = (0..count).map(|at| format!("fn a{at}(&self) {{}}\n")).collect();
        format!("impl A {{\n{all}}}\n")
    };
    let whole = "/// Whole: each method changes the same table under one lock, so that no part is alone.\n";
    accepted(RS, &format!("//! A.\nstruct A;\n{}", methods(60)));
    refused(RS, &format!("//! A.\nstruct A;\n{}", methods(61)), 2, "61 methods");
    refused(RS, &format!("//! A.\nenum A {{ B }}\n{}{}", methods(40), methods(30)), 2, "70 methods");
    refused(RS, &format!("//! A.\n/// Whole: so it is.\nstruct A;\n{}", methods(61)), 3, "61 methods");
    accepted(RS, &format!("//! A.\n{whole}struct A;\n{}", methods(61)));
    let tests = format!("#[cfg(test)]\nmod tests {{ {} }}\n", methods(30));
    accepted(RS, &format!("//! A.\nstruct A;\n{}{tests}", methods(40)));

    let child = format!("//! A.\nuse super::A;\n{}", methods(50));
    let parent = format!("//! A.\nstruct A;\n{}", methods(20));
    let found = complaints(&[("crates/log/src/a/b.rs", &child), (RS, &parent)]);
    assert!(matches!(&found[..], [one] if one.starts_with("crates/log/src/a.rs:2: A has 70")), "{found:?}");
    let namesake = "//! A.\nstruct A;\n";
    let found =
        complaints(&[("crates/log/src/a/b.rs", &child), (RS, &parent), ("crates/log/src/c.rs", namesake)]);
    assert_eq!(found.len(), 1, "the method belongs to the nearest type: {found:?}");
}

#[test]
fn use_of_several_modules_is_refused() {
    accepted(RS, "//! A.\nuse a::b::{self, c, d as e};\npub(crate) use a::*;\nuse {a, b};\n");
    refused(RS, "//! A.\nuse a::{b::c, d};\n", 2, "one `use` for each module");
    refused(RS, "//! A.\nuse a::{\n    b,\n    c::{d, e},\n};\n", 4, "one `use` for each module");
    refused("tests/tests/a.rs", "//! A.\nfn a() {\n    use a::{b::c, d};\n}\n", 3, "one `use`");
}

#[test]
fn comments_end_at_100_columns() {
    let comment = |columns: usize| format!("//! A.\n// a {}\n", "b".repeat(columns - 5));
    refused(RS, &comment(101), 2, "101 columns");
    accepted(RS, &comment(100));
    let wide = "b ".repeat(60);
    accepted(RS, &format!("//! A.\n//! ```text\n//! {wide}\n//! ```\n"));
    accepted(RS, &format!("//! A.\n//! | {wide} |\n"));
    accepted(RS, &format!("//! A.\n// {}\n", "b".repeat(120)));
}

#[test]
fn functions_have_few_parameters() {
    accepted(RS, "//! A.\nimpl A { fn a(&self, a: u8, b: u8, c: u8, d: u8, e: u8) {} }\n");
    refused(RS, "//! A.\nfn a(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}\n", 2, "6 parameters");
    refused(RS, "//! A.\ntrait A { fn a(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8); }\n", 2, "6 parameters");
    accepted(RS, "//! A.\nimpl B for A { fn a(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {} }\n");
    refused(RS, "//! A.\nfn a(a: u8, b: u8, (c, d): (u8, u8), (e, f): &(u8, u8)) {}\n", 2, "6 parameters");
    accepted(RS, "//! A.\nfn a(a: (u8, u8), b: (u8, u8), c: B) {}\n");
    accepted(RS, "//! A.\n#[cfg(test)]\nmod tests { fn a(a: (u8, u8, u8), b: (u8, u8, u8)) {} }\n");
}

#[test]
fn nothing_unwraps_outside_tests() {
    refused(RS, "//! A.\nfn a() {\n    b().unwrap();\n}\n", 3, "unwrap");
    refused(RS, "//! A.\nfn a() {\n    println!(\"{}\", b(c.unwrap()));\n}\n", 3, "unwrap");
    accepted(RS, "//! A.\nfn a() { b().unwrap_or(1); }\n");
    accepted(RS, "//! A.\n#[test]\nfn a() { b().unwrap(); }\n");
    accepted(RS, "//! A.\n#[cfg(test)]\nmod tests { fn a() { b().unwrap(); } }\n");
    refused(RS, "//! A.\n#[cfg(not(test))]\nmod a { fn a() { b().unwrap(); } }\n", 3, "unwrap");
    accepted("crates/log/src/a/tests.rs", "//! A.\nfn a() { b().unwrap(); }\n");
}

#[test]
fn vague_prose_is_refused() {
    refused(RS, "//! A.\n// Then nobody waits.\n", 2, "name the thing");
    refused("docs/a.md", "Whoever waits.\n", 1, "name the thing");
    refused("docs/a.md", "The broker begins anew.\n", 1, "name the thing");
    accepted(RS, "//! A.\nconst A: &str = \"nobody\";\n");
    accepted("tests/tests/a.rs", "//! A.\n// Then nobody waits.\n");
    accepted("CONTRIBUTING.md", "Not *nobody*.\n");
}

#[test]
fn names_without_a_subject_are_refused() {
    refused("crates/log/src/utils.rs", "//! A.\n", 1, "`utils`");
    refused("crates/log/src/common/a.rs", "//! A.\n", 1, "`common`");
    refused(RS, "//! A.\nmod helpers;\n", 2, "`helpers`");
    refused(RS, "//! A.\nstruct SegmentManager;\n", 2, "`SegmentManager`");
    refused(RS, "//! A.\nfn get_offset() {}\n", 2, "get_");
    refused(RS, "//! A.\nimpl A { fn get_offset(&self) {} }\n", 2, "get_");
    accepted(RS, "//! A.\nimpl B for A { fn get_offset(&self) {} }\n");
    accepted(RS, "//! A.\nfn offset() {}\nfn target_offset() {}\n");
}

#[test]
fn test_names_have_eight_words() {
    let test = |name: &str| format!("//! A.\n#[test]\nfn {name}() {{}}\n");
    accepted(RS, &test("a_b_c_d_e_f_g_h"));
    refused(RS, &test("a_b_c_d_e_f_g_h_i"), 3, "9 words");
    refused(RS, "//! A.\n#[tokio::test]\nasync fn a_b_c_d_e_f_g_h_i() {}\n", 3, "9 words");
    accepted(RS, "//! A.\nfn a_b_c_d_e_f_g_h_i() {}\n");
}

#[test]
fn retired_words_are_refused() {
    refused(RS, "//! A.\nstruct Doorman;\n", 2, "the term is `Acceptor`");
    refused(RS, "//! A.\nimpl A { fn doom_partition(&self) {} }\n", 2, "the term is `mark_deleted`");
    accepted(RS, "//! A.\nfn doomsday() {}\n");
}

#[test]
fn a_name_means_one_type_in_a_crate() {
    let both = |one: (&str, &str), other: (&str, &str)| complaints(&[one, other]);
    let entry = "//! A.\npub(crate) struct Entry;\n";
    let found = both((RS, entry), ("crates/log/src/b.rs", entry));
    assert!(matches!(&found[..], [one] if one.starts_with("crates/log/src/b.rs:2: `Entry`")), "{found:?}");
    let none = Vec::<String>::new();
    assert_eq!(both((RS, entry), ("crates/io/src/b.rs", entry)), none);
    assert_eq!(both((RS, entry), ("crates/log/src/b.rs", "//! A.\nstruct Entry;\n")), none);
    assert_eq!(both(("crates/cli/src/a.rs", entry), ("crates/cli/src/b.rs", entry)), none);
    assert_eq!(both(("crates/broker/src/group/a.rs", entry), ("crates/broker/src/txn.rs", entry)), none);
}

#[test]
fn unsafe_code_is_in_sys_only() {
    let block = "//! A.\nfn a() {\n    // SAFETY: ours.\n    unsafe { b() };\n}\n";
    accepted(SYS, block);
    refused(RS, block, 4, "outside");
    refused("crates/io/src/path/splice.rs", block, 4, "outside");
    refused("crates/log/src/a/tests.rs", block, 4, "outside");
    refused(RS, "//! A.\nunsafe fn a() {}\n", 2, "outside");
    refused(RS, "//! A.\nunsafe impl A for B {}\n", 2, "outside");
    refused(RS, "//! A.\na!({ unsafe { b() } });\n", 2, "macro");
    refused(RS, "//! A.\n#[unsafe(no_mangle)]\nfn a() {}\n", 2, "outside");
}

#[test]
fn unsafe_without_a_reason_is_refused() {
    refused(SYS, "//! A.\nfn a() {\n    unsafe { b() };\n}\n", 3, "SAFETY");
    refused(SYS, "//! A.\nfn a() {\n    // SAFETY: far.\n\n    unsafe { b() };\n}\n", 5, "SAFETY");
    refused(SYS, "//! A.\nunsafe impl A for B {}\n", 2, "SAFETY");
    accepted(SYS, "//! A.\n// SAFETY: it is,\n// on two lines.\nunsafe impl A for B {}\n");
    refused(SYS, "//! A.\nunsafe fn a() {}\n", 2, "# Safety");
    accepted(SYS, "//! A.\n/// A.\n///\n/// # Safety\n/// B.\nunsafe fn a() {}\n");
}

#[test]
fn unsafe_blocks_do_one_thing() {
    let block =
        |inside: &str| format!("//! A.\nfn a() {{\n    // SAFETY: ours.\n    unsafe {{ {inside} }};\n}}\n");
    accepted(SYS, &block("b(c(), d)"));
    refused(SYS, &block("b(); c()"), 4, "one operation");
    refused(SYS, &block("if b() { c() }"), 4, "one operation");
    refused(SYS, &block("d(|| c())"), 4, "one operation");
    refused(SYS, &block(""), 4, "one operation");
}

#[test]
fn crates_depend_one_way() {
    let manifest = |name: &str, tables: &str| format!("[package]\nname = \"{name}\"\n{tables}");
    let broker = manifest("levada-broker", "[dependencies]\nlevada-log.workspace = true\n");
    accepted("crates/broker/Cargo.toml", &broker);
    let table = [
        ("levada-log", "[dependencies]\nlevada-broker.workspace = true\n", 4, "levada-log must not"),
        (
            "levada-log",
            "[dev-dependencies]\nlevada-wire = { path = \"../wire\" }\n",
            4,
            "levada-log must not",
        ),
        ("levada-io", "[build-dependencies.levada-log]\npath = \"../log\"\n", 1, "levada-io must not"),
        ("levada-io", "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"\n", 4, "tokio is only for"),
        (
            "levada-broker",
            "[dependencies]\ncodec = { package = \"kafka-wire\" }\n",
            1,
            "kafka-wire is only for",
        ),
        ("levada-tests", "[dependencies]\nlevada-log.workspace = true\n", 4, "levada-tests must not"),
        ("levada-new", "", 1, "no place in the table"),
    ];
    for (name, tables, line, words) in table {
        refused("crates/a/Cargo.toml", &manifest(name, tables), line, words);
    }
    accepted("Cargo.toml", "[workspace.dependencies]\nlevada-io = { path = \"crates/io\" }\n");
}

#[test]
fn unfinished_notes_are_refused() {
    let word = |halves: [&str; 2]| halves.concat();
    refused(RS, &format!("//! A.\n// {}: b\n", word(["TO", "DO"])), 2, "finish it");
    refused("docs/a.md", &format!("{} later\n", word(["FIX", "ME"])), 1, "finish it");
    accepted("docs/a.md", "The word TODOS stands alone.\n");
}

#[test]
fn developer_paths_are_refused() {
    refused("docs/a.md", &["Look into /ro", "ot/levada.\n"].concat(), 1, "one machine");
    refused("tests/python/a.py", &["open('/wo", "rk/x')\n"].concat(), 1, "one machine");
    refused("docs/a.md", "See [this](https://registry.example.com/levada).\n", 1, "registry.example.com");
    accepted("docs/a.md", "See [sendfile](https://man7.org/linux/man-pages/man2/sendfile.2.html).\n");
}

#[test]
fn broken_links_are_refused() {
    let page = ("docs/b.md", "# The Disk, in order\n");
    let about = |link: &str| complaints(&[("docs/a.md", &format!("# A\n\n[x]({link})\n")), page]);
    for good in ["b.md", "../docs/b.md", "#a", "b.md#the-disk-in-order", "../docs"] {
        assert_eq!(about(good), Vec::<String>::new(), "{good}");
    }
    for bad in ["c.md", "../b.md", "../../b.md", "#b", "b.md#disk"] {
        assert_eq!(about(bad).len(), 1, "{bad}");
    }
    accepted("docs/a.md", "```\n[x](nowhere.md)\n```\n");
}

#[test]
fn the_index_lists_every_page() {
    let page = ("docs/operating/limits.md", "# Limits\n");
    let of_index = |index: &str| complaints(&[("docs/README.md", index), page]);
    assert_eq!(of_index("[Limits](operating/limits.md#limits)\n"), Vec::<String>::new());
    let missing = of_index("[All of it](operating)\n");
    assert!(matches!(&missing[..], [one] if one.contains("docs/README.md does not list")), "{missing:?}");
}

const GOOD_ROW: &str = "| start | 35.7 ms | 4480 ms |\n";

fn table_of_figures(rows: &str) -> String {
    format!("<!-- figures: -->\n\n| Work | Levada | Kafka |\n|---|---|---|\n{rows}\n<!-- end -->\n")
}

#[test]
fn the_readme_shows_recorded_figures() {
    let figures =
        ("docs/performance/figures.md", "| start | ≤ 1/40 | 35.7 ms | 4480 ms | 1/125 | reached |\n");
    let of_row = |row: &str| {
        complaints(&[("README.md", &table_of_figures(&format!("{row}{}", GOOD_ROW.repeat(7)))), figures])
    };
    assert_eq!(of_row(GOOD_ROW), Vec::<String>::new());
    let without_a_row = complaints(&[("README.md", &table_of_figures(&GOOD_ROW.repeat(7))), figures]);
    assert!(matches!(&without_a_row[..], [one] if one.contains("7 rows instead of 8")), "{without_a_row:?}");
    let without_table = complaints(&[("README.md", "# Levada\n"), figures]);
    assert!(without_table.iter().any(|one| one.contains("0 rows instead of 8")), "{without_table:?}");
    for wrong in
        ["| start | 35.6 ms | 4480 ms |\n", "| stop | 35.7 ms | 4480 ms |\n", "| start | 35.7 ms |\n"]
    {
        let found = of_row(wrong);
        assert!(matches!(&found[..], [one] if one.starts_with("README.md:5:")), "{wrong}: {found:?}");
    }
}

#[test]
fn the_picture_shows_the_figures_of_the_readme() {
    let figures =
        ("docs/performance/figures.md", "| start | ≤ 1/40 | 35.7 ms | 4480 ms | 1/125 | reached |\n");
    let table = &table_of_figures(&GOOD_ROW.repeat(8));
    let picture = crate::picture::draw(&crate::picture::table(table)).unwrap();
    let with =
        |picture: &str| complaints(&[("README.md", table), figures, (crate::picture::PICTURE, picture)]);
    assert_eq!(with(&picture), Vec::<String>::new());
    let found = with(&picture.replace("35.7", "35.6"));
    assert!(matches!(&found[..], [one] if one.contains("cargo xtask picture")), "{found:?}");
}

#[test]
fn changelog_has_its_form_and_length() {
    refused("CHANGELOG.md", "## [0.1.0]\n", 1, "Unreleased");
    assert_eq!(super::prose::check_documents(&[]).len(), 1);
}

#[test]
fn decisions_have_a_status() {
    refused("docs/decisions/a.md", "# A\n\n**Question.** B?\n", 3, "Status");
    accepted("docs/decisions/a.md", "# A\n\n**Status.** In force.\n\n**Question.** B?\n");
}

#[test]
fn files_on_disk_have_a_page() {
    let code = ("crates/log/src/a.rs", "//! A.\nfn a() {\n    open(format!(\"{b:020}.timeindex\"));\n}\n");
    refused(code.0, code.1, 3, "docs/format");
    assert_eq!(complaints(&[code, ("docs/format/time.md", "`.timeindex`\n")]), Vec::<String>::new());
    refused("crates/broker/src/a.rs", "//! A.\nconst A: &str = \"__consumer_offsets\";\n", 2, "docs/format");
    accepted("crates/log/src/a/tests.rs", code.1);
    accepted("crates/broker/src/a.rs", "//! A.\nconst A: &str = \"max.bytes.between.snapshot\";\n");
    accepted("crates/log/src/a.rs", "//! A.\n/// Ends in \".log\".\nconst A: &str = \"blog\";\n");
}

#[test]
fn log_events_and_documentation_rows_match() {
    const PAGE: &str = "docs/operating/logs.md";
    let code = |line: &str| format!("//! A.\nfn a() {{\n    {line}\n}}\n");
    let event = code("tracing::info!(topic, \"topic lost\");");
    let row = "| Message | Level |\n|---|---|\n| `topic lost`, `topic found` | info |\n";
    let one = row.replace(", `topic found`", "");
    let found = |event: &str, page: &str| complaints(&[(RS, event), (PAGE, page)]);
    assert_eq!(found(&event, &one), Vec::<String>::new());
    assert!(found(&event, row)[0].starts_with(&format!("{PAGE}:3: ")), "{:?}", found(&event, row));
    for line in [
        "tracing::info!(\"topic gone\");",
        "log_change!(context, \"topic gone\", topic,);",
        "select! { _ = b => tracing::info!(\"topic gone\") }",
    ] {
        let found = found(&(event.clone() + &code(line)[7..]), &one);
        assert!(
            found[0].starts_with(&format!("{RS}:")) && found[0].contains("topic gone"),
            "{line}: {found:?}"
        );
    }
    let placeholder = code("tracing::info!(\"{} lost\", b);");
    assert_eq!(found(&placeholder, &one), Vec::<String>::new());
    assert_eq!(found(&code("tracing::info!(target: \"audit\", \"topic gone\");"), ""), Vec::<String>::new());
    assert_eq!(found(&code("tracing::debug!(\"topic gone\");"), ""), Vec::<String>::new());
}

#[test]
fn direct_file_access_is_refused() {
    for line in [
        "use std::fs;",
        "use std::fs::{File, OpenOptions};",
        "use std::fs::*;",
        "use std::{fs, io};",
        "fn a() { std::fs::read(b); }",
        "fn a() { File::open(b); }",
        "fn a() { std::fs::File::options(); }",
        "fn a() { b.exists(); }",
    ] {
        refused(RS, &format!("//! A.\n{line}\n"), 2, "passes `disk::Disk` by");
        accepted("crates/log/src/disk/a.rs", &format!("//! A.\n{line}\n"));
        accepted("crates/cli/src/a.rs", &format!("//! A.\n{line}\n"));
        accepted("crates/broker/src/a/tests.rs", &format!("//! A.\n{line}\n"));
    }
    accepted(RS, "//! A.\nuse std::fs::File;\nfn a(b: &std::fs::File) { rustix::fs::seek(b); }\n");
}

/// Complaints about the modules of a crate, given as (file below `src`, text).
fn cycles(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<(String, String)> = files
        .iter()
        .map(|(file, text)| (format!("crates/wire/src/{file}"), format!("//! A.\n{text}")))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (&**file, &**text)).collect();
    complaints(&files)
}

#[test]
fn modules_that_use_each_other_are_refused() {
    let direct = [("a.rs", "use crate::b::B;\n"), ("b.rs", "fn b() { crate::a::a(); }\n")];
    let told = "crates/wire/src/a.rs:2: modules in a cycle: a uses b (crates/wire/src/a.rs:2), b uses a (crates/wire/src/b.rs:2)";
    assert_eq!(cycles(&direct), [told]);

    let round = [
        ("a.rs", "mod deep;\n"),
        ("a/deep.rs", "use crate::{c, std_like};\n"),
        ("b/mod.rs", "use super::a;\n"),
        ("c.rs", "fn c() { print!(\"{}\", crate::b::B); }\n"),
    ];
    let [one] = &cycles(&round)[..] else { panic!("one cycle: {:?}", cycles(&round)) };
    assert!(one.contains("a uses c") && one.contains("c uses b") && one.contains("b uses a"), "{one}");

    let exported = [
        ("lib.rs", "mod a;\nmod b;\npub use self::b::{B, C as D};\n"),
        ("a.rs", "use crate::D;\n"),
        ("b.rs", "use crate::a::A;\n"),
    ];
    assert_eq!(cycles(&exported).len(), 1);
    let nested = [("a.rs", "mod inner { use super::super::b; }\n"), ("b.rs", "use super::a;\n")];
    assert_eq!(cycles(&nested).len(), 1);
}

#[test]
fn modules_that_use_others_one_way_are_accepted() {
    let one_way = [
        ("lib.rs", "pub use a::A;\nuse crate::b::B;\n"),
        ("a.rs", "use crate::b::B;\nuse crate::c;\n"),
        ("b.rs", "use self::deep::D;\nmod deep;\nuse crate::c::C;\n"),
        ("b/deep.rs", "use super::B;\nuse crate::b;\n"),
        ("b/a.rs", "use super::deep;\n"),
        ("c.rs", "pub(in crate::c) struct C;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ("c/tests.rs", "use crate::a::A;\n"),
        ("bin/tool.rs", "use crate::a::A;\n"),
    ];
    assert_eq!(cycles(&one_way), Vec::<String>::new());
    let others = [
        ("crates/wire/src/a.rs", "//! A.\nuse crate::b;\n"),
        ("crates/io/src/b.rs", "//! B.\nuse crate::a;\n"),
    ];
    assert_eq!(complaints(&others), Vec::<String>::new());
}
