//! The remote store of a broker: segments in one location and one layout.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use levada_tiered::{RemoteSegment, StoreLayout, StoreLocation, StoreOptions};
use levada_wire::Uuid;
use levada_wire::primitives::Bytes;
use lru::LruCache;
use parking_lot::Mutex;

use crate::cloud::{self, Variables};
use crate::directory::Directory;
use crate::error::{RemoteError, RemoteErrorKind};
use crate::layout::aiven::{self, AivenObject, Chunks, IndexLengths, Manifest};
use crate::layout::{self, IndexKind, ObjectName, local};
use crate::objects::{OWN, ObjectEntry, Objects, Part};

/// Largest index that a reader accepts. Kafka's default of `segment.index.bytes` is 10 MiB.
const INDEX_LIMIT: u64 = 64 * 1024 * 1024;
/// Largest manifest that a reader accepts. Usual ones have 800 bytes.
const MANIFEST_LIMIT: u64 = 4 * 1024 * 1024;
/// Manifests that stay in memory, so that a read of a segment needs one request.
const KEPT_MANIFESTS: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not zero");

/// File of a segment, of which only the first `length` bytes are used.
#[derive(Clone, Copy, Debug)]
pub struct SegmentFile<'a> {
    /// File, open for reading.
    pub file: &'a File,
    /// Number of bytes of the file to copy.
    pub length: u64,
}

/// Files of a closed segment that are copied to the store.
#[derive(Clone, Copy, Debug)]
pub struct SegmentFiles<'a> {
    /// Records. Its length is the `size` of the segment.
    pub log: SegmentFile<'a>,
    /// Offset index.
    pub offset_index: SegmentFile<'a>,
    /// Time index.
    pub time_index: SegmentFile<'a>,
    /// Transaction index, if the segment has aborted transactions.
    pub txn_index: Option<SegmentFile<'a>>,
    /// State of the producers at the end of the segment, as a file `.snapshot`.
    pub producer_snapshot: &'a [u8],
    /// Leader epochs up to the end of the segment, as a file `leader-epoch-checkpoint`.
    pub epochs: &'a [u8],
}

/// The remote store of a broker. All functions block for the store and may be called from several
/// threads at the same time.
pub struct Store {
    pub(crate) objects: Box<dyn Objects>,
    pub(crate) layout: StoreLayout,
    prefix: String,
    /// Manifests by the id of their segment. A segment's objects never change.
    manifests: Mutex<LruCache<Uuid, Arc<Manifest>>>,
}

impl Store {
    /// Opens a store with the credentials of the process environment. Sends no request. A store in
    /// a bucket starts two threads, which end with it.
    pub fn open(options: &StoreOptions) -> Result<Self, RemoteError> {
        Self::open_with(options, &Variables::of_process())
    }

    /// Opens a store with the credentials that `variables` have or name.
    pub fn open_with(options: &StoreOptions, variables: &Variables) -> Result<Self, RemoteError> {
        let objects: Box<dyn Objects> = match (&options.location, options.layout) {
            (StoreLocation::Directory(dir), StoreLayout::Local) => {
                Box::new(Directory::new(dir, local::SUBDIRECTORY))
            }
            (StoreLocation::Directory(dir), StoreLayout::Aiven) => Box::new(Directory::new(dir, "")),
            (_, StoreLayout::Local) => {
                let operation = format!("cannot open {}", options.location);
                let cause = "the layout `local` is only for directories";
                return Err(RemoteError::new(RemoteErrorKind::Unsupported, operation, cause));
            }
            (_, StoreLayout::Aiven) => Box::new(cloud::open(options, variables)?),
        };
        Ok(Self::of(objects, options.layout, options.location.prefix().to_string()))
    }

    /// A store with these objects; the keys of all begin with `prefix`.
    pub(crate) fn of(objects: Box<dyn Objects>, layout: StoreLayout, prefix: String) -> Self {
        Self { objects, layout, prefix, manifests: Mutex::new(LruCache::new(KEPT_MANIFESTS)) }
    }

