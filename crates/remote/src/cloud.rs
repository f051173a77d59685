//! Objects of an object store: Amazon S3 and servers with its protocol, Google Cloud Storage, Azure
//! Blob Storage.
//!
//! Requests run on a small runtime of this store. A call blocks its thread until the response, an
//! error after repetitions, or its time limit.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::{RemoteError, RemoteErrorKind};
use crate::objects::{ObjectEntry, Objects, Part, Sink, read_parts, too_long, total_length, wrong_length};

mod causes;
mod http;
mod open;
mod variables;

pub(crate) use open::open;
pub use variables::Variables;

/// Bytes of a part of a large object. With S3's limit of 10 000 parts, the largest segment (2 GiB)
/// needs 256.
const PART_SIZE: u64 = 8 * 1024 * 1024;
/// Parts that are sent at the same time: three need 24 MiB of memory.
const PARTS_AT_ONCE: usize = 3;
/// Slowest accepted rate of a whole operation.
const BYTES_PER_SECOND: u64 = 64 * 1024;
/// Threads of the runtime. They move bytes between sockets and the threads that call.
const THREADS: usize = 2;

/// A store in a bucket.
pub(crate) struct Cloud {
    store: Arc<dyn ObjectStore>,
    handle: Handle,
    /// Runtime of the client; `None` only while the store is dropped.
    runtime: Option<Runtime>,
    /// Location without the prefix, for messages.
    name: String,
    request_timeout: Duration,
}

