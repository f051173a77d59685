//! Tests of what is read from the kernel, on files as kernels write them.

use std::fs;

use super::*;

const MIB: u64 = 1 << 20;
const MEMINFO: &str =
    "MemTotal:       24684084 kB\nMemFree:        20000000 kB\nMemAvailable:   22000000 kB\n";
const CALM: &str =
    "some avg10=1.25 avg60=0.00 avg300=0.00 total=0\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=0\n";

/// Reads a machine that says this.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Kernel) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let kernel = Kernel::at(dir.path());
    (dir, kernel)
}

#[test]
fn memory_state_of_this_machine_is_read() {
    let seen = Kernel::default().observe().unwrap();
    assert!(seen.free <= seen.total && seen.available <= seen.total && seen.total > 0, "{seen:?}");
    assert!((0.0..=100.0).contains(&seen.stalled), "{seen:?}");
}

#[test]
fn without_control_groups_machine_memory_counts() {
    let (_dir, mut kernel) = machine(&[("proc/meminfo", MEMINFO), ("proc/pressure/memory", CALM)]);
    let kib = 1024;
    let expected = Observation {
        total: 24_684_084 * kib,
        free: 20_000_000 * kib,
        available: 22_000_000 * kib,
        stalled: 1.25,
    };
    assert_eq!(kernel.observe(), Some(expected));
    assert_eq!(machine(&[]).1.observe(), None);
}

#[test]
fn the_smallest_memory_limit_counts() {
    let stat = "anon 5\ninactive_file 209715200\nactive_file 104857600\n";
    let (_dir, mut kernel) = machine(&[
        ("proc/meminfo", MEMINFO),
        ("proc/self/cgroup", "0::/pod/broker\n"),
        ("sys/fs/cgroup/pod/broker/memory.max", "max\n"),
        ("sys/fs/cgroup/pod/broker/memory.current", "419430400\n"),
        ("sys/fs/cgroup/pod/broker/memory.stat", stat),
        ("sys/fs/cgroup/pod/memory.max", "1073741824\n"),
        ("sys/fs/cgroup/pod/memory.current", "524288000\n"),
        ("sys/fs/cgroup/pod/memory.stat", stat),
    ]);
    let seen = kernel.observe().unwrap();
    assert_eq!((seen.total, seen.free, seen.available), (1024 * MIB, 524 * MIB, 824 * MIB));
}

#[test]
fn cgroup_v1_limits_are_read() {
    let (_dir, mut kernel) = machine(&[
        ("proc/meminfo", MEMINFO),
        ("proc/self/cgroup", "5:cpuacct,cpu:/x\n4:memory:/docker/abc\n0::/\n"),
        // In the container its own group is the mount.
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n"),
        (
            "sys/fs/cgroup/memory/memory.stat",
            "inactive_file 1\ntotal_inactive_file 104857600\ntotal_active_file 0\n",
        ),
    ]);
    let seen = kernel.observe().unwrap();
    assert_eq!((seen.total, seen.free, seen.available), (512 * MIB, 0, 100 * MIB));
}

#[test]
fn refaults_measure_pressure_without_psi() {
    let (dir, mut kernel) =
        machine(&[("proc/meminfo", MEMINFO), ("proc/vmstat", "workingset_refault_file 1000000\n")]);
    assert_eq!(kernel.observe().unwrap().stalled, 0.0, "what was before says nothing");
    fs::write(dir.path().join("proc/vmstat"), "workingset_refault_file 1040960\n").unwrap();
    let percent = kernel.observe().unwrap().stalled;
    assert_eq!(percent, 40_960.0 * rustix::param::page_size() as f64 / REFAULTED_PERCENT as f64);
    assert_eq!(kernel.observe().unwrap().stalled, 0.0);
}
