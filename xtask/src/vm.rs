//! `cargo xtask vm`: boots Debian's kernels under emulation and runs tests there that this machine
//! cannot run: TLS in the kernel, and the fallbacks of the transfer engine on an older kernel. An
//! old kernel, which cannot replace the keys of a TLS connection, and a newer one, which can.
//!
//! The kernels and a shell come from Debian's archive and are unpacked into the tests' cache; only
//! qemu is installed. The tests are the ordinary ones, with their linked libraries, in an initial
//! ramdisk. They see `LEVADA_VM`: `rekeys` if keys must be replaceable.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{deps, suite};

/// Tests for the machine: a package's unit tests whose names contain one of the words.
struct Suite {
    package: &'static str,
    filters: &'static [&'static str],
    settings: &'static str,
}

const SUITES: [Suite; 3] = [
    // Tests that need no disk and little time: the paths, and their fallbacks.
    Suite {
        package: "levada-io",
        filters: &["ktls", "probe", "sealed", "transfer::", "residency"],
        settings: "",
    },
    Suite { package: "levada-broker", filters: &["server::channel"], settings: "" },
    Suite { package: "levada-files", filters: &["server::tests"], settings: "" },
];

/// A test that runs in a separate process, because it reads the process's memory figures. At this
/// scale it fetches a gigabyte.
const GIGABYTE: Suite = Suite {
    package: "levada-broker",
    filters: &["a_gigabyte_with_resets"],
    settings: "LEVADA_TEST_SCALE=42",
};

/// Extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The tests that a change has to pass.
    Usual,
    /// The usual tests, and long ones.
    Full,
}

/// The kernel's modules that are loaded before the tests; some kernels have a few of them built in.
/// TLS loads its ciphers by name.
const MODULES: &str = "gcm aesni-intel chacha-x86_64 poly1305-x86_64 chacha20poly1305 tls";

/// Folders of these modules and of their dependencies.
const MODULE_FOLDERS: [&str; 4] = ["crypto", "arch/x86/crypto", "lib", "net/tls"];

/// The first kernel that replaces the keys of TLS 1.3.
const REKEYS: (u32, u32) = (6, 14);

/// A kernel to boot, and the tests to run on it.
struct Machine {
    /// Directory of its unpacked package.
    kernel: PathBuf,
    /// Directory of busybox.
    shell: PathBuf,
    suites: Vec<Suite>,
    limit: Duration,
}

