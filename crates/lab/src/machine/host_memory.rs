//! Memory on loan: some hosts take back the free memory of a virtual machine (the balloon's free
//! page reporting). The next access to such a page waits for the host to return it, which takes
//! seconds a gigabyte: more than most measurements. Pages of the page cache are not free, and pages
//! taken from it need no wait.

use std::fs::{self, File};
use std::io::Read;

use crate::error::LabError;
use crate::machine::environment::field;
use crate::machine::interrupt::Interrupt;

/// A larger share of the free bytes of memory is much.
pub(crate) const MUCH: u64 = 8;

/// The share left free: taking the last page makes all processes wait for the kernel's reclaim.
const SPARE: u64 = 16;

/// The free memory, where the host takes it back.
pub(crate) fn free_bytes() -> Option<u64> {
    const REPORTING_BIT: usize = 5;
    let devices = fs::read_dir("/sys/bus/virtio/drivers/virtio_balloon").into_iter().flatten().flatten();
    let mut features = devices.filter_map(|device| fs::read(device.path().join("features")).ok());
    let reports = features.any(|bits| bits.get(REPORTING_BIT) == Some(&b'1'));
    reports.then(|| meminfo_bytes("MemFree"))
}

/// Number of bytes to be [taken home](take_home) before a measurement; 0 if hardly any are on loan.
pub(crate) fn wanted_bytes() -> u64 {
    let total = meminfo_bytes("MemTotal");
    let free = free_bytes().filter(|free| *free > total / MUCH);
    free.map_or(0, |free| free - total / SPARE)
}

/// Makes page cache out of this number of bytes of free memory by reading a file that is one hole,
/// which takes no space on the device. The cache exists as long as the file. Blocks for seconds a
/// gigabyte; `show` gets the progress.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn take_home(hole: &mut File, all: u64, show: &mut dyn FnMut(u64)) -> Result<(), LabError> {
    const STEP: usize = 1 << 20;
    hole.set_len(all).map_err(LabError::step("cannot make a file that is a hole"))?;
    let mut buffer = vec![0; STEP];
    let mut done = 0;
    while done < all && !Interrupt::asked() {
        let read = hole.read(&mut buffer).map_err(LabError::step("cannot read a file that is a hole"))?;
        done += read as u64;
        show(done);
    }
    Ok(())
}

/// A line of `/proc/meminfo`; 0 without it.
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
    fn memory_taken_home_is_page_cache() {
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
    fn a_line_that_is_missing_is_nothing() {
        assert!(meminfo_bytes("MemTotal") > 0);
        assert_eq!(meminfo_bytes("NoSuchLine"), 0);
    }
}
