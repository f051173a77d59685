//! Location and layout of a remote store, as `levada.remote.store` and `levada.remote.layout` name
//! them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Configuration of a remote store. Credentials are not part of it: the store finds them in the
/// environment of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Location of the objects.
    pub location: StoreLocation,
    /// Names and contents of the objects.
    pub layout: StoreLayout,
    /// URL of a server with the protocol of S3; none for Amazon's own.
    pub endpoint: Option<String>,
    /// Region of the bucket; none for the environment's.
    pub region: Option<String>,
    /// Key of Amazon KMS that encrypts new objects; none for the encryption that the bucket has.
    pub kms_key: Option<String>,
    /// Longest wait for a response of the store, and for each further piece of it.
    pub request_timeout: Duration,
}

/// Location of the objects of a remote store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// A directory of a file system that all brokers share: `file:///path`.
    Directory(PathBuf),
    /// A bucket of Amazon S3 or of a server with its protocol: `s3://bucket/prefix`.
    S3(Bucket),
    /// A bucket of Google Cloud Storage: `gs://bucket/prefix`.
    Google(Bucket),
    /// A container of Azure Blob Storage: `az://container/prefix`.
    Azure(Bucket),
}

/// Bucket or container, and the first part of the keys of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Name of the bucket or container.
    pub name: String,
    /// First part of all keys: empty, or text that ends with a slash.
    pub prefix: String,
}

/// Names and contents of the objects of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreLayout {
    /// Three objects a segment, as Aiven's plug-in for Apache Kafka writes them without compression
    /// and encryption.
    #[default]
    Aiven,
    /// Five or six files a segment in a directory a partition, as Kafka's `LocalTieredStorage`.
    Local,
}

/// Reason why a text is not the location or layout of a store.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The text does not begin with a known scheme.
    #[error("`{0}` is not a store: write file:///DIRECTORY, s3://BUCKET, gs://BUCKET or az://CONTAINER")]
    Scheme(String),
    /// The directory is relative or not in the text.
    #[error("`{0}` is not an absolute directory: write file:///DIRECTORY with three slashes")]
    Directory(String),
    /// The name of the bucket is missing or has other characters than letters, digits, `.`, `-`,
    /// `_`.
    #[error("`{0}` does not name a bucket: write {1}://BUCKET or {1}://BUCKET/PREFIX")]
    Bucket(String, &'static str),
    /// A part of the prefix is empty, `.` or `..`, or has a control character.
    #[error("`{0}` has a prefix that is not valid: no part may be empty, `.` or `..`")]
    Prefix(String),
    /// The layout is unknown.
    #[error("`{0}` is not a layout: write `aiven` or `local`")]
    Layout(String),
}

impl StoreLocation {
    /// True if the objects are files of this machine.
    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// First part of the keys of all objects; empty for a directory.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Directory(_) => "",
            Self::S3(bucket) | Self::Google(bucket) | Self::Azure(bucket) => &bucket.prefix,
        }
    }
}

impl FromStr for StoreLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let unknown = || LocationError::Scheme(text.to_string());
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        match scheme {
            "file" if rest.starts_with('/') => Ok(Self::Directory(PathBuf::from(rest))),
            "file" => Err(LocationError::Directory(text.to_string())),
            "s3" => bucket(text, rest, "s3").map(Self::S3),
            "gs" => bucket(text, rest, "gs").map(Self::Google),
            "az" => bucket(text, rest, "az").map(Self::Azure),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, bucket) = match self {
            Self::Directory(path) => return write!(formatter, "file://{}", path.display()),
            Self::S3(bucket) => ("s3", bucket),
            Self::Google(bucket) => ("gs", bucket),
            Self::Azure(bucket) => ("az", bucket),
        };
        write!(formatter, "{scheme}://{}/{}", bucket.name, bucket.prefix)
    }
}

impl FromStr for StoreLayout {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        match text {
            "aiven" => Ok(Self::Aiven),
            "local" => Ok(Self::Local),
            _ => Err(LocationError::Layout(text.to_string())),
        }
    }
}

fn bucket(text: &str, rest: &str, scheme: &'static str) -> Result<Bucket, LocationError> {
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(valid) {
        return Err(LocationError::Bucket(text.to_string(), scheme));
    }
    let prefix = prefix.trim_end_matches('/');
    if prefix.is_empty() {
        return Ok(Bucket { name: name.to_string(), prefix: String::new() });
    }
    let sound = |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control);
    if !prefix.split('/').all(sound) {
        return Err(LocationError::Prefix(text.to_string()));
    }
    Ok(Bucket { name: name.to_string(), prefix: format!("{prefix}/") })
}

#[cfg(test)]
mod tests;
