//! Parts of the virtual machine: Debian's kernels, unpacked and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Tool, cache, packages, remove, run, say, stamped, works};

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
    packages(VM_TOOLS.iter())?;
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

/// Unpacks the kernel of another release than the machine's: with separate lists, and without
/// installing it. Newer packages have modules and kernel in separate packages.
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
