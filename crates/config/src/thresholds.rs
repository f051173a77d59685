//! The source of the transfer thresholds: a file that `levada lab calibrate` writes, or else the
//! defaults.

use std::path::{Path, PathBuf};

use levada_io::Thresholds;
use levada_io::thresholds::{CalibrationError, default_files};

use super::Settings;

/// The file that the configuration names.
pub(super) fn named_thresholds(settings: &Settings) -> Option<PathBuf> {
    let path = settings.text("levada.thresholds.file").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// The thresholds in force and their file: the named file, otherwise the first that exists,
/// otherwise the defaults without a file.
///
/// # Errors
/// The file that is named is not there, or one of its lines is wrong.
pub fn thresholds(named: Option<&Path>) -> Result<(Thresholds, Option<PathBuf>), CalibrationError> {
    let file = named.map(Path::to_owned).or_else(|| default_files().into_iter().find(|file| file.exists()));
    match file {
        Some(file) => Ok((Thresholds::load(&file)?, Some(file))),
        None => Ok((Thresholds::default(), None)),
    }
}