    /// Copies the files of `segment` to the store and returns the custom metadata that reads of the
    /// segment need later (`RemoteSegment::custom_metadata`), if the layout has any. After an error
    /// the store may have some of the objects: the caller deletes them ([`Self::delete_segment`]).
    pub fn put_segment(
        &self,
        segment: &RemoteSegment,
        files: &SegmentFiles<'_>,
    ) -> Result<Option<Bytes>, RemoteError> {
        match self.layout {
            StoreLayout::Local => self.put_local(segment, files)?,
            StoreLayout::Aiven => self.put_aiven(segment, files)?,
        }
        Ok(None)
    }

    /// Passes the bytes `range` of the segment's records to `sink`, in order and in pieces of any
    /// size. The range lies within the segment's `size`. After an error `sink` may have received a
    /// part.
    pub fn fetch_log(
        &self,
        segment: &RemoteSegment,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), RemoteError> {
        let size = u64::from(segment.size.unsigned_abs());
        let chunks = self.chunks(segment)?;
        let key = self.log_key(segment)?;
        if range.end > size || range.start > range.end {
            let operation = format!("cannot read {}", self.objects.name(&key));
            let cause = format!("bytes {} to {} are outside of its {size} bytes", range.start, range.end);
            return Err(RemoteError::new(RemoteErrorKind::Damaged, operation, cause));
        }
        match chunks {
            None => self.objects.read(&key, size, range, sink),
            Some(chunks) => self.fetch_compressed(&key, &chunks, range, sink),
        }
    }

    /// Returns an index of the segment; none if the segment has no transaction index.
    pub fn fetch_index(
        &self,
        segment: &RemoteSegment,
        kind: IndexKind,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        match self.layout {
            StoreLayout::Local => {
                let found = self.objects.read_whole(&local::index_key(segment, kind), INDEX_LIMIT);
                match found {
                    Err(error) if error.kind == RemoteErrorKind::NotFound && may_be_missing(kind) => Ok(None),
                    found => found.map(Some),
                }
            }
            StoreLayout::Aiven => {
                let manifest = self.manifest(segment)?;
                manifest.index(kind).map(|range| self.fetch_place(segment, &manifest, range)).transpose()
            }
        }
    }

    /// Reads an index of a segment and the end of its records.
    ///
    /// # Errors
    /// An object is missing or damaged, or has a form that Levada does not read; a failing store.
    pub fn check_readable(&self, segment: &RemoteSegment) -> Result<(), RemoteError> {
        self.fetch_index(segment, IndexKind::Offset)?;
        let size = u64::from(segment.size.unsigned_abs());
        self.fetch_log(segment, size.saturating_sub(1)..size, &mut |_| Ok(()))
    }

    /// Deletes the objects of a segment. Objects that do not exist are no error, so that an
    /// interrupted deletion can be repeated.
    pub fn delete_segment(&self, segment: &RemoteSegment) -> Result<(), RemoteError> {
        self.manifests.lock().pop(&segment.id.id);
        self.objects.delete(&self.keys(segment)?)
    }

    /// Keys of all objects that the segment may have.
    pub fn keys(&self, segment: &RemoteSegment) -> Result<Vec<String>, RemoteError> {
        match self.layout {
            StoreLayout::Local => Ok(local::all_keys(segment)),
            StoreLayout::Aiven => {
                AivenObject::ALL.iter().map(|object| self.aiven_key(segment, *object)).collect()
            }
        }
    }

    /// Passes all objects to `each`, those of segments and others, in any order.
    pub fn list(&self, each: &mut dyn FnMut(ObjectEntry)) -> Result<(), RemoteError> {
        let own = self.own_key("");
        self.objects.list(&self.prefix, &mut |entry| {
            if !entry.key.starts_with(&own) {
                each(entry);
            }
        })
    }

    /// Key of an object that is not one of a segment.
    pub(crate) fn own_key(&self, name: &str) -> String {
        format!("{}{OWN}{name}", self.prefix)
    }

    /// Key of the object with the segment's records.
    pub(crate) fn log_key(&self, segment: &RemoteSegment) -> Result<String, RemoteError> {
        match self.layout {
            StoreLayout::Local => Ok(local::log_key(segment)),
            StoreLayout::Aiven => self.aiven_key(segment, AivenObject::Log),
        }
    }

