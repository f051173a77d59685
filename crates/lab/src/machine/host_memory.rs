//! Reclaimed memory: some hosts take back the free memory of a virtual machine (the balloon's free
//! page reporting). The next access to such a page waits for the host to return it, which takes
//! seconds per gigabyte: more than most measurements. Pages of the page cache are not free, and
//! memory from evicted pages needs no wait.

use std::fs::{self, File};
use std::io::Read;

use crate::error::LabError;
use crate::machine::environment::field;
use crate::machine::interrupt::Interrupt;

/// Divisor of the total memory. More free memory than this share must be taken back first.
pub(crate) const MUCH: u64 = 8;

/// Divisor of the total memory. This share stays free, because all processes wait for the kernel's
/// reclaim if no page is free.
const SPARE: u64 = 16;

/// Free memory in bytes; none if the host does not take back free memory.
pub(crate) fn free_bytes() -> Option<u64> {
    const REPORTING_BIT: usize = 5;
    let devices = fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon").into_iter().flatten().flatten();
    let mut features = devices.filter_map(|device| fs::read(device.path().join("features")).ok());
    let reports = features.any(|bits| bits.get(REPORTING_BIT) == Some(&b'1'));
    reports.then(|| meminfo_bytes("MemFree"))
}

/// Number of bytes to [take back](take_home) before a measurement; 0 if little memory is free.
pub(crate) fn wanted_bytes() -> u64 {
    let total = meminfo_bytes("MemTotal");
    let free = free_bytes().filter(|free| *free > total / MUCH);
    free.map_or(0, |free| free - total / SPARE)
}

/// Converts free memory to page cache by reading `all` bytes of a sparse file, which takes no space
/// on the device. The page cache exists as long as the file. Blocks for seconds per gigabyte.
/// `show` gets the bytes so far.
///
/// # Errors
/// This process cannot read the file.
pub(crate) fn take_home(hole: &mut File, all: u64, show: &mut dyn FnMut(u64)) -> Result<(), LabError> {
    const STEP: usize = 1 << 20;
    hole.set_len(all).map_err(LabError::step("cannot set the length of a sparse file"))?;
    let mut buffer = vec![0; STEP];
    let mut done = 0;
    while done < all && !Interrupt::asked() {
        let read = hole.read(&mut buffer).map_err(LabError::step("cannot read a sparse file"))?;
        done += read as u64;
        show(done);
    }
    Ok(())
}

/// Value of a line of `/proc/meminfo` in bytes; 0 without the line.
pub(crate) fn meminfo_bytes(key: &str) -> u64 {
    let text = field("/proc/meminfo", key).unwrap_or_default();
    text.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use levada_io::{Extent, residency};

    use super::*;

    #[test]
    fn reclaimed_memory_becomes_page_cache() {
        const LEN: u64 = (4 << 20) + 4096;
        let mut hole = tempfile::tempfile().unwrap();
        let mut shown = Vec::new();
        take_home(&mut hole, LEN, &mut |done| shown.push(done)).unwrap();
        assert_eq!(shown.last(), Some(&LEN));
        assert!(shown.is_sorted());
        let extent = Extent { file: Arc::new(hole), offset: 0, len: LEN };
        assert!(residency::cached_bytes(&extent).is_none_or(|cached| cached == LEN));
    }

    #[test]
    fn missing_line_of_meminfo_counts_as_zero() {
        assert!(meminfo_bytes("MemTotal") > 0);
        assert_eq!(meminfo_bytes("NoSuchLine"), 0);
    }
}
