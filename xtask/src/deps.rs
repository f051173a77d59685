//! Installs what the black-box tests run: Debian packages, Python virtual environments, packages of
//! Node.js and of Rust, nginx, Prometheus, Java jars, and the tests' own Java programs.
//!
//! Downloads land in one cache directory outside the repository, each stamped with a
//! hash of the file that lists it, so a second run neither installs anything nor needs a network.
//! Compiled clients land in the target directory, stamped in the same way.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A command that must work, and the Debian package that brings it.
struct Tool {
    probe: &'static [&'static str],
    package: &'static str,
}

const TOOLS: [Tool; 11] = [
    Tool { probe: &["ab", "-V"], package: "apache2-utils" },
    Tool { probe: &["aria2c", "--version"], package: "aria2" },
    Tool { probe: &["chromium", "--version"], package: "chromium" },
    Tool { probe: &["curl", "--version"], package: "curl" },
    Tool { probe: &["javac", "-version"], package: "default-jdk-headless" },
    Tool { probe: &["kcat", "-V"], package: "kcat" },
    Tool { probe: &["mvn", "--version"], package: "maven" },
    Tool { probe: &["python3", "-c", "import ensurepip, venv"], package: "python3-venv" },
    Tool { probe: &["rclone", "version"], package: "rclone" },
    Tool { probe: &["strace", "-V"], package: "strace" },
    Tool { probe: &["wget", "--version"], package: "wget" },
];

const SUITE_TOOLS: [Tool; 2] = [
    Tool { probe: &["ip", "-V"], package: "iproute2" },
    Tool { probe: &["unshare", "--version"], package: "util-linux" },
];

/// Tools that inspect packages.
const INSPECTION_TOOLS: [Tool; 4] = [
    Tool { probe: &["dpkg-deb", "--version"], package: "dpkg" },
    Tool { probe: &["rpm", "--version"], package: "rpm" },
    Tool { probe: &["skopeo", "--version"], package: "skopeo" },
    Tool { probe: &["systemd-analyze", "--version"], package: "systemd" },
];

/// Tools that boot a Debian to try packages in.
const CONTAINER_TOOLS: [Tool; 2] = [
    Tool { probe: &["debootstrap", "--version"], package: "debootstrap" },
    Tool { probe: &["systemd-nspawn", "--version"], package: "systemd-container" },
];

const VM_TOOLS: [Tool; 2] = [
    Tool { probe: &["qemu-system-x86_64", "--version"], package: "qemu-system-x86" },
    Tool { probe: &["dpkg-deb", "--version"], package: "dpkg" },
];

/// True if [`install_vm`] can succeed here: the tools are there, or can be installed, and the
/// machine's archive is Debian's. Ubuntu has no package of that kernel.
pub(crate) fn can_install_vm() -> bool {
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !system.lines().any(|line| line == "ID=debian") {
        return false;
    }
    let there = VM_TOOLS.iter().all(|tool| works(tool.probe));
    works(&["apt-get", "--version"]) && (there || rustix::process::geteuid().is_root())
}

/// Parts of the virtual machine, unpacked: a kernel with its modules, and busybox. Only qemu
/// is installed.
pub(crate) fn install_vm() -> Result<PathBuf, String> {
    packages(&VM_TOOLS)?;
    let cache = cache()?;
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let target = cache.join("vm");
    stamped(&[], &target, |_, target| debian_kernel(target))?;
    Ok(target)
}

/// Unpacks Debian's kernel for virtual machines, without installing it.
fn debian_kernel(target: &Path) -> Result<(), String> {
    say(&format!("a kernel for the virtual machine into {}", target.display()));
    let fresh = target.with_extension("new");
    remove(&fresh)?;
    fs::create_dir(&fresh).map_err(|error| format!("{}: {error}", fresh.display()))?;
    let script = "set -e; \
        kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p' | head -1); \
        apt-get download -qq \"$kernel\" busybox-static; \
        for package in *.deb; do dpkg-deb -x \"$package\" .; done; rm ./*.deb";
    run(Command::new("sh").args(["-c", script]).current_dir(&fresh))?;
    remove(target)?;
    fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
}

/// Debian's releases that may have a kernel newer than the machine's own, the newest first.
const NEWER: [&str; 2] = ["trixie-backports", "bookworm-backports"];

