//! The places, and the order of the waiting requesters. Contains no clock, thread or lock.

use std::collections::{HashMap, VecDeque};

use levada_base::Requester;

/// Places, and the requests that wait for one. `W` is the waker of a request.
#[derive(Debug)]
pub(super) struct Line<W> {
    places: usize,
    /// Maximum number of places of one requester.
    share: usize,
    /// Places of each requester that has any.
    taken: HashMap<Requester, usize>,
    /// Number of places in use.
    taken_places: usize,
    /// Requests of each requester that waits, in the order of their arrival.
    waiting: HashMap<Requester, VecDeque<(u64, W)>>,
    /// Waiting requesters. Among those with equally many places, the first gets the next place.
    order: VecDeque<Requester>,
    next_ticket: u64,
}

/// Outcome for a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The request has got a place.
    Place,
    /// The request waits, under this ticket.
    Waits(u64),
    /// The maximum number of requests waits already.
    Full,
}

impl<W> Line<W> {
    /// Free places, of which one requester may have at most `share`; both numbers are at least one.
    pub(super) fn new(places: usize, share: usize) -> Self {
        assert!((1..=places).contains(&share), "a share of {share} places of {places}");
        Self {
            places,
            share,
            taken: HashMap::new(),
            taken_places: 0,
            waiting: HashMap::new(),
            order: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Takes a place, or waits for one.
    pub(super) fn enter(&mut self, requester: &Requester, waiting_max: usize, waker: W) -> Entry {
        if self.enter_now(requester) {
            return Entry::Place;
        }
        let is_new = !self.waiting.contains_key(requester);
        let own = self.waiting.entry(requester.clone()).or_default();
        if own.len() >= waiting_max {
            if is_new {
                self.waiting.remove(requester);
            }
            return Entry::Full;
        }
        if is_new {
            self.order.push_back(requester.clone());
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        own.push_back((ticket, waker));
        Entry::Waits(ticket)
    }

    /// Takes a place if one is free for this requester. In that case no other request waits for it.
    pub(super) fn enter_now(&mut self, requester: &Requester) -> bool {
        let is_free = self.taken_places < self.places && self.has(requester) < self.share;
        if is_free {
            self.occupy(requester);
        }
        is_free
    }

    /// Releases a place; returns the request that gets it next.
    pub(super) fn leave(&mut self, requester: &Requester) -> Option<(Requester, W)> {
        let left = self.has(requester).checked_sub(1).expect("a place is given back once");
        self.taken_places -= 1;
        if left == 0 {
            self.taken.remove(requester);
        } else {
            self.taken.insert(requester.clone(), left);
        }
        let next = self.order.iter().enumerate().filter(|(_, one)| self.has(one) < self.share);
        let (at, _) = next.min_by_key(|(at, one)| (self.has(one), *at))?;
        let next = self.order.remove(at)?;
        let own = self.waiting.get_mut(&next).expect("each requester in the order waits");
        let (_, waker) = own.pop_front().expect("each requester in the order waits");
        if own.is_empty() {
            self.waiting.remove(&next);
        } else {
            self.order.push_back(next.clone());
        }
        self.occupy(&next);
        Some((next, waker))
    }

    /// Removes a request from the line, if it still waits.
    pub(super) fn give_up(&mut self, requester: &Requester, ticket: u64) {
        let Some(own) = self.waiting.get_mut(requester) else { return };
        own.retain(|(other, _)| *other != ticket);
        if own.is_empty() {
            self.waiting.remove(requester);
            self.order.retain(|other| other != requester);
        }
    }

    /// Places of a requester.
    pub(super) fn has(&self, requester: &Requester) -> usize {
        self.taken.get(requester).copied().unwrap_or(0)
    }

    fn occupy(&mut self, requester: &Requester) {
        *self.taken.entry(requester.clone()).or_default() += 1;
        self.taken_places += 1;
    }
}
