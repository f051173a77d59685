//! Tests of the formats, and of the command line.

use std::path::Path;

use super::contents::{Entry, gzip};
use super::{Options, Source, TARGETS, binary, inspect, legal, listed, notes, release, rootfs, tarball};

fn elf(kinds: &[u32]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..5].copy_from_slice(b"\x7fELF\x02");
    file[0x20] = 64;
    file[0x36] = 56;
    file[0x38] = u8::try_from(kinds.len()).unwrap();
    for kind in kinds {
        let mut header = vec![0; 56];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        file.extend(header);
    }
    file
}

#[test]
fn a_binary_that_names_a_loader_is_dynamic() {
    assert_eq!(binary::is_dynamic(&elf(&[1, 2, 6])), Some(false));
    assert_eq!(binary::is_dynamic(&elf(&[1, 3, 6])), Some(true));
    assert_eq!(binary::is_dynamic(&elf(&[1, 3])[..100]), None, "cut in the middle of the headers");
    assert_eq!(binary::is_dynamic(b"#!/bin/sh\n"), None);
}

#[test]
fn given_binary_is_listed_as_not_kept() {
    let note = |kinds: &[u32]| binary::note(Path::new("target/release/levada"), &elf(kinds));
    let said = note(&[1, 3, 6]).unwrap();
    assert!(
        said.starts_with("target/release/levada: not static: ") && said.contains("checks only"),
        "{said}"
    );
    assert_eq!(note(&[1, 2, 6]), None);
    let files = [("levada.deb".to_owned(), vec![0; 3])];
    assert_eq!(listed(None, &files), "levada.deb (3 bytes)\n", "the directory is removed at the end");
    assert_eq!(listed(Some(Path::new("/out")), &files), "/out/levada.deb (3 bytes)\n");
}

#[test]
fn binary_over_its_size_ceiling_is_refused() {
    for profile in ["dist", "release"] {
        assert_eq!(binary::keeps_ceiling(20_000_000, profile), Ok(()));
        let refused = binary::keeps_ceiling(500_000_000, profile).unwrap_err();
        assert!(refused.contains("has 500000000 bytes, the ceiling is"), "{refused}");
    }
    assert_eq!(binary::keeps_ceiling(500_000_000, "debug"), Ok(()));
}

#[test]
fn systemd_unit_allows_priority_system_calls() {
    let unit = include_str!("../../../deploy/systemd/levada.service");
    assert_eq!(inspect::forbidden(unit), Vec::<&str>::new());
    let without = unit.replace(" setpriority", "");
    assert_eq!(inspect::forbidden(&without), ["setpriority"]);
    let again = format!("{unit}SystemCallFilter=~@resources\n");
    assert_eq!(inspect::forbidden(&again), inspect::CALLS, "a later line takes them back");
}

#[test]
fn packaged_socket_unit_matches_a_listener() {
    let socket = include_str!("../../../deploy/systemd/levada.socket");
    let config = include_str!("../../../deploy/server.properties");
    assert!(inspect::fits(socket, config));
    assert!(!inspect::fits(&socket.replace("=plaintext", "=http"), config), "another name");
    assert!(!inspect::fits(&socket.replace(":9092", ":9093"), config), "another address");
    assert!(!inspect::fits(&socket.replace("FileDescriptorName", "#"), config), "no name");
    assert!(!inspect::fits(socket, "#listeners=PLAINTEXT://127.0.0.1:9092\n"), "no listeners");
}

#[test]
fn equal_entries_yield_equal_archives() {
    let entries = [Entry::directory("etc", 0o755), Entry::file("etc/x", 0o640, "text")];
    let archive = || gzip(&tarball::archive(&entries, 1_700_000_000, |_| tarball::ROOT).unwrap());
    assert_eq!(archive(), archive());
    let plain = tarball::archive(&entries, 1_700_000_000, |_| tarball::ROOT).unwrap();
    let mut read = tar::Archive::new(&plain[..]);
    let found: Vec<_> = read
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let name = entry.path().unwrap().display().to_string();
            (name, header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap())
        })
        .collect();
    let expected = [("etc/", 0o755), ("etc/x", 0o640)];
    assert_eq!(found, expected.map(|(name, mode)| (name.to_owned(), mode, 1_700_000_000, 0)));
}

