//! Replay of records into images. Metadata transactions are applied as a whole.

use super::{ApplyError, Image, Position};
use crate::records::Record;

/// Builds an image record by record. Records between a begin and an end record are held back and
/// take effect together; those before an abort record never do.
#[derive(Clone, Debug)]
pub struct Replay {
    image: Image,
    held: Option<Held>,
}

/// Records of an open transaction.
#[derive(Clone, Debug)]
struct Held {
    /// Offset of the record that began it.
    began: i64,
    records: Vec<(Record, Position)>,
}

impl Replay {
    /// Continues from `image`.
    pub fn new(image: Image) -> Self {
        Self { image, held: None }
    }

    /// Applies the next record of the log.
    pub fn push(&mut self, record: Record, position: Position) -> Result<(), ApplyError> {
        match (&record, &mut self.held) {
            (Record::BeginTransaction(_), None) => {
                self.held = Some(Held { began: position.offset, records: Vec::new() });
            }
            (Record::BeginTransaction(_), Some(held)) => {
                return Err(ApplyError::NestedTransaction { open: held.began });
            }
            (Record::EndTransaction(_), Some(held)) => {
                let records = std::mem::take(&mut held.records);
                self.held = None;
                for (record, position) in records {
                    self.image.apply(&record, position)?;
                }
                self.image.advance(position);
            }
            (Record::AbortTransaction(_), Some(_)) => {
                self.held = None;
                self.image.advance(position);
            }
            (Record::EndTransaction(_), None) => {
                return Err(ApplyError::NoTransaction { record: "EndTransactionRecord" });
            }
            (Record::AbortTransaction(_), None) => {
                return Err(ApplyError::NoTransaction { record: "AbortTransactionRecord" });
            }
            (_, Some(held)) => held.records.push((record, position)),
            (_, None) => self.image.apply(&record, position)?,
        }
        Ok(())
    }

    /// Sets the level that a control record gives to the quorum's own feature; true if it was
    /// another one.
    pub fn set_kraft_version(&mut self, level: i16) -> bool {
        std::mem::replace(&mut self.image.kraft_version, level) != level
    }

    /// Passes a control record, which changes nothing in the image but its offset.
    pub fn skip(&mut self, position: Position) {
        if self.held.is_none() {
            self.image.advance(position);
        }
    }

    /// True if a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.held.is_some()
    }

    /// The image as of the last record outside a transaction.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the image.
    pub fn into_image(self) -> Image {
        self.image
    }
}