    /// True if a copied segment has this one of its [`Self::keys`].
    pub(crate) fn needs(&self, segment: &RemoteSegment, key: &str) -> bool {
        let optional = local::index_key(segment, IndexKind::Transaction);
        self.layout == StoreLayout::Aiven || !segment.txn_index_empty || key != optional
    }

    /// Length of the object with the segment's records.
    pub(crate) fn log_length(&self, segment: &RemoteSegment) -> Result<u64, RemoteError> {
        let size = u64::from(segment.size.unsigned_abs());
        Ok(self.chunks(segment)?.map_or(size, |chunks| chunks.object_length()))
    }

    /// Topic id and partition in the key of an object; none if it is not named as one of a segment.
    pub(crate) fn owner(&self, key: &str) -> Option<(Uuid, i32)> {
        let partition = self.object_name(key)?.id.partition;
        Some((partition.topic_id, partition.partition))
    }

    /// Parts of the key of an object; none if it is not named as one of a segment.
    pub(crate) fn object_name(&self, key: &str) -> Option<ObjectName> {
        layout::object_name(self.layout, key.strip_prefix(&self.prefix)?)
    }

    fn put_local(&self, segment: &RemoteSegment, files: &SegmentFiles<'_>) -> Result<(), RemoteError> {
        let put = |kind, part: Part<'_>| self.objects.put(&local::index_key(segment, kind), &[part]);
        put(IndexKind::Offset, part(files.offset_index))?;
        put(IndexKind::Time, part(files.time_index))?;
        if let Some(index) = files.txn_index {
            put(IndexKind::Transaction, part(index))?;
        }
        put(IndexKind::LeaderEpochs, Part::Bytes(files.epochs))?;
        put(IndexKind::ProducerSnapshot, Part::Bytes(files.producer_snapshot))?;
        self.objects.put(&local::log_key(segment), &[part(files.log)])
    }

    fn put_aiven(&self, segment: &RemoteSegment, files: &SegmentFiles<'_>) -> Result<(), RemoteError> {
        let mut indexes = vec![
            part(files.offset_index),
            part(files.time_index),
            Part::Bytes(files.producer_snapshot),
            Part::Bytes(files.epochs),
        ];
        indexes.extend(files.txn_index.map(part));
        let lengths = indexes.iter().map(|part| u32::try_from(part.length())).collect::<Result<Vec<_>, _>>();
        let Ok([offset, time, producer_snapshot, leader_epochs, rest @ ..]) = lengths.as_deref() else {
            let operation = format!("cannot copy segment {}", segment.id);
            let cause = "an index has more than 4 GiB";
            return Err(RemoteError::new(RemoteErrorKind::Unsupported, operation, cause));
        };
        let lengths = IndexLengths {
            offset: *offset,
            time: *time,
            producer_snapshot: *producer_snapshot,
            leader_epochs: *leader_epochs,
            transaction: rest.first().copied(),
        };
        let manifest = Manifest::plain(segment, &lengths).to_json();
        self.objects.put(&self.aiven_key(segment, AivenObject::Log)?, &[part(files.log)])?;
        self.objects.put(&self.aiven_key(segment, AivenObject::Indexes)?, &indexes)?;
        self.objects.put(&self.aiven_key(segment, AivenObject::Manifest)?, &[Part::Bytes(&manifest)])
    }

    /// The chunks of a segment that Aiven's plug-in compressed; none if its records are plain.
    fn chunks(&self, segment: &RemoteSegment) -> Result<Option<Chunks>, RemoteError> {
        if self.layout == StoreLayout::Local {
            return Ok(None);
        }
        let chunks = self.manifest(segment)?.chunks(u64::from(segment.size.unsigned_abs()));
        let key = self.aiven_key(segment, AivenObject::Manifest)?;
        chunks.map_err(|cause| {
            let operation = format!("cannot read {}", self.objects.name(&key));
            RemoteError::new(RemoteErrorKind::Damaged, operation, cause)
        })
    }