/// A newer kernel with its modules, unpacked; an error has the reason, such as a mirror that does
/// not have it.
pub(crate) fn install_newer_kernel() -> Result<PathBuf, String> {
    let target = cache()?.join("vm-newer");
    stamped(&[], &target, |_, target| {
        let mut outcome = Ok(());
        for release in NEWER {
            outcome = newer_kernel(release, target);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    })?;
    Ok(target)
}

/// Unpacks the kernel of a release that the machine itself does not follow: with separate lists,
/// and without installing. Newer packages have modules and kernel in separate packages.
fn newer_kernel(release: &str, target: &Path) -> Result<(), String> {
    say(&format!("the kernel of {release} for the virtual machine into {}", target.display()));
    let fresh = target.with_extension("new");
    remove(&fresh)?;
    fs::create_dir(&fresh).map_err(|error| format!("{}: {error}", fresh.display()))?;
    let script = "set -e; mkdir -p apt/lists/partial apt/cache/archives/partial; \
        echo \"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main\" > apt/list; \
        own() { tool=$1; shift; \"$tool\" -o Dir::Etc::SourceList=\"$PWD/apt/list\" -o Dir::Etc::SourceParts=- \
            -o Dir::State::Lists=\"$PWD/apt/lists\" -o Dir::Cache=\"$PWD/apt/cache\" \"$@\"; }; \
        own apt-get update -qq --error-on=any; \
        kernel=$(own apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p' | head -1); \
        parts=$(own apt-cache depends \"$kernel\" | sed -n 's/.*Depends: \\(linux-\\(binary\\|modules\\)-[0-9].*\\)/\\1/p'); \
        own apt-get download -qq \"$kernel\" $parts; \
        for package in *.deb; do dpkg-deb -x \"$package\" .; done; rm -r ./*.deb apt";
    run(Command::new("sh").args(["-c", script, "sh", release]).current_dir(&fresh))?;
    remove(target)?;
    fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
}

/// Installs missing programs. Returns at once if nothing is missing.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    let cache = cache()?;
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    packages(&TOOLS)?;
    packages(&INSPECTION_TOOLS)?;
    stamped(&[root.join("tests/requirements.txt")], &cache.join("python"), |lists, target| {
        python(&lists[0], target)
    })?;
    let checker = [root.join("tests/http/requirements.txt")];
    stamped(&checker, &cache.join("http"), |lists, target| python(&lists[0], target))?;
    let schemas = [root.join("tests/kubernetes/requirements.txt")];
    stamped(&schemas, &cache.join("kubernetes"), |lists, target| python(&lists[0], target))?;
    nginx(&cache.join("nginx"));
    unpacked(&cache.join("prometheus"), "prometheus", "usr/bin/promtool --version")?;
    let libs = cache.join("kafka/libs");
    stamped(&[root.join("tests/pom.xml")], &libs, |lists, target| jars(&lists[0], target))?;
    class_archive(&libs, &root.join("tests/pom.xml"));
    stamped(
        &sources(&root.join("tests/java"), "java")?,
        &target(root).join("test-java"),
        |sources, target| compile(sources, &libs, target),
    )?;
    go_programs(&root.join("tests/go"), &target(root).join("test-go"))?;
    javascript(&root.join("tests/javascript"), &cache.join("javascript"))?;
    rust(&root.join("tests/rust"), &cache.join("rust"))
}

/// Unpacks nginx of Debian. Without it its test is skipped, with a message.
fn nginx(target: &Path) {
    if let Err(error) = unpacked(target, "nginx nginx-common", "usr/sbin/nginx -v") {
        say(&format!("no nginx: {error}"));
    }
}

/// Unpacks Debian packages without installing them, which would start their services. `probe` is a
/// command that then works there.
fn unpacked(target: &Path, packages: &str, probe: &str) -> Result<(), String> {
    stamped(&[], target, |_, target| {
        say(&format!("{packages} into {}", target.display()));
        let fresh = target.with_extension("new");
        remove(&fresh)?;
        fs::create_dir(&fresh).map_err(|error| format!("{}: {error}", fresh.display()))?;
        let script = format!(
            "set -e; get() {{ apt-get download -qq {packages}; }}; get || {{ apt-get update -qq; get; }}; \
            for package in *.deb; do dpkg-deb -x \"$package\" .; done; rm ./*.deb; {probe}"
        );
        run(Command::new("sh").args(["-c", &script]).current_dir(&fresh))?;
        remove(target)?;
        fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
    })
}

