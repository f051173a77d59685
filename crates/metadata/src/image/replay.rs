//! Replay of records into images. Metadata transactions are applied as a whole.

use super::{ApplyError, Image, Position};
use crate::records::Record;

/// Builds an image record by record. Records between a begin and an end record are held back and
/// take effect together; those before an abort record never do.
#[derive(Clone, Debug)]
pub struct Replay {
    image: Image,
    held: Option<Vec<(Record, Position)>>,
}

impl Replay {
    /// Continues from `image`.
    pub fn new(image: Image) -> Self {
        Self { image, held: None }
    }

    /// Applies the next record of the log.
    pub fn push(&mut self, record: Record, position: Position) -> Result<(), ApplyError> {
        match (&record, &mut self.held) {
            (Record::BeginTransaction(_), None) => self.held = Some(Vec::new()),
            (Record::BeginTransaction(_), Some(_)) => return Err(ApplyError::NestedTransaction),
            (Record::EndTransaction(_), Some(_)) => {
                for (record, position) in self.held.take().unwrap_or_default() {
                    self.image.apply(&record, position)?;
                }
                self.image.advance(position);
            }
            (Record::AbortTransaction(_), Some(_)) => {
                self.held = None;
                self.image.advance(position);
            }
            (Record::EndTransaction(_) | Record::AbortTransaction(_), None) => {
                return Err(ApplyError::NoTransaction);
            }
            (_, Some(held)) => held.push((record, position)),
            (_, None) => self.image.apply(&record, position)?,
        }
        Ok(())
    }

    /// Passes a control record, which changes nothing in the image but its offset.
    pub fn skip(&mut self, position: Position) {
        if self.held.is_none() {
            self.image.advance(position);
        }
    }

    /// True if a transaction has begun and not ended.
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
