//! Errors that indicate a failed device of a data directory.

use std::io;

use levada_log::LogError;
use rustix::io::Errno;

/// True if the device is to blame, rather than a file, a limit or a lack of space.
pub(super) fn is_device_failure(error: &LogError) -> bool {
    // A sync returns the error of the block layer: `NODATA` for a defective medium, `NOLINK` and
    // `TIMEDOUT` for a lost path, `REMOTEIO` for the target, `BADE` for a reservation, `ILSEQ` for
    // data that the device refuses to protect. `UCLEAN` and `BADMSG` come from a file system whose
    // own data is damaged.
    const DEVICE: [Errno; 13] = [
        Errno::IO,
        Errno::NODEV,
        Errno::NXIO,
        Errno::STALE,
        Errno::UCLEAN,
        Errno::BADMSG,
        Errno::NOTCONN,
        Errno::NODATA,
        Errno::NOLINK,
        Errno::TIMEDOUT,
        Errno::REMOTEIO,
        Errno::BADE,
        Errno::ILSEQ,
    ];
    let code = error.source_io().and_then(io::Error::raw_os_error);
    code.is_some_and(|code| DEVICE.iter().any(|errno| errno.raw_os_error() == code))
}
