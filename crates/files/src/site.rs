//! The site: the served directory with its settings, and the lookup of a path in it.

use std::io;
use std::path::PathBuf;

use globset::{Glob, GlobMatcher};

use crate::encoding::Encoding;
use crate::root::{DiskWait, Fault, Links, Opened, Root};
use crate::target;

/// Settings for a directory.
#[derive(Debug, Clone, Default)]
pub struct SiteOptions {
    /// Directory to serve.
    pub directory: PathBuf,
    /// True if each host is served from the directory of its name in that directory, and any other
    /// from `default`.
    pub hosts: bool,
    /// Names of index files; the first existing one is served.
    pub index: Vec<String>,
    /// True if directories without such a file are listed.
    pub listing: bool,
    /// True if names that begin with a dot are served.
    pub hidden: bool,
    /// Symbolic links that are followed.
    pub links: Links,
    /// True if precompressed files are served instead of plain ones.
    pub precompressed: bool,
    /// The file that is sent with status 404.
    pub not_found: Option<String>,
    /// The file that replaces a missing one, with status 200.
    pub fallback: Option<String>,
    /// Cache-Control by pattern of the path, the first that matches.
    pub cache: Vec<CacheRule>,
    /// Origins that may read responses; `*` is any.
    pub cors: Vec<String>,
}

/// The Cache-Control of the files whose path matches a pattern.
#[derive(Debug, Clone)]
pub struct CacheRule {
    pattern: GlobMatcher,
    value: String,
}

impl CacheRule {
    /// Reads `PATTERN=VALUE`; the pattern is matched against the path without its first slash, and
    /// its `*` also matches slashes.
    ///
    /// # Errors
    /// Which part is malformed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (pattern, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is no PATTERN=VALUE"))?;
        let visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if value.trim().is_empty() || !value.bytes().all(visible) {
            return Err(format!("{value:?} is not a value for Cache-Control"));
        }
        let glob = Glob::new(pattern).map_err(|error| format!("pattern {pattern:?}: {error}"))?;
        Ok(Self { pattern: glob.compile_matcher(), value: value.trim().to_owned() })
    }
}

/// A served directory.
#[derive(Debug)]
pub struct Site {
    options: SiteOptions,
    root: Root,
    not_found: Option<Vec<u8>>,
    fallback: Option<Vec<u8>>,
}

/// The directory for hosts without a separate one.
const DEFAULT_HOST: &str = "default";

/// The reason why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The directory cannot be opened.
    #[error("cannot serve {}: {source}", path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A page to send instead of a missing file cannot be named like that.
    #[error("{option} {path:?}: {reason}; name a file by its path in the directory")]
    Page {
        /// Command-line option.
        option: &'static str,
        /// Value of the option.
        path: String,
        /// Description of the fault.
        reason: &'static str,
    },
}

/// The end of a path.
#[derive(Debug)]
pub enum Found {
    /// A file with its precompressed forms.
    File(Box<FoundFile>),
    /// A directory that was requested without a final slash.
    Redirect,
    /// A directory without an index file, to be listed.
    Listing(Opened),
    /// A path without a file.
    Missing,
    /// A file that the process may not read.
    Forbidden,
}

/// A file and its precompressed forms.
#[derive(Debug)]
pub struct FoundFile {
    /// The file's path in its root, for the type and the patterns.
    pub path: Vec<u8>,
    /// The file without encoding.
    pub plain: Opened,
    /// The encoded files, in the order of [`Encoding::ALL`].
    pub encoded: [Option<Opened>; Encoding::ALL.len()],
}

impl Site {
    /// Opens the directory.
    ///
    /// # Errors
    /// The directory cannot be opened, or an option contains a path that no request can have.
    pub fn open(options: SiteOptions) -> Result<Self, SiteError> {
        let refused = |source| SiteError::Directory { path: options.directory.clone(), source };
        let root = Root::open(&options.directory, options.links).map_err(refused)?;
        let page = |option, path: &Option<String>| -> Result<Option<Vec<u8>>, SiteError> {
            let Some(path) = path else { return Ok(None) };
            let fault = |reason| SiteError::Page { option, path: path.clone(), reason };
            let mut normal = Vec::new();
            let escaped = path.replace('%', "%25");
            let shape = target::normalise(escaped.as_bytes(), &mut normal)
                .map_err(|refusal| fault(refusal.reason))?;
            if shape.directory {
                return Err(fault("it is a directory"));
            }
            Ok(Some(normal))
        };
        let not_found = page("--not-found", &options.not_found)?;
        let fallback = page("--fallback", &options.fallback)?;
        Ok(Self { root, not_found, fallback, options })
    }

