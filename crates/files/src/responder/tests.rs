//! Answers to heads, without a socket.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::request::{Parsed, parse, room};
use crate::root::FileVersion;
use crate::site::SiteOptions;

/// A server's answers for a directory with a file named `a`.
fn responder(options: SiteOptions) -> Responder {
    responder_of(options, listing::LISTINGS_BYTES_MAX)
}

/// Like [`responder`], with this number of bytes for listings.
fn responder_of(options: SiteOptions, listings: usize) -> Responder {
    std::fs::write(options.directory.join("a"), "text").unwrap();
    Responder::new(
        Arc::new(ArcSwap::from_pointee(Site::open(options).unwrap())),
        16,
        ListingBudget::new(listings),
    )
}

fn options(home: &Path) -> SiteOptions {
    SiteOptions { directory: home.to_owned(), ..SiteOptions::default() }
}

/// The response to a request, whose work is done as often as it asks for some.
fn answer(responder: &Responder, text: &str, perform: impl Fn(Work) -> Prepared) -> Result<Reply, Refusal> {
    answer_at(UNIX_EPOCH, responder, text, perform)
}

/// Response to a request at a given time.
fn answer_at(
    now: SystemTime,
    responder: &Responder,
    text: &str,
    perform: impl Fn(Work) -> Prepared,
) -> Result<Reply, Refusal> {
    let mut room = room();
    let Ok(Parsed::Whole(head, _)) = parse(text.as_bytes(), &mut room) else { panic!("{text:?}") };
    let moment = Moment { now, second: 0, date: "now" };
    let mut prepared = Vec::new();
    for _ in 0..4 {
        match responder.decide(&head, &mut prepared, (moment, Instant::now()))? {
            Decision::Reply(reply) => return Ok(reply),
            Decision::Wait(work) => prepared.push(perform(work)),
        }
    }
    panic!("{text:?} asks for work again and again")
}

