//! Configuration of the remote store of tiered storage: `levada.remote.*`. No key has a credential.

use std::time::Duration;

use levada_tiered::{StoreLayout, StoreLocation, StoreOptions};

use super::ConfigError;
use super::key::HIDDEN;
use super::reader::Reader;

const STORE: &str = "levada.remote.store";
const LAYOUT: &str = "levada.remote.layout";
const ENDPOINT: &str = "levada.remote.s3.endpoint";
const REGION: &str = "levada.remote.s3.region";
const KMS_KEY: &str = "levada.remote.s3.kms.key.id";
const TIMEOUT: &str = "levada.remote.request.timeout.ms";
const LOCATIONS: &str =
    "file:///DIRECTORY, s3://BUCKET, gs://BUCKET or az://CONTAINER; after a bucket, /PREFIX";

impl Reader<'_> {
    /// The store that tiered storage uses; none if `remote.log.storage.system.enable` is off. The
    /// settings have no [`Self::store_problems`].
    pub(crate) fn remote_store(&self) -> Option<StoreOptions> {
        let location = self.text(STORE).parse().ok();
        location.filter(|_| self.has_remote_storage()).map(|location| StoreOptions {
            location,
            layout: self.layout(),
            endpoint: self.given(ENDPOINT),
            region: self.given(REGION),
            kms_key: self.given(KMS_KEY),
            request_timeout: Duration::from_millis(self.long(TIMEOUT).unsigned_abs()),
        })
    }

    /// Mistakes in the keys of the store.
    pub(crate) fn store_problems(&self) -> Vec<ConfigError> {
        let mut problems = Vec::new();
        match self.given(STORE).map(|store| store.parse::<StoreLocation>()) {
            None if self.has_remote_storage() => {
                let needed = format!("{LOCATIONS}, because remote.log.storage.system.enable is true");
                problems.push(self.invalid(STORE, needed));
            }
            None => {}
            Some(Err(_)) => problems.push(self.invalid_address(STORE, LOCATIONS)),
            Some(Ok(location)) => {
                if self.layout() == StoreLayout::Local && !location.is_directory() {
                    problems.push(self.invalid(LAYOUT, format!("aiven, because {STORE} is not a directory")));
                }
                let is_s3 = matches!(location, StoreLocation::S3(_));
                let other = [ENDPOINT, REGION, KMS_KEY].into_iter().find(|key| self.given(key).is_some());
                let other = other.filter(|_| !is_s3);
                let empty = || format!("empty, because {STORE} is not in S3");
                problems.extend(other.map(|key| self.invalid(key, empty())));
            }
        }
        if self.given(ENDPOINT).is_some_and(|url| !is_endpoint(&url)) {
            problems.push(self.invalid_address(ENDPOINT, "http://HOST:PORT or https://HOST:PORT"));
        }
        problems
    }

    fn has_remote_storage(&self) -> bool {
        self.is_true("remote.log.storage.system.enable")
    }

    fn layout(&self) -> StoreLayout {
        self.text(LAYOUT).parse().expect("the table has all layouts and settings are checked")
    }

    fn given(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// An address that is not valid. One with a user's name may have a password too, so that the
    /// message does not have it.
    fn invalid_address(&self, key: &str, allowed: &str) -> ConfigError {
        let mut error = self.invalid(key, allowed.to_owned());
        if let ConfigError::Invalid { value, .. } = &mut error
            && value.contains('@')
        {
            HIDDEN.clone_into(value);
        }
        error
    }
}

/// True if a text is the URL of a server without user, path and query.
fn is_endpoint(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    host.is_some_and(|host| !host.is_empty() && host.bytes().all(valid))
}