    /// Passes a range of compressed records to `sink`. Needs memory for one chunk.
    fn fetch_compressed(
        &self,
        key: &str,
        chunks: &Chunks,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), RemoteError> {
        let mut expander = chunks.expander(range.clone());
        let mut damage = None;
        let read = self.objects.read(key, chunks.object_length(), chunks.stored(range), &mut |piece| {
            expander.take(piece, &mut damage, sink)
        });
        match damage {
            Some(cause) => {
                let operation = format!("cannot read {}", self.objects.name(key));
                Err(RemoteError::new(RemoteErrorKind::Damaged, operation, cause))
            }
            None => read,
        }
    }

    /// Returns the checked manifest of a segment that is not encrypted.
    fn manifest(&self, segment: &RemoteSegment) -> Result<Arc<Manifest>, RemoteError> {
        if let Some(manifest) = self.manifests.lock().get(&segment.id.id) {
            return Ok(Arc::clone(manifest));
        }
        let (manifest, name) = self.read_manifest(segment)?;
        manifest.chunks(u64::from(segment.size.unsigned_abs())).map_err(|cause| {
            RemoteError::new(RemoteErrorKind::Damaged, format!("cannot read {name}"), cause)
        })?;
        let manifest = Arc::new(manifest);
        self.manifests.lock().put(segment.id.id, Arc::clone(&manifest));
        Ok(manifest)
    }

    /// Reads the manifest of a segment of which only the id and the start are known; also returns
    /// the name of the object.
    pub(crate) fn read_manifest(&self, segment: &RemoteSegment) -> Result<(Manifest, String), RemoteError> {
        let key = self.aiven_key(segment, AivenObject::Manifest)?;
        let name = self.objects.name(&key);
        let failed = |kind, cause| RemoteError::new(kind, format!("cannot read {name}"), cause);
        let bytes = self.objects.read_whole(&key, MANIFEST_LIMIT)?;
        let manifest =
            Manifest::from_json(&bytes).map_err(|cause| failed(RemoteErrorKind::Damaged, cause))?;
        match manifest.unsupported() {
            Some(cause) => Err(failed(RemoteErrorKind::Unsupported, cause.to_owned())),
            None => Ok((manifest, name)),
        }
    }

    fn fetch_place(
        &self,
        segment: &RemoteSegment,
        manifest: &Manifest,
        range: Range<u64>,
    ) -> Result<Vec<u8>, RemoteError> {
        let key = self.aiven_key(segment, AivenObject::Indexes)?;
        let (length, size) = (manifest.indexes_length(), range.end - range.start);
        if size > INDEX_LIMIT {
            let operation = format!("cannot read {}", self.objects.name(&key));
            let cause = format!("the manifest declares an index of {size} bytes, {INDEX_LIMIT} are valid");
            return Err(RemoteError::new(RemoteErrorKind::Damaged, operation, cause));
        }
        let mut bytes = Vec::new();
        self.objects.read(&key, length, range, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Key of an object. Custom metadata comes from the metadata topic: a key outside the store's
    /// directory is refused.
    fn aiven_key(&self, segment: &RemoteSegment, object: AivenObject) -> Result<String, RemoteError> {
        let operation = || format!("cannot find segment {}", segment.id);
        let key = aiven::key(segment, &self.prefix, object).map_err(|error| {
            let cause = format!("its custom metadata is not valid: {error}");
            RemoteError::new(RemoteErrorKind::Damaged, operation(), cause)
        })?;
        if key.split('/').any(|part| matches!(part, "" | "." | "..") || part.contains('\0')) {
            let cause = format!("its custom metadata names the object {key:?}");
            return Err(RemoteError::new(RemoteErrorKind::Damaged, operation(), cause));
        }
        Ok(key)
    }
}

fn part(file: SegmentFile<'_>) -> Part<'_> {
    Part::File(file.file, file.length)
}

/// True for an index that `LocalTieredStorage` does not write if the broker has none, or an empty
/// one.
fn may_be_missing(kind: IndexKind) -> bool {
    kind == IndexKind::Transaction
}

#[cfg(test)]
mod tests;
