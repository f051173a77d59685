//! `levada cp`: copies one file by the cheapest path that the file systems support, and reports the
//! path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use levada_io::copy::{Copied, CopyError, CopyOptions, copy};
use serde::Serialize;

use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Copy a file by the cheapest path, and show the path
///
/// Shares blocks if the file system can (reflink), else copies inside the kernel (copy_file_range,
/// then splice), else through memory. Holes stay holes. The permissions are copied; owner and times
/// are not. The destination appears as a whole or not at all.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cp big.iso /backup/                    into a directory, under its own name
  levada cp --force new.img disk.img            replace an existing file
  levada cp --path read-write a b               one path only, for comparison")]
pub(crate) struct Args {
    /// File to copy
    source: PathBuf,
    /// New file, or directory for it
    destination: PathBuf,
    /// Replace the destination if it exists
    #[arg(long, short)]
    force: bool,
    /// Use only this path, and fail if it does not work
    #[arg(long, value_name = "PATH")]
    path: Option<CopyPath>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Paths from file to file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CopyPath {
    /// Share blocks (FICLONE).
    Reflink,
    /// Inside the kernel, file to file.
    CopyFileRange,
    /// Inside the kernel, through a pipe.
    Splice,
    /// Read into memory, then write.
    ReadWrite,
}

impl From<CopyPath> for levada_io::Path {
    fn from(way: CopyPath) -> Self {
        match way {
            CopyPath::Reflink => Self::Reflink,
            CopyPath::CopyFileRange => Self::CopyFileRange,
            CopyPath::Splice => Self::Splice,
            CopyPath::ReadWrite => Self::ReadWrite,
        }
    }
}

/// Outcome of a copy.
#[derive(Debug, Serialize)]
struct Report {
    source: PathBuf,
    destination: PathBuf,
    paths: Vec<Share>,
    hole_bytes: u64,
}

/// Bytes that one path has copied.
#[derive(Debug, Serialize)]
struct Share {
    path: &'static str,
    bytes: u64,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let from = Source::open(&args.source)?;
    let destination = from.destination(&args.destination, args.force)?;
    let draft = TemporaryCopy::beside(&destination)?;
    let bar = progress(from.len);
    let options = CopyOptions { only: args.path.map(Into::into), counters: None };
    let copied = copy(&from.file, &draft.file, &options, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let copied = copied.map_err(|error| from.failure(&destination, error))?;
    let kept = draft.keep(from.mode, args.force);
    kept.map_err(|error| Failure::new(format!("cannot create {}: {error}", destination.display())))?;
    print(out, &Report::new(&args.source, destination, &copied), args.format.format)
}

/// The file to be copied.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    file: File,
    len: u64,
    mode: u32,
    /// Device and inode.
    identity: (u64, u64),
}

impl Source {
    fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.is_dir() {
            let what = format!("{} is a directory", path.display());
            return Err(Failure::with_next(what, "name a file"));
        }
        let (mode, identity) = (meta.permissions().mode() & 0o777, (meta.dev(), meta.ino()));
        Ok(Self { path: path.to_owned(), file, len: meta.len(), mode, identity })
    }

    /// The destination file for the argument, if it may be written.
    fn destination(&self, asked: &Path, force: bool) -> Result<PathBuf, Failure> {
        let mut path = asked.to_owned();
        if path.is_dir() {
            let name = self.path.file_name();
            path.push(name.ok_or_else(|| {
                Failure::Usage(format!("{} does not end in a file name", self.path.display()))
            })?);
        }
        let Ok(there) = fs::metadata(&path) else {
            let is_directory = asked.as_os_str().as_bytes().ends_with(b"/");
            return if is_directory { Err(no_directory(asked)) } else { Ok(path) };
        };
        if (there.dev(), there.ino()) == self.identity {
            return Err(Failure::new(format!(
                "{} and {} are the same file",
                self.path.display(),
                path.display()
            )));
        }
        if !there.is_file() {
            return Err(Failure::new(format!("{} is not a regular file", path.display())));
        }
        if !force {
            let what = format!("{} exists", path.display());
            return Err(Failure::with_next(what, "replace it with --force, or choose another name"));
        }
        Ok(path)
    }

    fn failure(&self, destination: &Path, error: CopyError) -> Failure {
        let (source, destination) = (self.path.display(), destination.display());
        let what = format!("{source} to {destination}: {error}");
        match error {
            CopyError::Refused { .. } => {
                Failure::with_next(what, "omit --path, so that levada uses the best path that works")
            }
            CopyError::Read { .. } | CopyError::Write { .. } => Failure::new(what),
        }
    }
}

fn no_directory(path: &Path) -> Failure {
    let shown = path.display();
    Failure::with_next(
        format!("there is no directory {shown}"),
        format!("mkdir {shown}, or another destination"),
    )
}

/// The copy until it is complete: a file next to the destination, removed unless it is kept.
#[derive(Debug)]
struct TemporaryCopy {
    file: File,
    path: PathBuf,
    destination: PathBuf,
}

impl TemporaryCopy {
    fn beside(destination: &Path) -> Result<Self, Failure> {
        let name = destination.file_name().unwrap_or_default().to_string_lossy();
        let path = destination.with_file_name(format!(".{name}.{}.levada-cp", std::process::id()));
        // No other user reads it before it has the permissions of the source.
        let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let failed = |error| {
            let what = format!("cannot create {}: {error}", destination.display());
            Failure::with_next(what, "check that its directory exists and that you may write to it")
        };
        Ok(Self { file: made.map_err(failed)?, path, destination: destination.to_owned() })
    }

    /// Renames the copy to its final name. Without `replace`, a file that has been created with
    /// that name is an error.
    fn keep(self, mode: u32, replace: bool) -> io::Result<()> {
        self.file.set_permissions(fs::Permissions::from_mode(mode))?;
        if replace {
            return fs::rename(&self.path, &self.destination);
        }
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let here = rustix::fs::CWD;
        match rustix::fs::renameat_with(here, &self.path, here, &self.destination, flags) {
            // File systems without that flag have links, or overwrite nothing that was not there a
            // moment ago.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !self.destination.exists() => {
                fs::rename(&self.path, &self.destination)
            }
            outcome => Ok(outcome?),
        }
    }
}

impl Drop for TemporaryCopy {
    fn drop(&mut self) {
        // Already renamed if it was kept.
        let _ = fs::remove_file(&self.path);
    }
}

/// A progress bar on a terminal, for files whose copy takes some time.
fn progress(len: u64) -> ProgressBar {
    const WORTH_WATCHING_BYTES: u64 = 64 << 20;
    let shown = len >= WORTH_WATCHING_BYTES && io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(len), target);
    let template = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Report {
    fn new(source: &Path, destination: PathBuf, copied: &Copied) -> Self {
        let share = |(path, bytes): &(levada_io::Path, u64)| Share { path: path.label(), bytes: *bytes };
        Self {
            source: source.to_owned(),
            destination,
            paths: copied.by_path.iter().map(share).collect(),
            hole_bytes: copied.hole_bytes,
        }
    }
}

fn print(out: &mut dyn Write, report: &Report, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(out, report);
    }
    let mut rows: Vec<Vec<String>> =
        report.paths.iter().map(|share| vec![share.path.to_owned(), share.bytes.to_string()]).collect();
    if report.hole_bytes > 0 {
        rows.push(vec!["(hole)".to_owned(), report.hole_bytes.to_string()]);
    }
    output::table(out, &["PATH", "BYTES"], rows)
}

#[cfg(test)]
mod tests;