#[test]
fn dist_option_without_value_or_effect_is_refused() {
    let parse = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    };
    let options = parse("--binary /tmp/levada --check --previous old.deb").unwrap();
    assert_eq!(options.source, Source::Built("/tmp/levada".into()));
    assert!(options.is_tried);
    assert_eq!(options.previous, Some("old.deb".into()));
    assert_eq!(parse("--binary levada --starts 7").unwrap().starts, Some(7));
    assert_eq!(parse("").unwrap().source, Source::Profile("dist".to_owned()));
    let native = release::native();
    assert_eq!(parse("").unwrap().targets, [native]);
    assert!(native.starts_with(std::env::consts::ARCH), "{native}");
    let [intel, arm] = TARGETS;
    let both = parse(&format!("--target {intel} --target {arm} --target {intel}")).unwrap();
    assert_eq!(both.targets, TARGETS, "each once");
    let foreign = &format!("--binary levada --target {}", if native == intel { arm } else { intel });
    let starts = ["--starts 7", "--binary levada --starts 0", "--binary levada --check --starts 7"];
    let others = ["--profile", "--previous old.deb", "--binary", "twice", "--target mips", foreign];
    for line in starts.iter().chain(&others) {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn source_archive_contains_its_commit() {
    let commit = "74d36a2ec0ffee";
    assert_eq!(release::archived(&format!("{commit} 1764460800\n")), Some((commit, "1764460800")));
    assert_eq!(release::archived("$Format:%H %ct$\n"), None, "git has not filled in the formats");
}

#[test]
fn release_notes_are_one_section_without_links() {
    let changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-30\n\n### Storage\n\n\
        - [Tiers](docs/tiers.md) of [KIP-405](https://cwiki.apache.org/x).\n\n## [1.1.0]\n\n- Old.\n";
    let page = notes::of(changelog, "1.2.0").unwrap();
    let start =
        "# Levada 1.2.0\n\n### Storage\n\n- Tiers of [KIP-405](https://cwiki.apache.org/x).\n\n### Files\n";
    assert!(page.starts_with(start), "{page}");
    assert!(!page.contains("Old"), "{page}");
    for version in ["Unreleased", "1.2", "1.3.0"] {
        assert!(notes::of(changelog, version).is_err(), "{version}");
    }
}

#[test]
fn links_of_an_archive_have_their_targets() {
    let entries = [Entry::directory("bin", 0o755), Entry::link("bin/sh", "/usr/bin/levada-container")];
    let archive = tarball::archive(&entries, 1, |_| tarball::ROOT).unwrap();
    let mut read = tar::Archive::new(&archive[..]);
    let link = read.entries().unwrap().last().unwrap().unwrap();
    assert_eq!(link.link_name().unwrap().unwrap().to_str(), Some("/usr/bin/levada-container"));
    assert_eq!(link.path().unwrap().to_str(), Some("bin/sh"));
}

#[test]
fn image_is_tested_with_its_own_settings() {
    let mut config = serde_json::json!({
        "User": "65532:65533",
        "Env": ["PATH=/usr/bin", "LEVADA_CONFIG=/etc/x"],
        "Entrypoint": ["/usr/bin/levada"],
        "Cmd": ["serve"],
        "WorkingDir": "/var/lib/levada",
        "Healthcheck": { "Test": ["CMD", "/usr/bin/levada", "cluster", "health"] },
    });
    let expected = [
        ("ACCOUNT", "65532"),
        ("GROUP", "65533"),
        ("PLACE", "/var/lib/levada"),
        ("SETTINGS", "PATH=/usr/bin LEVADA_CONFIG=/etc/x"),
        ("ENTRY", "/usr/bin/levada"),
        ("SERVE", "/usr/bin/levada serve"),
        ("HEALTH", "/usr/bin/levada cluster health"),
    ];
    let expected = expected.map(|(name, value)| (name, value.to_owned())).to_vec();
    assert_eq!(rootfs::settings(&config), Some(expected));
    config["Env"] = serde_json::json!(["TITLE=two words"]);
    assert_eq!(rootfs::settings(&config), None, "a word with a space would become two");
}

#[test]
fn debian_packages_refer_to_debians_licence_text() {
    let copyright = legal::copyright();
    assert!(
        copyright.starts_with("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n")
    );
    assert!(copyright.contains("/usr/share/common-licenses/Apache-2.0"), "{copyright}");
    assert!(copyright.lines().all(|line| line.len() <= 80), "{copyright}");
    let entries = [Entry::file(legal::COPYRIGHT, 0o644, copyright), Entry::file("usr/bin/x", 0o755, "x")];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let anywhere = legal::with_text(&root, &entries).unwrap();
    assert!(String::from_utf8_lossy(anywhere[0].bytes()).contains("END OF TERMS AND CONDITIONS"));
    assert_eq!(anywhere[1].bytes(), b"x");
}

#[test]
fn the_package_changelog_has_debians_form() {
    let expected = "levada (1.2.3) unstable; urgency=medium\n\n  \
        * Release 1.2.3. /usr/share/doc/levada/CHANGELOG.md lists the changes.\n\n \
        -- Levada maintainers <maintainers@levada.invalid>  Mon, 30 Nov 2026 12:00:00 +0000\n";
    assert_eq!(legal::changelog("1.2.3", "Mon, 30 Nov 2026 12:00:00 +0000"), expected);
}