#[test]
fn failed_file_work_is_not_repeated() {
    let home = tempfile::tempdir().unwrap();
    let responder = responder(SiteOptions { listing: true, ..options(home.path()) });
    let lost = |work: Work| Prepared::failed(work.key().to_vec(), std::io::Error::other("lost"));
    let reply = answer(&responder, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", lost).unwrap();
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
fn listings_of_slow_readers_are_refused_over_budget() {
    let home = tempfile::tempdir().unwrap();
    // Room for making one listing, and for about a dozen that are made.
    let responder = responder_of(SiteOptions { listing: true, ..options(home.path()) }, 3000);
    let run = |work: Work| work.run(&responder.site());
    let list =
        || answer(&responder, "GET / HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", run).unwrap();
    let first = list();
    assert_eq!(first.status, StatusCode::OK);
    assert!(first.body.len() > 50, "fifty of them have no room");
    let held: Vec<Reply> = (0..50).map(|_| list()).collect();
    let last = held.last().unwrap();
    assert_eq!(last.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(String::from_utf8_lossy(&last.head).contains("\r\nRetry-After: 5\r\n"));
    drop((first, held));
    assert_eq!(list().status, StatusCode::OK);
}

#[test]
fn unrepresentable_file_time_is_clamped_to_http_range() {
    // A file system in memory has such times.
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let responder = responder(SiteOptions { listing: true, ..options(home.path()) });
    let late = UNIX_EPOCH + Duration::from_secs(300_000_000_000);
    let file = std::fs::File::options().write(true).open(home.path().join("a")).unwrap();
    file.set_modified(late).unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), late);
    let run = |work: Work| work.run(&responder.site());
    // Of the listing the last one, of the file that of the response, which is at the epoch.
    let dates = ["Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"];
    for ((path, body), date) in [("a", false), ("", true)].into_iter().zip(dates) {
        let reply = answer(&responder, &format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n"), run).unwrap();
        assert_eq!(reply.status, StatusCode::OK);
        let said = match &reply.body {
            Body::Bytes(bytes) if body => bytes,
            _ => &reply.head,
        };
        assert!(String::from_utf8_lossy(said).contains(date), "{said:?}");
    }
}

#[test]
fn last_modified_is_capped_but_conditions_use_mtime() {
    let home = tempfile::tempdir().unwrap();
    let responder = responder(options(home.path()));
    let run = |work: Work| work.run(&responder.site());
    let status = |since: u64| {
        let since = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(since));
        let text = format!("GET /a HTTP/1.1\r\nHost: x\r\nIf-Modified-Since: {since}\r\n\r\n");
        let reply = answer(&responder, &text, run).unwrap();
        let date = "\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        assert!(String::from_utf8_lossy(&reply.head).contains(date), "{:?}", reply.head);
        reply.status
    };
    let file = std::fs::File::options().write(true).open(home.path().join("a")).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    assert_eq!(status(0), StatusCode::OK, "the date that was sent is not one of this version");
    assert_eq!(status(1_000_000_000), StatusCode::NOT_MODIFIED);
}

#[test]
fn replaced_file_with_older_mtime_is_sent() {
    let home = tempfile::tempdir().unwrap();
    let responder = responder(options(home.path()));
    let run = |work: Work| work.run(&responder.site());
    let now = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    let get = |field: &str| {
        let reply = answer_at(now, &responder, &format!("GET /a HTTP/1.1\r\nHost: x\r\n{field}\r\n"), run);
        let reply = reply.unwrap();
        (reply.status, String::from_utf8_lossy(&reply.head).into_owned())
    };
    let changed = |path: &Path| FileVersion::now(&std::fs::File::open(path).unwrap()).unwrap().changed;
    let put = |text: &str, seconds: u64| {
        let (new, old) = (home.path().join(".new"), changed(&home.path().join("a")));
        std::fs::write(&new, text).unwrap();
        let file = std::fs::File::options().write(true).open(&new).unwrap();
        // The clock of the file system moves on meanwhile.
        loop {
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            if changed(&new) > old {
                break;
            }
        }
        std::fs::rename(new, home.path().join("a")).unwrap();
    };
    let dated = |seconds: u64| {
        format!(
            "If-Modified-Since: {}\r\n",
            httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
        )
    };
    for archived in [0, 1, 315_532_800] {
        put("one", archived);
        let (status, head) = get(&dated(archived));
        assert!(status == StatusCode::OK && !head.contains("Last-Modified"), "{archived}: {head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap().to_owned();
        assert_eq!(get(&format!("If-None-Match: {tag}\r\n")).0, StatusCode::NOT_MODIFIED);
        // The second replacement may get the inode of the first file.
        for text in ["two", "six"] {
            put(text, archived);
            assert_eq!(get(&format!("If-None-Match: {tag}\r\n")).0, StatusCode::OK, "{archived}: {text}");
        }
    }
    put("release 2", 1_790_000_000);
    assert_eq!(get(&dated(1_790_000_000)).0, StatusCode::NOT_MODIFIED);
    put("release 1", 1_780_000_000);
    assert_eq!(get(&dated(1_790_000_000)).0, StatusCode::OK);
}

#[test]
fn small_file_rewritten_with_old_mtime_is_reread() {
    let home = tempfile::tempdir().unwrap();
    let responder = responder(options(home.path()));
    let file = std::fs::File::options().write(true).open(home.path().join("a")).unwrap();
    let write = |text: &str| {
        file.write_all_at(text.as_bytes(), 0).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1000)).unwrap();
    };
    let changed = || FileVersion::now(&file).unwrap().changed;
    // Later than the change, so that bytes are kept.
    let now = SystemTime::now() + Duration::from_secs(3600);
    let body = || {
        let run = |work: Work| work.run(&responder.site());
        match answer_at(now, &responder, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n", run).unwrap().body {
            Body::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    };
    write("old!");
    assert_eq!(body(), "old!");
    let before = changed();
    while changed() == before {
        write("new!");
    }
    assert_eq!(body(), "new!");
}

#[test]
fn negotiated_not_found_page_sends_vary() {
    let home = tempfile::tempdir().unwrap();
    let not_found = Some("a".to_owned());
    let responder = responder(SiteOptions { precompressed: true, not_found, ..options(home.path()) });
    let run = |work: Work| work.run(&responder.site());
    let reply = answer(&responder, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n", run).unwrap();
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert!(String::from_utf8_lossy(&reply.head).contains("\r\nVary: Accept-Encoding\r\n"));
}

#[test]
fn malformed_host_is_refused_on_every_path() {
    let home = tempfile::tempdir().unwrap();
    let responder = responder(options(home.path()));
    let run = |work: Work| work.run(&responder.site());
    let status = |text: &str| match answer(&responder, text, run) {
        Ok(reply) => reply.status,
        Err(refusal) => refusal.status,
    };
    for host in ["", "x", "x:", "X.y:80", "a_b", "a%20b", "[::1]", "[::1]:8080"] {
        assert_eq!(status(&format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n")), StatusCode::OK, "{host}");
    }
    for host in ["a/b", "x y", "u@h", "x:y", "x:1:2", ":80", "[::1", "\u{fc}"] {
        for text in ["GET /a", "GET http://x/a", "OPTIONS *", "POST /a"] {
            let text = format!("{text} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(status(&text), StatusCode::BAD_REQUEST, "{text}");
        }
    }
    assert_eq!(status("GET http://u@h/a HTTP/1.1\r\nHost: h\r\n\r\n"), StatusCode::BAD_REQUEST);
}
