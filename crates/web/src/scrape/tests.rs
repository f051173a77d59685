//! Scrapes at the same time, and texts that are not read.

use std::pin::pin;
use std::task::{Context, Waker};

use super::*;
use crate::tests::Fake;

const PLAIN: Kind = (Form::Plain, true);
const OPEN: Kind = (Form::OpenMetrics, true);

fn scrapes() -> Scrapes {
    Scrapes::new(Arc::new(Fake::default()))
}

#[tokio::test]
async fn only_waiting_scrapes_share_a_text() {
    let scrapes = scrapes();
    let (first, second, third) = tokio::join!(scrapes.text(PLAIN), scrapes.text(PLAIN), scrapes.text(PLAIN));
    let (first, second, third) = (first.unwrap(), second.unwrap(), third.unwrap());
    assert_ne!(first.as_ptr(), second.as_ptr(), "the first was begun before the second was asked for");
    assert_eq!(second.as_ptr(), third.as_ptr());
    let later = scrapes.text(PLAIN).await.unwrap();
    assert_ne!(second.as_ptr(), later.as_ptr());
}

#[tokio::test]
async fn unread_scrape_texts_are_bounded() {
    let scrapes = scrapes();
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(scrapes.text(PLAIN).await.unwrap());
    }
    let mut places: Vec<*const u8> = held.iter().map(|text| text.as_ptr()).collect();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), TEXTS_MAX);
    assert_eq!(held[99].as_ptr(), held[TEXTS_MAX - 1].as_ptr(), "the newest");
    assert!(matches!(scrapes.text(OPEN).await, Err(ScrapeError::Busy)));
    drop(held);
    assert!(scrapes.text(OPEN).await.is_ok());
}

#[tokio::test]
async fn disconnected_scrape_holds_its_slot_until_finished() {
    let fake = Arc::new(Fake::default());
    let scrapes = Scrapes::new(fake.clone());
    let held = fake.hold_membership();
    {
        let mut scrape = pin!(scrapes.text(PLAIN));
        let polled = scrape.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "its thread waits for the membership");
    }
    assert!(scrapes.texts.try_lock().is_err(), "the text is still being made");
    drop(held);
    assert!(scrapes.text(PLAIN).await.is_ok());
}
