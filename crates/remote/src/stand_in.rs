//! A store for unit tests of other crates (feature `testing`): a test keeps the objects, and
//! decides when a change takes effect and how it is answered.

use std::io;
use std::ops::Range;

use levada_tiered::StoreLayout;

use crate::error::{RemoteError, RemoteErrorKind};
use crate::objects::{ObjectEntry, Objects, Part, Sink, read_parts, too_long, total_length, wrong_length};
use crate::store::Store;

/// Change of the objects of a store, by one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChange {
    /// Writes an object: key and content.
    Put(String, Vec<u8>),
    /// Deletes the objects with these keys, also if some are missing.
    Delete(Vec<String>),
}

/// Objects that a test keeps. All functions may block.
pub trait StandIn: Send + Sync {
    /// Response to a change, which took effect or not.
    ///
    /// # Errors
    /// The failure that the store's user gets.
    fn change(&self, change: StoreChange) -> Result<(), RemoteError>;

    /// Content of an object; none if it is missing.
    fn object(&self, key: &str) -> Option<Vec<u8>>;

    /// All objects, in any order.
    fn entries(&self) -> Vec<ObjectEntry>;
}

impl Store {
    /// A store whose objects a test keeps.
    pub fn stand_in(objects: Box<dyn StandIn>, layout: StoreLayout) -> Self {
        Self::of(Box::new(Kept(objects)), layout, String::new())
    }
}

/// Objects of a stand-in, as a store uses them.
struct Kept(Box<dyn StandIn>);

impl Kept {
    fn found(&self, key: &str) -> Result<Vec<u8>, RemoteError> {
        let missing = || RemoteError::new(RemoteErrorKind::NotFound, format!("cannot read {key}"), "missing");
        self.0.object(key).ok_or_else(missing)
    }
}

impl Objects for Kept {
    fn put(&self, key: &str, parts: &[Part<'_>]) -> Result<(), RemoteError> {
        let failed = |error: &io::Error| RemoteError::local(format!("cannot write {key}"), error);
        let length = usize::try_from(total_length(parts));
        let mut content = vec![0; length.map_err(|_| failed(&io::ErrorKind::FileTooLarge.into()))?];
        read_parts(parts, 0, &mut content).map_err(|error| failed(&error))?;
        self.0.change(StoreChange::Put(key.to_owned(), content))
    }

    fn create(&self, key: &str, content: &[u8]) -> Result<bool, RemoteError> {
        match self.0.object(key) {
            Some(_) => Ok(false),
            None => self.put(key, &[Part::Bytes(content)]).map(|()| true),
        }
    }

    fn read(&self, key: &str, length: u64, range: Range<u64>, sink: Sink<'_>) -> Result<(), RemoteError> {
        let content = self.found(key)?;
        if content.len() as u64 != length {
            return Err(wrong_length(key, content.len() as u64, length));
        }
        // Within the object: its length fits into `usize`.
        let kept = |error: io::Error| RemoteError::local(format!("cannot keep bytes of {key}"), &error);
        sink(&content[range.start as usize..range.end as usize]).map_err(kept)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<Vec<u8>, RemoteError> {
        let content = self.found(key)?;
        if content.len() as u64 > limit {
            return Err(too_long(key, content.len() as u64, limit));
        }
        Ok(content)
    }

    fn delete(&self, keys: &[String]) -> Result<(), RemoteError> {
        self.0.change(StoreChange::Delete(keys.to_vec()))
    }

    fn list(&self, prefix: &str, each: &mut dyn FnMut(ObjectEntry)) -> Result<(), RemoteError> {
        self.0.entries().into_iter().filter(|entry| entry.key.starts_with(prefix)).for_each(each);
        Ok(())
    }

    fn name(&self, key: &str) -> String {
        key.to_owned()
    }
}
