//! The memory of listings, while they are made and under way.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;
use crate::site::SiteOptions;

fn hold(budget: &ListingBudget, bytes: Vec<u8>) -> Result<Bytes, ListingFault> {
    budget.part().hold(bytes)
}

#[test]
fn listings_being_sent_stay_within_budget() {
    let budget = ListingBudget::new(100);
    let first = hold(&budget, vec![b'a'; 60]).unwrap();
    assert!(matches!(hold(&budget, vec![b'b'; 60]), Err(ListingFault::NoRoom)));
    let second = hold(&budget.clone(), vec![b'c'; 40]).unwrap();
    assert!(matches!(hold(&budget, vec![b'd'; 1]), Err(ListingFault::NoRoom)));
    let part = first.slice(50..);
    drop(first);
    assert!(matches!(hold(&budget, vec![b'e'; 1]), Err(ListingFault::NoRoom)), "a part is still held");
    assert_eq!(part, "aaaaaaaaaa");
    drop((part, second));
    assert_eq!(hold(&budget, vec![b'f'; 100]).unwrap().len(), 100);
}

fn list(site: &Site, form: Form, budget: &ListingBudget) -> Result<Bytes, ListingFault> {
    let order = Order::USUAL;
    let Ok(Found::Listing(opened)) = site.find(None, (b"", true), DiskWait::Unlimited) else {
        panic!("a directory without an index file");
    };
    ListingTask { opened, host: None, path: Vec::new(), form, order, budget: budget.clone() }.run(site)
}

#[test]
fn listing_memory_is_counted_before_allocation() {
    let home = tempfile::tempdir().unwrap();
    // Names that become longest in one form or the other.
    let odd: [&[u8]; 6] = [b"plain", b"<&>\"'", b"\x01\x02\x1f\x7f", b"back\\slash", b"\xff\xfe", b" %~"];
    for (number, name) in (0..50).flat_map(|number| odd.map(|name| (number, name))) {
        let name = [name, format!("{number}").as_bytes()].concat();
        std::fs::write(home.path().join(OsStr::from_bytes(&name)), "content").unwrap();
    }
    let directory = home.path().to_owned();
    let site = Site::open(SiteOptions { directory, listing: true, ..SiteOptions::default() }).unwrap();
    for form in [Form::Html, Form::Json] {
        let budget = ListingBudget::new(LISTINGS_BYTES_MAX);
        let listing = list(&site, form, &budget).unwrap();
        let used = || budget.used.load(atomic::Ordering::Relaxed);
        assert_eq!(used(), listing.len(), "{form:?}: a finished listing is all that counts");
        let len = listing.len();
        drop(listing);
        assert_eq!(used(), 0);
        // Memory for the listing alone does not suffice to make it.
        let small = ListingBudget::new(len);
        assert!(matches!(list(&site, form, &small), Err(ListingFault::NoRoom)), "{form:?}");
        assert_eq!(small.used.load(atomic::Ordering::Relaxed), 0, "{form:?}: a refused one gives all back");
    }
}

#[test]
fn queries_name_the_order_of_listings() {
    let by = |column, descending| Order { column, descending };
    for (query, expected) in [
        (None, Order::USUAL),
        (Some(""), Order::USUAL),
        (Some("sort=name"), Order::USUAL),
        (Some("sort=-name"), by(Column::Name, true)),
        (Some("x=1&sort=size"), by(Column::Size, false)),
        (Some("sort=-time&x=1"), by(Column::Time, true)),
        (Some("sort=colour"), Order::USUAL),
        (Some("sort=--size"), Order::USUAL),
    ] {
        assert_eq!(Order::wanted(query.map(str::as_bytes)), expected, "{query:?}");
    }
    assert_eq!(Order::USUAL.after(Column::Name), by(Column::Name, true));
    assert_eq!(Order::USUAL.after(Column::Size), by(Column::Size, true));
    assert_eq!(by(Column::Size, true).after(Column::Size), by(Column::Size, false));
}
