//! Description of the machine, as far as figures depend on it.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use levada_io::Caps;
use levada_io::probe::Support;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::cpu::Places;
use super::{host_memory, noise};

/// Congestion control of both ends of every connection, so that results of different machines can
/// be compared.
pub const CONGESTION: &str = "cubic";

/// Facts on which figures depend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the processor.
    pub processor: String,
    /// Number of processors that this process may use.
    pub processors: usize,
    /// Hypervisor, if the machine is virtual and reports it.
    pub hypervisor: Option<String>,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Free memory in bytes, if the host takes back free memory (free page reporting of the
    /// balloon). The first access to such a page waits for the host.
    #[serde(default)]
    pub on_loan_bytes: Option<u64>,
    /// Lowest and highest frequency at the start, in MHz, if the machine shows them.
    pub frequency_mhz: Option<(u64, u64)>,
    /// Processors to which sender and receiver are bound; none if the kernel places them.
    pub pinning: Option<(usize, usize)>,
    /// Actual congestion control of both ends: [`CONGESTION`], or the system's if the kernel does
    /// not allow that.
    pub congestion: String,
    /// Congestion control of the system.
    pub congestion_default: String,
    /// MTU by device, in bytes.
    pub mtu: BTreeMap<String, u32>,
    /// Directory of the temporary files.
    pub directory: String,
    /// File system of that directory.
    pub file_system: String,
    /// Average number of runnable processes in the minute before.
    pub load: f64,
    /// True if the program was compiled with optimisation.
    pub optimised: bool,
    /// Capabilities of the machine, with the reason for each missing one.
    pub capabilities: BTreeMap<String, String>,
}

impl Environment {
    /// Describes this machine. `dir` is the directory of temporary files, `places` the processors
    /// of the two sides.
    pub fn of(dir: &Path, caps: &Caps, places: &Places) -> Self {
        let support = |(name, support): (&'static str, &Support)| {
            let what = match support {
                Support::Works => "works".to_owned(),
                Support::Absent { why, .. } => why.clone(),
            };
            (name.to_owned(), what)
        };
        let (congestion, congestion_default) = congestion();
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: places.allowed().len(),
            hypervisor: hypervisor(),
            memory_bytes: host_memory::meminfo_bytes("MemTotal"),
            on_loan_bytes: host_memory::free_bytes(),
            frequency_mhz: noise::frequency_mhz(),
            pinning: places.sender().zip(places.receiver()),
            congestion,
            congestion_default,
            mtu: mtu(),
            directory: dir.parent().unwrap_or(dir).display().to_string(),
            file_system: file_system(dir),
            load: load(),
            optimised: !cfg!(debug_assertions),
            capabilities: caps.iter().map(support).collect(),
        }
    }

    /// Reasons why figures of this machine are not reliable; empty if there is none.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if !self.optimised {
            doubts.push("this is a debug build: figures show the compiler, not the machine; next: cargo build --release".to_owned());
        }
        if self.processors < 2 {
            doubts.push(
                "one processor for both sides: they take turns; next: a machine with two or more".to_owned(),
            );
        }
        if self.load > 0.5 * self.processors as f64 {
            doubts.push(format!(
                "the load was {:.1} on {} processors before; next: stop other programs (top shows them), wait a minute, and repeat",
                self.load, self.processors
            ));
        }
        if let Some(free) = self.on_loan_bytes
            && free > self.memory_bytes / host_memory::MUCH
        {
            let free = free as f64 / 1e9;
            doubts.push(format!(
                "the host has reclaimed {free:.0} GB of guest memory, and the first access to it is slow; next: turn off the virtual machine's balloon, or its free page reporting"
            ));
        }
        if self.congestion != CONGESTION {
            doubts.push(format!(
                "congestion control {} instead of {CONGESTION}; next: modprobe tcp_{CONGESTION}",
                self.congestion
            ));
        }
        doubts
    }
}

/// Congestion control of a socket after a request for [`CONGESTION`], and before.
fn congestion() -> (String, String) {
    let unknown = || "unknown".to_owned();
    let Ok(socket) = TcpListener::bind("127.0.0.1:0") else { return (unknown(), unknown()) };
    let system = sockopt::tcp_congestion(&socket).unwrap_or_else(|_| unknown());
    let set = sockopt::set_tcp_congestion(&socket, CONGESTION);
    (set.map_or_else(|_| system.clone(), |()| CONGESTION.to_owned()), system)
}

/// Value of the first line in a file that begins with the key.
pub(crate) fn field(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn hypervisor() -> Option<String> {
    let named = fs::read_to_string("/sys/class/dmi/id/product_name").ok().map(|name| name.trim().to_owned());
    let flags = field("/proc/cpuinfo", "flags")?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| named.unwrap_or_else(|| "yes".into()))
}

fn mtu() -> BTreeMap<String, u32> {
    let devices = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let device = |entry: fs::DirEntry| {
        let mtu = fs::read_to_string(entry.path().join("mtu")).ok()?.trim().parse().ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), mtu))
    };
    devices.filter_map(device).collect()
}

/// File system type of the longest mount point that contains the directory.
fn file_system(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        dir.starts_with(&point).then_some((point.len(), kind))
    };
    mounts
        .lines()
        .filter_map(mount)
        .max_by_key(|(len, _)| *len)
        .map_or_else(|| "unknown".into(), |(_, kind)| kind)
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}