/// Builds the tests' own Go programs, and the tools that `go.mod` lists. Without Go, or their
/// dependencies, their tests are skipped, with a message.
fn go_programs(folder: &Path, target: &Path) -> Result<(), String> {
    if !works(&["go", "version"]) {
        return Ok(());
    }
    let mut files = sources(&folder.join("connect_matrix"), "go")?;
    files.extend(["go.mod", "go.sum"].map(|name| folder.join(name)));
    let built = stamped(&files, target, |_, target| {
        remove(target)?;
        fs::create_dir_all(target).map_err(|error| format!("{}: {error}", target.display()))?;
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(target.join("")).args(["./...", "tool"]);
        run(build.current_dir(folder))
    });
    built.or_else(|error| {
        say(&format!("no Go programs: {error}"));
        remove(target)
    })
}

/// Installs packages of Node.js. Without Node.js or npm, or without the packages, their tests are
/// left out, and say so.
fn javascript(folder: &Path, target: &Path) -> Result<(), String> {
    if !works(&["node", "--version"]) || !works(&["npm", "--version"]) {
        return Ok(());
    }
    let lists = ["package.json", "package-lock.json"].map(|name| folder.join(name));
    let installed = stamped(&lists, target, |lists, target| {
        say(&format!("packages of Node.js into {}", target.display()));
        copies(lists, target)?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        run(npm.current_dir(target))
    });
    installed.or_else(|error| {
        say(&format!("no packages of Node.js: {error}"));
        remove(target)
    })
}

/// Compiles the crates that the quick start in Rust uses, so that its test compiles the program
/// alone. If the crates cannot be compiled here, as without make, the test is left out and says so.
fn rust(folder: &Path, target: &Path) -> Result<(), String> {
    let lists = ["Cargo.toml", "Cargo.lock"].map(|name| folder.join(name));
    let compiled = stamped(&lists, target, |lists, target| {
        say(&format!("crates of the quick start in Rust into {}", target.display()));
        let module = target.join("module");
        copies(lists, &module)?;
        let source = module.join("src/main.rs");
        let written = fs::create_dir(module.join("src")).and_then(|()| fs::write(&source, "fn main() {}"));
        written.map_err(|error| format!("{}: {error}", source.display()))?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--locked", "--quiet", "--target-dir"]).arg(target.join("target"));
        run(cargo.current_dir(module))
    });
    compiled.or_else(|error| {
        say(&format!("no crates of the quick start in Rust: {error}"));
        remove(target)
    })
}

