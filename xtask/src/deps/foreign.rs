//! Needs of the foreign suites: their sources, and the tools that run them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Tool, cache, make, packages, remove, run, say, stamped, works};

const SUITE_TOOLS: [Tool; 2] = [
    Tool { probe: &["ip", "-V"], package: "iproute2" },
    Tool { probe: &["unshare", "--version"], package: "util-linux" },
];

/// Needs of the foreign suites: their sources, and the tools that run them.
pub(crate) fn install_suites(root: &Path) -> Result<(), String> {
    super::install(root, &super::NAMES.into())?;
    if !works(&["go", "version"]) {
        return Err(
            "`go` is missing: install Go 1.26 or later (Debian's is too old for these clients)".into()
        );
    }
    packages(SUITE_TOOLS.iter())?;
    let (cache, suites) = (cache()?.join("suites"), root.join("tests/suites"));
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let requirements = [suites.join("kafka_python/requirements.txt")];
    stamped(&requirements, &cache.join("python"), make::python)?;
    let lists = [suites.join("kafka_python/sdist.txt"), suites.join("kafka_python/service.py")];
    stamped(&lists, &cache.join("kafka-python"), |lists, target| kafka_python(&lists[0], &lists[1], target))?;
    let go = suites.join("go");
    run(Command::new("go").args(["mod", "download"]).current_dir(&go))?;
    // Modules that only the tests of these packages import: some of them run without a network.
    let list = [
        "list",
        "-test",
        "-deps",
        "-tags=functional",
        "github.com/IBM/sarama",
        "github.com/Shopify/toxiproxy/v2/cmd/server",
        "github.com/segmentio/kafka-go",
        "github.com/segmentio/kafka-go/topics",
        "github.com/twmb/franz-go/pkg/kgo",
    ];
    run(Command::new("go").args(list).current_dir(&go).stdout(Stdio::null()))
}

/// Unpacks kafka-python with its tests, and adds the one module that its package omits.
fn kafka_python(list: &Path, service: &Path, target: &Path) -> Result<(), String> {
    say(&format!("kafka-python's own tests into {}", target.display()));
    let fresh = target.with_extension("new");
    remove(&fresh)?;
    let mut pip = Command::new(target.with_file_name("python").join("bin/pip"));
    pip.args(["download", "--disable-pip-version-check", "--no-input", "--quiet", "--no-deps"]);
    run(pip.args(["--no-binary", ":all:", "-d"]).arg(&fresh).arg("-r").arg(list))?;
    let unpack = "tar -xzf kafka_python-*.tar.gz --strip-components=1 && touch test/__init__.py";
    run(Command::new("sh").args(["-c", unpack]).current_dir(&fresh))?;
    let copied = fs::copy(service, fresh.join("test/service.py"));
    copied.map_err(|error| format!("{}: {error}", service.display()))?;
    remove(target)?;
    fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
}