    /// Options of the site.
    #[must_use]
    pub fn options(&self) -> &SiteOptions {
        &self.options
    }

    /// Path of the file that is sent instead of a missing one, and true if the response is 200
    /// instead of 404.
    pub(crate) fn substitute(&self) -> Option<(&[u8], bool)> {
        let fallback = self.fallback.as_deref().map(|path| (path, true));
        fallback.or_else(|| self.not_found.as_deref().map(|path| (path, false)))
    }

    /// The Cache-Control of a path.
    pub(crate) fn cache_control(&self, path: &[u8]) -> Option<&str> {
        let path = String::from_utf8_lossy(path);
        let rule = self.options.cache.iter().find(|rule| rule.pattern.is_match(&*path))?;
        Some(&rule.value)
    }

    /// Looks up a path in the form of [`target::normalise`]; `directory` is true if it ended with a
    /// slash.
    ///
    /// # Errors
    /// The file system's, and [`Fault::WouldWait`] without patience.
    pub fn find(
        &self,
        host: Option<&str>,
        (path, directory): (&[u8], bool),
        disk_wait: DiskWait,
    ) -> Result<Found, Fault> {
        let of_host = if self.options.hosts { Some(self.host_root(host, disk_wait)?) } else { None };
        let root = match &of_host {
            None => &self.root,
            Some(Some(root)) => root,
            Some(None) => return Ok(Found::Missing),
        };
        let found =
            if directory { self.stand_in(root, path, disk_wait) } else { self.file(root, path, disk_wait) };
        match found {
            Err(Fault::Missing) => Ok(Found::Missing),
            Err(Fault::Forbidden) => Ok(Found::Forbidden),
            other => other,
        }
    }

    /// The directory of a host, or the default for other hosts.
    fn host_root(&self, host: Option<&str>, disk_wait: DiskWait) -> Result<Option<Root>, Fault> {
        for name in host.into_iter().chain([DEFAULT_HOST]) {
            match self.root.below(name.as_bytes(), disk_wait) {
                Ok(root) => return Ok(Some(root)),
                Err(Fault::Missing) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(None)
    }

    fn stand_in(&self, root: &Root, path: &[u8], disk_wait: DiskWait) -> Result<Found, Fault> {
        for name in &self.options.index {
            let separator = if path.is_empty() { "" } else { "/" };
            let index = [path, separator.as_bytes(), name.as_bytes()].concat();
            match self.file(root, &index, disk_wait) {
                Ok(Found::File(file)) => return Ok(Found::File(file)),
                Ok(_) | Err(Fault::Missing) => {}
                Err(fault) => return Err(fault),
            }
        }
        if !self.options.listing {
            return Ok(Found::Missing);
        }
        let opened = root.file(path, disk_wait)?;
        Ok(if opened.is_directory { Found::Listing(opened) } else { Found::Missing })
    }

    fn file(&self, root: &Root, path: &[u8], disk_wait: DiskWait) -> Result<Found, Fault> {
        let plain = root.file(path, disk_wait)?;
        if plain.is_directory {
            return Ok(Found::Redirect);
        }
        let mut encoded = [const { None }; Encoding::ALL.len()];
        if self.options.precompressed {
            for (slot, encoding) in encoded.iter_mut().zip(Encoding::ALL) {
                let beside = [path, encoding.ending().as_bytes()].concat();
                match root.file(&beside, disk_wait) {
                    // A precompressed file older than the plain file is of another version.
                    Ok(opened)
                        if !opened.is_directory
                            && opened.file_version.modified >= plain.file_version.modified =>
                    {
                        *slot = Some(opened);
                    }
                    Ok(_) | Err(Fault::Missing | Fault::Forbidden) => {}
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(Found::File(Box::new(FoundFile { path: path.to_vec(), plain, encoded })))
    }
}