/// Prepares and boots the machines; fails if one test in them fails, or if one does not reach its
/// end. A newer kernel that cannot be downloaded is skipped.
pub(crate) fn run(root: &Path, extent: Extent) -> Result<(), String> {
    let shell = deps::install_vm()?;
    let mut kernels = vec![shell.clone()];
    match deps::install_newer_kernel() {
        Ok(kernel) => kernels.push(kernel),
        Err(error) => eprintln!("skipped: a newer kernel, because it cannot be downloaded: {error}"),
    }
    let mut failed = Vec::new();
    for kernel in kernels {
        let machine = Machine::new(kernel, shell.clone(), extent);
        let version = machine.version()?;
        eprintln!("    kernel {version}");
        let started = Instant::now();
        if let Err(error) = machine.run(root) {
            failed.push(format!("{version}: {error}"));
        }
        eprintln!("    kernel {version}: {:.0} s", started.elapsed().as_secs_f64());
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

impl Machine {
    fn new(kernel: PathBuf, shell: PathBuf, extent: Extent) -> Self {
        // Emulation is some twenty times slower, and builds may run at the same time.
        let mut machine = Self { kernel, shell, suites: SUITES.into(), limit: Duration::from_secs(1200) };
        if extent == Extent::Full {
            machine.suites.push(GIGABYTE);
            machine.limit = Duration::from_secs(3600);
        }
        machine
    }

    fn run(&self, root: &Path) -> Result<(), String> {
        let image = tempdir()?;
        let outcome = self.fill(root, &image).and_then(|disk| self.boot(&disk));
        fs::remove_dir_all(&image).map_err(|error| format!("{}: {error}", image.display()))?;
        outcome
    }

    /// Directory of the modules, below the root of a system or of a package.
    fn modules(&self) -> PathBuf {
        let places = ["lib/modules", "usr/lib/modules"].map(|place| self.kernel.join(place));
        let [old, new] = places;
        if old.exists() { old } else { new }
    }

    /// The kernel's release name: `6.1.0-40-cloud-amd64`.
    fn version(&self) -> Result<String, String> {
        only_entry(&self.modules())
    }

    /// Path of the kernel: in `boot`, or with its modules.
    fn image(&self) -> Result<PathBuf, String> {
        let places = [self.kernel.join("boot"), self.modules().join(self.version()?)];
        let files = places.iter().flat_map(fs::read_dir).flatten().flatten().map(|entry| entry.path());
        let mut images = files.filter(|path| path.to_string_lossy().contains("vmlinuz"));
        images.next().ok_or_else(|| "the kernel's package has no kernel".to_owned())
    }

    /// The value of `LEVADA_VM` for the tests.
    fn promise(&self) -> Result<&'static str, String> {
        let version = self.version()?;
        let mut numbers = version.split(['.', '-', '+']).map_while(|number| number.parse().ok());
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Ok(if found >= REKEYS { "rekeys" } else { "1" })
    }

    /// Builds the ramdisk and returns its path.
    fn fill(&self, root: &Path, image: &Path) -> Result<PathBuf, String> {
        let inside = image.join("root");
        for folder in ["bin", "sbin", "proc", "sys", "dev", "tmp"] {
            make(&inside.join(folder))?;
        }
        copy(&self.shell.join("bin/busybox"), &inside.join("bin/busybox"))?;
        self.fill_modules(&inside)?;
        let mut lines = String::new();
        for Suite { package, filters, settings } in &self.suites {
            let binary = test_binary(root, package)?;
            copy(&binary, &inside.join(package))?;
            for library in libraries(&binary)? {
                copy(&library, &inside.join(library.strip_prefix("/").unwrap_or(&library)))?;
            }
            let filters = filters.join(" ");
            lines += &format!("{settings} /{package} --test-threads=2 {filters}; echo \"{MARK} $?\"\n");
        }
        let init = inside.join("init");
        let script =
            INIT.replace("MODULES", MODULES).replace("PROMISE", self.promise()?).replace("TESTS", &lines);
        fs::write(&init, script)
            .and_then(|()| fs::set_permissions(&init, fs::Permissions::from_mode(0o755)))
            .map_err(|error| format!("{}: {error}", init.display()))?;
        let disk = image.join("disk");
        let pack = format!("find . | ./bin/busybox cpio -o -H newc > {}", disk.display());
        quiet(Command::new("sh").args(["-c", &pack]).current_dir(&inside))?;
        Ok(disk)
    }

    fn fill_modules(&self, inside: &Path) -> Result<(), String> {
        let version = self.version()?;
        let (from, to) = (self.modules().join(&version), inside.join("lib/modules").join(&version));
        for folder in MODULE_FOLDERS {
            let target = to.join("kernel").join(folder);
            make(target.parent().unwrap_or(&target))?;
            quiet(Command::new("cp").arg("-r").arg(from.join("kernel").join(folder)).arg(&target))?;
        }
        // Newer packages have no lists, and the modules compressed.
        for list in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
            if from.join(list).exists() {
                copy(&from.join(list), &to.join(list))?;
            }
        }
        let unpack = "find . -name '*.ko.xz' -exec \"$0\" unxz {} +";
        let busybox = inside.join("bin/busybox");
        quiet(Command::new("sh").args(["-c", unpack]).arg(&busybox).current_dir(&to))?;
        quiet(Command::new(&busybox).args(["depmod", "-b"]).arg(inside).arg(&version))
    }

    /// Runs the machine and passes on its output.
    fn boot(&self, disk: &Path) -> Result<(), String> {
        let mut qemu = Command::new("qemu-system-x86_64");
        // Emulated throughout: a machine that is itself virtual may offer KVM and hang in it.
        qemu.args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-nographic", "-no-reboot"]);
        qemu.args(["-net", "none", "-append", "console=ttyS0 quiet panic=-1", "-initrd"]).arg(disk);
        qemu.arg("-kernel").arg(self.image()?);
        let child = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("qemu-system-x86_64: {error}"))?;
        let output = child.stdout.take().expect("stdout was asked for");
        let started = Instant::now();
        let reader = std::thread::spawn(move || {
            let mut codes = Vec::new();
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_string();
                println!("{line}");
                codes.extend(line.strip_prefix(MARK).map(|code| code.trim().to_string()));
            }
            codes
        });
        while child.try_wait().map_err(|error| format!("qemu: {error}"))?.is_none() {
            if started.elapsed() > self.limit {
                // The process may be ending at this moment.
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let codes = reader.join().map_err(|_| "reading the console failed")?;
        if codes.len() == self.suites.len() && codes.iter().all(|code| code == "0") {
            Ok(())
        } else {
            Err(format!("tests in the machine failed: exit codes {codes:?} of {} suites", self.suites.len()))
        }
    }
}

fn tempdir() -> Result<PathBuf, String> {
    let path = std::env::temp_dir().join(format!("levada-vm-{}", std::process::id()));
    fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Precedes the exit code of each suite on the console.
const MARK: &str = "levada-vm exit code";

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
ln -s /bin/busybox /sbin/modprobe
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in MODULES; do modprobe $module || echo "no module $module"; done
ip link set lo up
export LEVADA_VM=PROMISE PATH=/bin TMPDIR=/tmp
cd /tmp
TESTS
poweroff -f
"#;

fn only_entry(folder: &Path) -> Result<String, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entry = fs::read_dir(folder).map_err(failed)?.next();
    let entry = entry.ok_or_else(|| format!("{}: empty", folder.display()))?.map_err(failed)?;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

/// Builds the unit tests of all libraries, and returns the path of a package's tests. For a single
/// package, Cargo would select other features of the dependencies, and compile these again.
fn test_binary(root: &Path, package: &str) -> Result<PathBuf, String> {
    let arguments = ["test", "--locked", "--workspace", "--lib", "--no-run", suite::MESSAGES];
    let output = suite::cargo(root, &arguments).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the tests of {package}:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let built = suite::binaries(&String::from_utf8_lossy(&output.stdout))?;
    let found = built.into_iter().find(|binary| binary.package == package);
    found.map(|binary| binary.executable).ok_or_else(|| format!("cargo names no tests of {package}"))
}

/// The libraries that a binary is linked to, the loader included.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("ldd").arg(binary).output().map_err(|error| format!("ldd: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    to.parent().map_or(Ok(()), make)?;
    fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn quiet(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
