//! Stores from their location: the endpoint is configuration, credentials are of the environment.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use levada_tiered::{Bucket, StoreLocation, StoreOptions};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ObjectStore, RetryConfig};

use super::Cloud;
use super::http::Connector;
use super::variables::Variables;
use crate::error::{RemoteError, RemoteErrorKind};

mod shared_file;

/// Repetitions of a request after an error that may pass.
const RETRIES: usize = 4;

/// Opens a store in a bucket. Reads the system's certificates and the files that `variables` name,
/// and sends no request.
pub(crate) fn open(options: &StoreOptions, variables: &Variables) -> Result<Cloud, RemoteError> {
    let operation = || format!("cannot open {}", options.location);
    let unsupported =
        |cause: &dyn Display| RemoteError::new(RemoteErrorKind::Unsupported, operation(), cause);
    let connector = Connector::new(options.request_timeout).map_err(|error| unsupported(&error))?;
    let store: Arc<dyn ObjectStore> = match &options.location {
        StoreLocation::S3(bucket) => Arc::new(
            s3(options, bucket, variables)
                .with_http_connector(connector)
                .with_retry(retry(options.request_timeout))
                .build()
                .map_err(|error| unsupported(&error))?,
        ),
        StoreLocation::Google(bucket) => Arc::new(
            google(variables)
                .with_bucket_name(&bucket.name)
                .with_http_connector(connector)
                .with_retry(retry(options.request_timeout))
                .build()
                .map_err(|error| unsupported(&error))?,
        ),
        StoreLocation::Azure(bucket) => Arc::new(
            azure(variables)
                .with_container_name(&bucket.name)
                .with_http_connector(connector)
                .with_retry(retry(options.request_timeout))
                .build()
                .map_err(|error| unsupported(&error))?,
        ),
        StoreLocation::Directory(_) => return Err(unsupported(&"a directory is no object store")),
    };
    let whole = options.location.to_string();
    let prefix = options.location.prefix();
    let name = whole.strip_suffix(prefix).unwrap_or(&whole).trim_end_matches('/').to_string();
    Cloud::new(store, name, options.request_timeout).map_err(|error| RemoteError::local(operation(), &error))
}

fn s3(options: &StoreOptions, bucket: &Bucket, variables: &Variables) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in variables.with_prefix("AWS_") {
        if let Ok(key) = AmazonS3ConfigKey::from_str(&name) {
            builder = builder.with_config(key, value);
        }
    }
    builder = builder.with_bucket_name(&bucket.name);
    if let Some(credentials) = shared_file::credentials(variables) {
        builder = builder
            .with_access_key_id(credentials.access_key_id)
            .with_secret_access_key(credentials.secret_access_key);
        if let Some(token) = credentials.session_token {
            builder = builder.with_token(token);
        }
    }
    if let Some(endpoint) = &options.endpoint {
        // A server without TLS is used only if the configuration names it so.
        builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
    }
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    match &options.kms_key {
        Some(key) => builder.with_sse_kms_encryption(key),
        None => builder,
    }
}

fn google(variables: &Variables) -> GoogleCloudStorageBuilder {
    let mut builder = GoogleCloudStorageBuilder::new();
    for (name, value) in variables.with_prefix("GOOGLE_") {
        if let Ok(key) = GoogleConfigKey::from_str(&name) {
            builder = builder.with_config(key, value);
        }
    }
    builder
}

fn azure(variables: &Variables) -> MicrosoftAzureBuilder {
    let mut builder = MicrosoftAzureBuilder::new();
    for (name, value) in variables.with_prefix("AZURE_") {
        if let Ok(key) = AzureConfigKey::from_str(&name) {
            builder = builder.with_config(key, value);
        }
    }
    match variables.value("IDENTITY_ENDPOINT") {
        Some(endpoint) => builder.with_msi_endpoint(endpoint),
        None => builder,
    }
}

fn retry(request_timeout: Duration) -> RetryConfig {
    RetryConfig { max_retries: RETRIES, retry_timeout: request_timeout * 4, ..RetryConfig::default() }
}
