//! Producer ids in blocks from the controller (AllocateProducerIds). The next block is requested
//! when 90 % of the current one are used, so that a producer seldom waits. A lost response wastes
//! its block.

use std::ops::Range;

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};

#[cfg(test)]
mod tests;

/// Pause after a failure, ms, as in Kafka.
const RETRY_MS: i64 = 50;

/// Used part of a block, in percent, from which on the next one is requested.
const PREFETCH_PERCENT: i64 = 90;

/// The blocks of producer ids that one broker has.
#[derive(Debug, Default)]
pub struct ProducerIds {
    /// The ids of the current block that are left.
    current: Range<i64>,
    /// First id from which on the next block is wanted.
    prefetch_at: i64,
    next: Option<Range<i64>>,
    in_flight: Option<u64>,
    last_request: u64,
    retry_ms: i64,
}

impl ProducerIds {
    /// Supply without a block: the first [`poll`](ProducerIds::poll) requests one.
    pub fn new() -> Self {
        Self { retry_ms: i64::MIN, ..Self::default() }
    }

    /// True if there was a block once.
    pub fn is_in_use(&self) -> bool {
        self.prefetch_at > 0
    }

    /// A unique id; `None` until a block arrives.
    pub fn take(&mut self) -> Option<i64> {
        if self.current.is_empty() {
            let block = self.next.take()?;
            let used = (block.end - block.start).saturating_mul(PREFETCH_PERCENT) / 100;
            self.prefetch_at = block.start + used;
            self.current = block;
        }
        self.current.next()
    }

    /// The request to send now, with its number, if a block is wanted.
    pub fn poll(
        &mut self,
        node_id: i32,
        epoch: i64,
        now_ms: i64,
    ) -> Option<(u64, AllocateProducerIdsRequest)> {
        if !self.is_wanted() || self.in_flight.is_some() || now_ms < self.retry_ms {
            return None;
        }
        self.last_request += 1;
        self.in_flight = Some(self.last_request);
        let mut request = AllocateProducerIdsRequest::default();
        (request.broker_id, request.broker_epoch) = (node_id, epoch);
        Some((self.last_request, request))
    }

    /// The time at which to poll again after a failure; `None` if nothing has to be retried.
    pub fn deadline(&self) -> Option<i64> {
        (self.is_wanted() && self.in_flight.is_none() && self.retry_ms > i64::MIN).then_some(self.retry_ms)
    }

    /// Processes the response to a request; `None` means no response. An unexpected response is
    /// dropped.
    pub fn answered(&mut self, request: u64, response: Option<&AllocateProducerIdsResponse>, now_ms: i64) {
        if self.in_flight.take_if(|in_flight| *in_flight == request).is_none() {
            return;
        }
        let block =
            response.filter(|response| response.error_code == ErrorCode::None.code()).and_then(|response| {
                let start = Some(response.producer_id_start).filter(|start| *start >= 0)?;
                let end = start.checked_add(i64::from(response.producer_id_len))?;
                Some(start..end).filter(|block| !block.is_empty())
            });
        match block {
            Some(block) => {
                self.next = Some(block);
                self.retry_ms = i64::MIN;
            }
            None => self.retry_ms = now_ms.saturating_add(RETRY_MS),
        }
    }

    fn is_wanted(&self) -> bool {
        self.next.is_none() && (self.current.is_empty() || self.current.start >= self.prefetch_at)
    }
}