impl Cloud {
    fn new(store: Arc<dyn ObjectStore>, name: String, request_timeout: Duration) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("remote-store")
            .enable_all()
            .build()?;
        Ok(Self { store, handle: runtime.handle().clone(), runtime: Some(runtime), name, request_timeout })
    }

    /// Runs `work`, whose transfer has at most `bytes`, within its time limit.
    fn run<T>(
        &self,
        operation: impl FnOnce() -> String,
        bytes: u64,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, RemoteError> {
        let limit = self.request_timeout * 6 + Duration::from_secs(bytes / BYTES_PER_SECOND);
        match self.handle.block_on(async { timeout(limit, work).await }) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(causes::remote_error(operation(), &error)),
            Err(_) => {
                let cause = format!("the store did not finish within {} s", limit.as_secs());
                Err(RemoteError::new(RemoteErrorKind::Unavailable, operation(), cause))
            }
        }
    }

    fn path(&self, key: &str) -> Result<Path, RemoteError> {
        Path::parse(key).map_err(|error| {
            let operation = format!("cannot use {}", self.name(key));
            RemoteError::new(RemoteErrorKind::Unsupported, operation, error)
        })
    }

    /// Sends a large object in parts. Without the end of all parts, the store keeps no object.
    fn put_parts(&self, key: &str, parts: &[Part<'_>], length: u64) -> Result<(), RemoteError> {
        let path = self.path(key)?;
        let operation = || format!("cannot write {}", self.name(key));
        let mut upload = self.run(operation, 0, self.store.put_multipart(&path))?;
        let sent = self.send_parts(&mut upload, key, (parts, length));
        let done = sent.and_then(|()| self.run(operation, 0, upload.complete()).map(drop));
        // The answer to the last request may be lost; its repetition fails, because the upload is
        // gone. Only this segment has the key, so that an object of its length is the segment.
        let done = done.or_else(|error| {
            let found = self.run(operation, 0, self.store.head(&path));
            if found.is_ok_and(|found| found.size == length) { Ok(()) } else { Err(error) }
        });
        if done.is_err() {
            // The reason of the failure counts. The store's life cycle rules remove parts that
            // remain.
            let _ = self.run(operation, 0, upload.abort());
        }
        done
    }

    fn send_parts(
        &self,
        upload: &mut Box<dyn MultipartUpload>,
        key: &str,
        (parts, length): (&[Part<'_>], u64),
    ) -> Result<(), RemoteError> {
        let operation = || format!("cannot write {}", self.name(key));
        let mut requests = JoinSet::new();
        let mut at = 0;
        while at < length || !requests.is_empty() {
            if at < length && requests.len() < PARTS_AT_ONCE {
                let end = (at + PART_SIZE).min(length);
                let payload = self.payload(key, parts, at..end)?;
                requests.spawn_on(upload.put_part(payload), &self.handle);
                at = end;
                continue;
            }
            let next = async { requests.join_next().await.transpose() };
            let next = async { next.await.map_err(object_store::Error::from) };
            self.run(operation, PART_SIZE, async { next.await?.transpose() })?;
        }
        Ok(())
    }

    fn payload(&self, key: &str, parts: &[Part<'_>], range: Range<u64>) -> Result<PutPayload, RemoteError> {
        // At most a part's size.
        let mut bytes = BytesMut::zeroed((range.end - range.start) as usize);
        read_parts(parts, range.start, &mut bytes).map_err(|error| {
            RemoteError::local(format!("cannot read the segment for {}", self.name(key)), &error)
        })?;
        Ok(PutPayload::from_bytes(bytes.freeze()))
    }

    /// Requests a range of an object, or all of it. The response contains its length.
    fn request(&self, key: &str, range: Option<Range<u64>>) -> Result<GetResult, RemoteError> {
        let path = self.path(key)?;
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        self.run(|| format!("cannot read {}", self.name(key)), 0, self.store.get_opts(&path, options))
    }
}

impl Drop for Cloud {
    /// Ends the threads without waiting for the name service, which a connection may be using.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Objects for Cloud {
    fn put(&self, key: &str, parts: &[Part<'_>]) -> Result<(), RemoteError> {
        let length = total_length(parts);
        if length > PART_SIZE {
            return self.put_parts(key, parts, length);
        }
        let (path, payload) = (self.path(key)?, self.payload(key, parts, 0..length)?);
        let operation = || format!("cannot write {}", self.name(key));
        self.run(operation, length, self.store.put(&path, payload)).map(drop)
    }

    fn create(&self, key: &str, content: &[u8]) -> Result<bool, RemoteError> {
        let (path, payload) = (self.path(key)?, PutPayload::from(content.to_vec()));
        let operation = || format!("cannot write {}", self.name(key));
        let put = self.store.put_opts(&path, payload, PutMode::Create.into());
        let created = async {
            match put.await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.run(operation, content.len() as u64, created)
    }

    fn read(&self, key: &str, length: u64, range: Range<u64>, sink: Sink<'_>) -> Result<(), RemoteError> {
        let count = range.end - range.start;
        if count == 0 {
            return Ok(());
        }
        let found = self.request(key, Some(range.clone()))?;
        if found.meta.size != length {
            return Err(wrong_length(&self.name(key), found.meta.size, length));
        }
        let operation = || format!("cannot read {}", self.name(key));
        let mut stream = found.into_stream();
        let mut left = count;
        while let Some(bytes) = self.next(&operation, &mut stream)? {
            left = match left.checked_sub(bytes.len() as u64) {
                Some(left) => left,
                None => return Err(too_long(&self.name(key), length + 1, length)),
            };
            sink(&bytes).map_err(|error| {
                RemoteError::local(format!("cannot keep bytes of {}", self.name(key)), &error)
            })?;
        }
        if left > 0 { Err(self.cut_short(key, count - left, count)) } else { Ok(()) }
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<Vec<u8>, RemoteError> {
        let found = self.request(key, None)?;
        if found.meta.size > limit {
            return Err(too_long(&self.name(key), found.meta.size, limit));
        }
        let length = found.meta.size;
        let operation = || format!("cannot read {}", self.name(key));
        let mut stream = found.into_stream();
        let mut whole = Vec::new();
        while let Some(bytes) = self.next(&operation, &mut stream)? {
            if (whole.len() + bytes.len()) as u64 > length {
                return Err(too_long(&self.name(key), length + 1, length));
            }
            whole.extend_from_slice(&bytes);
        }
        if (whole.len() as u64) < length {
            return Err(self.cut_short(key, whole.len() as u64, length));
        }
        Ok(whole)
    }

    fn delete(&self, keys: &[String]) -> Result<(), RemoteError> {
        for key in keys {
            let path = self.path(key)?;
            let operation = || format!("cannot delete {}", self.name(key));
            match self.run(operation, 0, self.store.delete(&path)) {
                Err(error) if error.kind == RemoteErrorKind::NotFound => {}
                deleted => deleted?,
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &str, each: &mut dyn FnMut(ObjectEntry)) -> Result<(), RemoteError> {
        let path = self.path(prefix.trim_end_matches('/'))?;
        let operation = || format!("cannot list {}", self.name(prefix));
        let mut entries = self.store.list(Some(&path).filter(|path| !path.as_ref().is_empty()));
        while let Some(entry) = self.run(operation, 0, async { entries.next().await.transpose() })? {
            each(ObjectEntry { key: entry.location.as_ref().to_string(), length: entry.size });
        }
        Ok(())
    }

    fn name(&self, key: &str) -> String {
        format!("{}/{key}", self.name)
    }
}

impl Cloud {
    /// The error for a response that ends early: the connection broke, or the server sent less than
    /// announced.
    fn cut_short(&self, key: &str, received: u64, expected: u64) -> RemoteError {
        let cause = format!("the response ended after {received} of {expected} bytes");
        RemoteError::new(RemoteErrorKind::Unavailable, format!("cannot read {}", self.name(key)), cause)
    }

    fn next<S>(&self, operation: &dyn Fn() -> String, stream: &mut S) -> Result<Option<Bytes>, RemoteError>
    where
        S: StreamExt<Item = object_store::Result<Bytes>> + Unpin,
    {
        self.run(operation, 0, async { stream.next().await.transpose() })
    }
}