/// Copies files into a directory that has nothing else then.
fn copies(files: &[PathBuf], target: &Path) -> Result<(), String> {
    remove(target)?;
    fs::create_dir_all(target).map_err(|error| format!("{}: {error}", target.display()))?;
    for file in files {
        let name = file.file_name().expect("a file has a name");
        fs::copy(file, target.join(name)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// Needs of the foreign suites: their sources, and the tools that run them.
pub(crate) fn install_suites(root: &Path) -> Result<(), String> {
    install(root)?;
    if !works(&["go", "version"]) {
        return Err(
            "`go` is missing: install Go 1.26 or later (Debian's is too old for these clients)".into()
        );
    }
    packages(&SUITE_TOOLS)?;
    let (cache, suites) = (cache()?.join("suites"), root.join("tests/suites"));
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let requirements = [suites.join("kafka_python/requirements.txt")];
    stamped(&requirements, &cache.join("python"), |lists, target| python(&lists[0], target))?;
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

/// Cargo's directory for build results.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The files of a folder that end so, in order.
fn sources(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    paths.sort();
    Ok(paths)
}

/// Directory of the clients: `$LEVADA_TEST_CACHE`, or `~/.cache/levada-test`.
fn cache() -> Result<PathBuf, String> {
    if let Some(cache) = std::env::var_os("LEVADA_TEST_CACHE") {
        return Ok(cache.into());
    }
    let home = std::env::var_os("HOME").ok_or("HOME is not set: set LEVADA_TEST_CACHE to a directory")?;
    Ok(Path::new(&home).join(".cache/levada-test"))
}

/// Installs the tools that inspect packages.
pub(crate) fn install_inspection() -> Result<(), String> {
    packages(&INSPECTION_TOOLS)
}

/// Installs the tools that try packages. Returns the path in the cache of the Debian to try them
/// in.
pub(crate) fn install_container() -> Result<PathBuf, String> {
    packages(&CONTAINER_TOOLS)?;
    Ok(cache()?.join("debian"))
}

fn packages(tools: &[Tool]) -> Result<(), String> {
    let missing: Vec<&str> =
        tools.iter().filter(|tool| !works(tool.probe)).map(|tool| tool.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(format!(
            "the tests need some Debian packages: sudo apt-get install {}",
            missing.join(" ")
        ));
    }
    say(&format!("apt-get install {}", missing.join(" ")));
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing);
    run(apt.env("DEBIAN_FRONTEND", "noninteractive"))?;
    match tools.iter().find(|tool| !works(tool.probe)) {
        None => Ok(()),
        Some(tool) => {
            Err(format!("`{}` still fails after {} was installed", tool.probe.join(" "), tool.package))
        }
    }
}

fn works(probe: &[&str]) -> bool {
    let mut command = Command::new(probe[0]);
    command.args(&probe[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs `install` unless the stamp next to `target` shows that it has run for the present content
/// of `lists`.
fn stamped(
    lists: &[PathBuf],
    target: &Path,
    install: impl FnOnce(&[PathBuf], &Path) -> Result<(), String>,
) -> Result<(), String> {
    let mut hasher = DefaultHasher::new();
    for list in lists {
        let content = fs::read(list).map_err(|error| format!("{}: {error}", list.display()))?;
        content.hash(&mut hasher);
    }
    let hash = format!("{:016x}\n", hasher.finish());
    let stamp = target.with_extension("stamp");
    if target.exists() && fs::read_to_string(&stamp).is_ok_and(|old| old == hash) {
        return Ok(());
    }
    install(lists, target)?;
    fs::write(&stamp, hash).map_err(|error| format!("{}: {error}", stamp.display()))
}

fn python(requirements: &Path, target: &Path) -> Result<(), String> {
    say(&format!("Python clients into {}", target.display()));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(target))?;
    let mut pip = Command::new(target.join("bin/pip"));
    run(pip.args(["install", "--disable-pip-version-check", "--no-input", "--quiet", "-r"]).arg(requirements))
}

/// Copies the jars next to their final place and swaps them in, so that a broken download leaves
/// none.
fn jars(pom: &Path, target: &Path) -> Result<(), String> {
    say(&format!("Java clients and tools into {}", target.display()));
    let fresh = target.with_extension("new");
    remove(&fresh)?;
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--no-transfer-progress", "-f"]).arg(pom);
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    run(maven.arg(format!("-DoutputDirectory={}", fresh.display())))?;
    remove(target)?;
    fs::rename(&fresh, target).map_err(|error| format!("{}: {error}", target.display()))
}

/// Archives the classes of Kafka's broker and tools, so that each JVM of the tests starts in about
/// half the processor time. Without the archive the tests run as well.
fn class_archive(libs: &Path, list: &Path) {
    let archived = stamped(&[list.to_owned()], &libs.with_file_name("classes.jsa"), |_, archive| {
        say(&format!("an archive of Kafka's classes into {}", archive.display()));
        let script = include_str!("deps/class_archive.sh");
        run(Command::new("sh").args(["-c", script, "sh"]).args([libs, archive]))
    });
    if let Err(error) = archived {
        say(&format!("no archive of Kafka's classes: {error}"));
    }
}

/// Compiles the tests' Java programs.
fn compile(sources: &[PathBuf], libs: &Path, target: &Path) -> Result<(), String> {
    remove(target)?;
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all", "-Werror", "-proc:none", "-cp"]).arg(libs.join("*"));
    run(javac.arg("-d").arg(target).args(sources))
}

fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

fn say(what: &str) {
    eprintln!("    installing: {what}");
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {status}")) }
}
