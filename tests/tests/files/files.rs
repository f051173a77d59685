//! `levada files`: answers, ranges, conditions and connections, by raw requests.
//!
//! Suite: short; 24 s

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use levada_tests::files::{Answer, Client, FileServer};
use levada_tests::{await_some, process};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(30);

/// Bytes that encode their position.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 * 7 + at) as u8).collect()
}

fn small_site(root: &Path) {
    fs::write(root.join("index.html"), "<p>home</p>").expect("a file");
    fs::write(root.join("a.txt"), "0123456789").expect("a file");
    fs::write(root.join("large"), bytes(3 << 20)).expect("a file");
    fs::write(root.join("empty"), "").expect("a file");
    fs::create_dir_all(root.join("dir/sub dir")).expect("a directory");
    fs::write(root.join("dir/x.css"), "p{}").expect("a file");
}

fn with(server: &FileServer, target: &str, fields: &str) -> Answer {
    server.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

#[test]
fn whole_file_has_its_header_fields() {
    let server = FileServer::start(&[], small_site);
    let answer = server.get("/a.txt");
    assert_eq!((answer.status, answer.text()), (200, "0123456789".to_owned()));
    assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.field("accept-ranges"), Some("bytes"));
    assert!(answer.field("date").is_some() && answer.field("last-modified").is_some());
    let etag = answer.field("etag").expect("an entity tag");
    assert!(etag.starts_with('"') && etag.ends_with('"'));
    assert_eq!(server.get("/large").body, bytes(3 << 20));
    assert_eq!((server.get("/empty").status, server.get("/empty").body), (200, Vec::new()));
    assert_eq!(server.get("/").text(), "<p>home</p>");
    assert_eq!(server.get("http://other/a.txt?q").text(), "0123456789");
    let head = server.ask("HEAD /large HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(head.field("content-length"), Some("3145728"));
    assert_eq!(server.get("/a.txt").field("etag"), Some(etag));
    server.stop();
}

#[test]
fn range_requests_return_the_requested_parts() {
    let server = FileServer::start(&[], small_site);
    let part = with(&server, "/a.txt", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text()), (206, "234".to_owned()));
    assert_eq!(part.field("content-range"), Some("bytes 2-4/10"));
    let end = with(&server, "/large", "Range: bytes=-100000\r\n");
    assert_eq!(end.body, bytes(3 << 20)[(3 << 20) - 100_000..]);
    let middle = with(&server, "/large", "Range: bytes=1000001-2000000\r\n");
    assert_eq!(middle.body, bytes(3 << 20)[1_000_001..=2_000_000]);
    let beyond = with(&server, "/a.txt", "Range: bytes=10-\r\n");
    assert_eq!((beyond.status, beyond.field("content-range")), (416, Some("bytes */10")));
    assert_eq!(with(&server, "/a.txt", "Range: bytes=x\r\n").status, 200);
    let head = server.ask("HEAD /a.txt HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    server.stop();
}

#[test]
fn multipart_range_response_has_all_parts() {
    let server = FileServer::start(&[], small_site);
    let spans = [(0, 99), (100_000, 199_999), (3_145_727, 3_145_727)];
    let list: Vec<_> = spans.iter().map(|(start, end)| format!("{start}-{end}")).collect();
    let answer = with(&server, "/large", &format!("Range: bytes={}\r\n", list.join(",")));
    assert_eq!(answer.status, 206);
    let media = answer.field("content-type").expect("a type");
    let boundary = media.strip_prefix("multipart/byteranges; boundary=").expect("several parts");
    let all = bytes(3 << 20);
    let mut expected = Vec::new();
    for (index, (start, end)) in spans.into_iter().enumerate() {
        let line = if index == 0 { "" } else { "\r\n" };
        write!(expected, "{line}--{boundary}\r\nContent-Type: application/octet-stream\r\n").expect("a Vec");
        write!(expected, "Content-Range: bytes {start}-{end}/3145728\r\n\r\n").expect("a Vec");
        expected.extend_from_slice(&all[start..=end]);
    }
    write!(expected, "\r\n--{boundary}--\r\n").expect("a Vec");
    assert!(answer.body == expected);
    server.stop();
}

#[test]
fn conditional_requests_follow_etag_and_modification_date() {
    let server = FileServer::start(&["--cache", "*.txt=max-age=60"], small_site);
    let known = server.get("/a.txt");
    let etag = known.field("etag").expect("a tag");
    let same = with(&server, "/a.txt", &format!("If-None-Match: \"x\", {etag}\r\n"));
    assert_eq!(
        (same.status, same.field("etag"), same.field("cache-control")),
        (304, Some(etag), Some("max-age=60"))
    );
    let modified = known.field("last-modified").expect("a date");
    assert_eq!(with(&server, "/a.txt", &format!("If-Modified-Since: {modified}\r\n")).status, 304);
    assert_eq!(with(&server, "/a.txt", "If-Match: \"x\"\r\n").status, 412);
    let fields = format!("If-Range: {etag}\r\nRange: bytes=0-0\r\n");
    assert_eq!(with(&server, "/a.txt", &fields).status, 206);
    fs::write(server.root().join("a.txt"), "9876543210").expect("a file");
    let after = with(&server, "/a.txt", &fields);
    assert_eq!((after.status, after.text()), (200, "9876543210".to_owned()));
    assert_eq!(with(&server, "/a.txt", &format!("If-None-Match: {etag}\r\n")).status, 200);
    server.stop();
}

#[test]
fn changed_file_is_seen_by_next_request() {
    let server = FileServer::start(&[], small_site);
    let path = server.root().join("a.txt");
    let mut client = server.connect();
    let mut get = || {
        client.say(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
        client.answer(true)
    };
    for round in 0..50 {
        let content = format!("version {round}");
        // By turns written in place and replaced.
        if round % 2 == 0 {
            fs::write(&path, &content).expect("a file");
        } else {
            let beside = server.root().join("new");
            fs::write(&beside, &content).expect("a file");
            fs::rename(&beside, &path).expect("a name");
        }
        assert_eq!(get().text(), content);
        assert_eq!(get().text(), content);
    }
    fs::remove_file(&path).expect("it is there");
    assert_eq!(get().status, 404);
    server.stop();
}

#[test]
fn switched_symlink_is_seen_within_two_seconds() {
    let server = FileServer::start(&[], |root| {
        for version in ["one", "two"] {
            fs::create_dir(root.join(version)).expect("a directory");
            fs::write(root.join(version).join("v"), version).expect("a file");
        }
        std::os::unix::fs::symlink("one", root.join("current")).expect("a link");
    });
    assert_eq!(server.get("/current/v").text(), "one");
    std::os::unix::fs::symlink("two", server.root().join("next")).expect("a link");
    fs::rename(server.root().join("next"), server.root().join("current")).expect("a name");
    await_some("the other directory", SOON, || (server.get("/current/v").text() == "two").then_some(()));
    server.stop();
}

#[test]
fn file_changed_during_transfer_ends_the_connection() {
    for cut in [true, false] {
        let server =
            FileServer::start(&[], |root| fs::write(root.join("huge"), bytes(64 << 20)).expect("a file"));
        let mut client = server.connect();
        client.say(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n");
        // The server waits for us in the middle of the file.
        let mut first = [0; 1000];
        std::io::Read::read_exact(&mut client.stream(), &mut first).expect("the front of the answer");
        let file = fs::File::options().write(true).open(server.root().join("huge")).expect("a file");
        if cut {
            file.set_len(32 << 20).expect("cut");
        } else {
            std::os::unix::fs::FileExt::write_all_at(&file, b"other", 60 << 20).expect("written");
        }
        let got = first.len() + client.rest().len();
        assert!(got < 64 << 20, "cut: {cut}: all {got} bytes came");
        // Other clients get the present contents.
        assert_eq!(server.get("/huge").body.len(), if cut { 32 << 20 } else { 64 << 20 });
        server.stop();
    }
}

#[test]
fn file_replaced_during_transfer_arrives_whole() {
    let server =
        FileServer::start(&[], |root| fs::write(root.join("huge"), bytes(32 << 20)).expect("a file"));
    let mut client = server.connect();
    client.say(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n");
    fs::write(server.root().join("new"), vec![0; 1000]).expect("a file");
    fs::rename(server.root().join("new"), server.root().join("huge")).expect("a name");
    assert!(matches!(client.answer(true).body, body if body == bytes(32 << 20) || body == vec![0; 1000]));
    assert_eq!(server.get("/huge").body.len(), 1000);
    server.stop();
}

#[test]
fn pipelined_http_responses_keep_request_order() {
    let server = FileServer::start(&[], small_site);
    let mut client = server.connect();
    let mut requests = Vec::new();
    for round in 0..200 {
        let target = ["/a.txt", "/large", "/nothing", "/dir/x.css"][round % 4];
        write!(requests, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").expect("a Vec");
    }
    let mut writer = client.stream().try_clone().expect("a socket");
    let writing = std::thread::spawn(move || writer.write_all(&requests).expect("sent"));
    for round in 0..200 {
        let answer = client.answer(true);
        let expected = [(200, 10), (200, 3 << 20), (404, 14), (200, 3)][round % 4];
        assert_eq!((answer.status, answer.body.len()), expected, "{round}");
    }
    writing.join().expect("no panic");
    server.stop();
}

#[test]
fn refused_request_gets_one_response_and_closes_connection() {
    let server = FileServer::start(&[], small_site);
    let smuggled = "GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    for (request, status) in [
        (
            format!(
                "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
            ),
            400,
        ),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"), 411),
        (format!("GET /\nHost: x\n\n{smuggled}"), 400),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{smuggled}"), 413),
        (format!("GET /../a HTTP/1.1\r\nHost: x\r\n\r\n{smuggled}"), 400),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n{smuggled}"), 400),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n{smuggled}"), 200),
        (
            format!(
                "POST /a.txt HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 38\r\n\r\n{smuggled}"
            ),
            405,
        ),
    ] {
        let mut client = server.connect();
        client.say(request.as_bytes());
        let answer = client.answer(true);
        assert_eq!((answer.status, answer.field("connection")), (status, Some("close")), "{request:?}");
        assert_eq!(client.rest(), b"", "{request:?}");
    }
    server.stop();
}

#[test]
fn request_body_is_skipped_and_never_parsed() {
    let server = FileServer::start(&[], small_site);
    let mut client = server.connect();
    let smuggled = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
    let post =
        format!("POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len());
    client.say(post.as_bytes());
    client.say(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    let refused = client.answer(true);
    assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(client.answer(true).text(), "0123456789");
    server.stop();
}

#[test]
fn connection_persistence_follows_the_client() {
    let server = FileServer::start(&[], small_site);
    let mut old = server.connect();
    old.say(b"GET /a.txt HTTP/1.0\r\n\r\n");
    assert_eq!(old.answer(true).field("connection"), Some("close"));
    assert_eq!(old.rest(), b"");
    let mut kept = server.connect();
    for _ in 0..3 {
        kept.say(b"GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(kept.answer(true).field("connection"), Some("keep-alive"));
    }
    // A request that comes byte by byte is a request.
    for byte in b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" {
        kept.say(&[*byte]);
    }
    assert_eq!(kept.answer(true).status, 204);
    server.stop();
}

#[test]
fn directories_are_redirected_listed_or_not_found() {
    let server = FileServer::start(&[], small_site);
    let moved = server.get("/dir?x=1");
    assert_eq!((moved.status, moved.field("location")), (301, Some("/dir/?x=1")));
    assert_eq!(server.get("//dir/sub%20dir").field("location"), Some("/dir/sub%20dir/"));
    assert_eq!(server.get("/dir/").status, 404);
    server.stop();
    let server = FileServer::start(&["--listing"], |root| {
        small_site(root);
        fs::write(root.join("dir/<b>&\"'.txt"), "").expect("a file");
        fs::write(root.join("dir/.hidden"), "").expect("a file");
        std::os::unix::fs::symlink("/etc/passwd", root.join("dir/out")).expect("a link");
        std::os::unix::fs::symlink("x.css", root.join("dir/within")).expect("a link");
    });
    let page = server.get("/dir/");
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    let page = page.text();
    assert!(
        page.contains("href=\"./sub%20dir/\"") && page.contains("href=\"./%3Cb%3E%26%22%27.txt\""),
        "{page}"
    );
    assert!(!page.contains("<b>") && !page.contains("hidden") && !page.contains("./out"), "{page}");
    let listed = with(&server, "/dir/", "Accept: application/json\r\n");
    let listed: serde_json::Value = serde_json::from_slice(&listed.body).expect("JSON");
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|line| &line["name"]).collect();
    assert_eq!(names, ["sub dir", "<b>&\"'.txt", "within", "x.css"]);
    assert_eq!(server.get("/").text(), "<p>home</p>", "an index file goes before a listing");
    server.stop();
}

#[test]
fn listings_are_sorted_with_readable_sizes() {
    let server = FileServer::start(&["--listing"], |root| {
        for (name, len) in [("b", 1536), ("a", 10), ("c", 3 << 20)] {
            fs::write(root.join(name), bytes(len)).expect("a file");
        }
        fs::create_dir(root.join("z")).expect("a directory");
    });
    let listed = |query: &str| -> Vec<String> {
        let listed = with(&server, query, "Accept: application/json\r\n");
        let listed: serde_json::Value = serde_json::from_slice(&listed.body).expect("JSON");
        let lines = listed.as_array().expect("a list").iter();
        lines.map(|line| line["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(listed("/"), ["z", "a", "b", "c"]);
    assert_eq!(listed("/?sort=-name"), ["z", "c", "b", "a"]);
    assert_eq!(listed("/?sort=-size"), ["z", "c", "b", "a"]);
    assert_eq!(listed("/?sort=size"), ["z", "a", "b", "c"]);
    let page = server.get("/?sort=-size").text();
    for part in [
        "<th scope=\"col\" aria-sort=\"descending\"><a href=\"?sort=size\">Size</a></th>",
        "<a href=\"?sort=name\">Name</a>",
        "<td title=\"1536 bytes\">1.5 KiB</td>",
        "<td title=\"3145728 bytes\">3.0 MiB</td>",
        "prefers-color-scheme:dark",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    server.stop();
}

#[test]
fn html_clients_get_error_pages() {
    let server = FileServer::start(&[], small_site);
    let page = with(&server, "/nothing", "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n");
    assert_eq!((page.status, page.field("content-type")), (404, Some("text/html; charset=utf-8")));
    assert_eq!(page.field("vary"), Some("Accept"));
    let text = page.text();
    assert!(text.contains("<h1>404 Not Found</h1>") && text.contains("prefers-color-scheme:dark"), "{text}");
    let text = with(&server, "/nothing", "Accept: */*\r\n");
    assert_eq!((text.text(), text.field("vary")), ("404 Not Found\n".to_owned(), Some("Accept")));
    server.stop();
}

#[test]
fn hidden_and_outside_files_are_not_served() {
    let server = FileServer::start(&[], |root| {
        small_site(root);
        fs::write(root.parent().expect("a home").join("secret"), "secret").expect("a file");
        fs::write(root.join(".env"), "secret").expect("a file");
        fs::create_dir_all(root.join(".well-known")).expect("a directory");
        fs::write(root.join(".well-known/x"), "known").expect("a file");
        std::os::unix::fs::symlink("../secret", root.join("out")).expect("a link");
        std::os::unix::fs::symlink("a.txt", root.join("within")).expect("a link");
    });
    for target in [
        "/out",
        "/.env",
        "/%2eenv",
        "/dir/../.env",
        "/..%2fsecret",
        "/%2e%2e/secret",
        "/..\\secret",
        "/....//secret",
    ] {
        let answer = server.get(target);
        assert!(
            matches!(answer.status, 400 | 404) && !answer.text().contains("secret\n"),
            "{target}: {answer:?}"
        );
    }
    assert_eq!(server.get("/within").text(), "0123456789");
    assert_eq!(server.get("/.well-known/x").text(), "known");
    server.stop();
    let server = FileServer::start(&["--hidden", "--follow-links"], |root| {
        fs::write(root.parent().expect("a home").join("other"), "other").expect("a file");
        fs::write(root.join(".env"), "hidden").expect("a file");
        std::os::unix::fs::symlink("../other", root.join("out")).expect("a link");
    });
    assert_eq!(
        (server.get("/.env").text(), server.get("/out").text()),
        ("hidden".to_owned(), "other".to_owned())
    );
    server.stop();
}

#[test]
fn missing_file_gets_error_page_or_fallback() {
    let fill = |root: &Path| {
        small_site(root);
        fs::write(root.join("404.html"), "<p>lost</p>").expect("a file");
    };
    let server = FileServer::start(&["--not-found", "404.html"], fill);
    let lost = with(&server, "/nothing", "Range: bytes=0-1\r\n");
    assert_eq!((lost.status, lost.text(), lost.field("etag")), (404, "<p>lost</p>".to_owned(), None));
    fs::remove_file(server.root().join("404.html")).expect("it is there");
    await_some("the plain text", SOON, || (server.get("/nothing").text() == "404 Not Found\n").then_some(()));
    server.stop();
    let server = FileServer::start(&["--fallback", "/index.html"], fill);
    let page = server.get("/some/route");
    assert_eq!((page.status, page.text()), (200, "<p>home</p>".to_owned()));
    server.stop();
}

#[test]
fn precompressed_file_needs_accept_encoding() {
    let server = FileServer::start(&["--precompressed"], |root| {
        small_site(root);
        for (ending, content) in [("zst", "z"), ("br", "b"), ("gz", "g")] {
            fs::write(root.join(format!("a.txt.{ending}")), content).expect("a file");
        }
        fs::write(root.join("dir/x.css.gz"), "stale").expect("a file");
        let stale = fs::File::options().write(true).open(root.join("dir/x.css.gz")).expect("a file");
        stale.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1)).expect("a time");
    });
    let of = |wish: &str| {
        let answer = with(&server, "/a.txt", &format!("Accept-Encoding: {wish}\r\n"));
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
        (answer.field("content-encoding").map(str::to_owned), answer.text())
    };
    assert_eq!(of("gzip, br, zstd"), (Some("zstd".to_owned()), "z".to_owned()));
    assert_eq!(of("gzip, br;q=0.5"), (Some("gzip".to_owned()), "g".to_owned()));
    assert_eq!(of("deflate"), (None, "0123456789".to_owned()));
    let plain = with(&server, "/dir/x.css", "Accept-Encoding: gzip\r\n");
    assert_eq!((plain.field("content-encoding"), plain.text()), (None, "p{}".to_owned()));
    server.stop();
}

#[test]
fn configured_origins_get_cors_headers() {
    let server =
        FileServer::start(&["--cors", "https://app.test", "--cors", "http://localhost:3000"], small_site);
    let allowed = with(&server, "/a.txt", "Origin: https://app.test\r\n");
    assert_eq!(allowed.field("access-control-allow-origin"), Some("https://app.test"));
    let other = with(&server, "/a.txt", "Origin: https://other.test\r\n");
    assert_eq!((other.field("access-control-allow-origin"), other.field("vary")), (None, Some("Origin")));
    let preflight = server.ask(
        "OPTIONS /a.txt HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost:3000\r\nAccess-Control-Request-Method: GET\r\n\r\n",
    );
    assert_eq!(preflight.field("access-control-allow-methods"), Some("GET, HEAD, OPTIONS"));
    server.stop();
    let server = FileServer::start(&["--cors", "*"], small_site);
    assert_eq!(server.get("/a.txt").field("access-control-allow-origin"), Some("*"));
    server.stop();
}

#[test]
fn each_host_has_its_directory() {
    let server = FileServer::start(&["--hosts"], |root| {
        for host in ["one.test", "default"] {
            fs::create_dir(root.join(host)).expect("a directory");
            fs::write(root.join(host).join("index.html"), host).expect("a file");
        }
        fs::write(root.join("index.html"), "of no host").expect("a file");
        std::os::unix::fs::symlink("../default/index.html", root.join("one.test/out")).expect("a link");
    });
    let of = |host: &str| server.ask(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(of("One.Test:8080").text(), "one.test");
    for other in ["two.test", "127.0.0.1", "[::1]", "..", ""] {
        assert_eq!(of(other).text(), "default", "{other}");
    }
    assert_eq!(of("a/b").status, 400);
    assert_eq!(server.ask("GET /out HTTP/1.1\r\nHost: one.test\r\n\r\n").status, 404);
    assert_eq!(server.get("http://one.test/").text(), "one.test");
    server.stop();
}

#[test]
fn slow_request_head_ends_without_delaying_others() {
    let server = FileServer::start(&[], small_site);
    let mut slow = server.connect();
    slow.say(b"GET / HTTP/1.1\r\n");
    for _ in 0..100 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    assert_eq!(slow.rest(), b"");
    server.stop();
}

#[test]
fn connections_per_address_are_limited() {
    let server = FileServer::start(&["--max-connections-per-address", "2"], small_site);
    let mut held: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut held {
        client.say(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
        client.answer(true);
    }
    assert_eq!(server.connect().rest(), b"");
    held.pop();
    await_some("a place", SOON, || {
        let mut client = server.connect();
        client.say(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
        client.try_answer(true)
    });
    server.stop();
}

#[test]
fn stop_finishes_responses_and_closes_idle_connections() {
    let mut server = FileServer::start(&["--grace", "60"], |root| {
        fs::write(root.join("huge"), bytes(64 << 20)).expect("a file")
    });
    let mut silent = server.connect();
    let mut busy = server.connect();
    busy.say(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut first = [0; 1000];
    std::io::Read::read_exact(&mut busy.stream(), &mut first).expect("the front of the answer");
    process::signal(server.pid(), Signal::TERM);
    assert_eq!(silent.rest(), b"");
    assert!(!server.has_ended());
    let mut all = first.to_vec();
    all.extend(busy.rest());
    assert!(all.ends_with(&bytes(64 << 20)[60 << 20..]));
    await_some("the end", SOON, || server.has_ended().then_some(()));
}

#[test]
fn access_log_records_requests_and_reopens_after_rename() {
    let home = tempfile::TempDir::new().expect("a directory");
    let log = home.path().join("access.log");
    let args = ["--access-log", log.to_str().expect("a path"), "--access-log-form", "json"];
    let server = FileServer::start(&args, small_site);
    let lines = |path: &Path| -> Vec<serde_json::Value> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
    };
    with(&server, "/a.txt", "User-Agent: test\"\r\nRange: bytes=0-2\r\n");
    let first = await_some("a line", SOON, || lines(&log).pop());
    assert_eq!(
        (&first["status"], &first["bytes"], &first["target"]),
        (&206.into(), &3.into(), &"/a.txt".into())
    );
    assert_eq!((&first["agent"], &first["remote"]), (&"test\"".into(), &"127.0.0.1".into()));
    let moved = home.path().join("access.log.1");
    fs::rename(&log, &moved).expect("a name");
    process::signal(server.pid(), Signal::HUP);
    await_some("a new log", SOON, || log.exists().then_some(()));
    server.ask("GET / HTTP/1.1\nHost: x\n\n");
    server.get("/nothing");
    let later = await_some("two lines", SOON, || Some(lines(&log)).filter(|lines| lines.len() == 2));
    let mut statuses: Vec<_> = later.iter().map(|line| line["status"].as_u64()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [Some(400), Some(404)]);
    assert_eq!(lines(&moved).len(), 1);
    server.stop();
}

#[test]
fn sighup_reopens_the_served_directory() {
    let server = FileServer::start(&[], |root| fs::write(root.join("v"), "old").expect("a file"));
    assert_eq!(server.get("/v").text(), "old");
    fs::rename(server.root(), server.home().join("before")).expect("a name");
    fs::create_dir(server.root()).expect("a directory");
    fs::write(server.root().join("v"), "new").expect("a file");
    process::signal(server.pid(), Signal::HUP);
    await_some("the new directory", SOON, || (server.get("/v").text() == "new").then_some(()));
    server.stop();
}

#[test]
fn moved_bytes_are_counted_by_path() {
    let server = FileServer::start(&["--metrics", "127.0.0.1:0"], small_site);
    server.get("/large");
    // A response is counted when it has left, which its client may see before.
    await_some("the count of the file", SOON, || {
        (server.metric("levada_files_responses_total{status=\"2xx\"}") == 1).then_some(())
    });
    let is_copied = std::env::var_os("LEVADA_ASSUME_COPYING_SPLICE").is_some();
    let path = if is_copied { "mmap_write" } else { "sendfile" };
    let moved = server.metric(&format!("levada_transfer_bytes_total{{path=\"{path}\"}}"));
    assert!(((3 << 20) - (64 << 10)..=3 << 20).contains(&moved), "{moved} bytes by {path}");
    server.stop();
}

#[test]
fn proxy_protocol_names_the_client() {
    let home = tempfile::TempDir::new().expect("a directory");
    let log = home.path().join("access.log");
    let args = ["--proxy-protocol", "--access-log", log.to_str().expect("a path")];
    let server = FileServer::start(&args, small_site);
    let request = "GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    let second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\0\x50\0\x50";
    let first = b"PROXY TCP6 2001:db8::1 ::1 1234 80\r\n".to_vec();
    for header in [first, second.to_vec()] {
        let mut whole = server.connect();
        whole.say(&[&header, request.as_bytes()].concat());
        assert_eq!(whole.answer(true).text(), "0123456789");
        let mut slow = server.connect();
        for byte in &header {
            slow.say(&[*byte]);
        }
        slow.say(request.as_bytes());
        assert_eq!(slow.answer(true).text(), "0123456789");
    }
    let mut direct = server.connect();
    direct.say(request.as_bytes());
    assert_eq!(direct.rest(), b"");
    let lines = await_some("four lines", SOON, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        (text.lines().count() == 4).then_some(text)
    });
    for client in ["2001:db8::1 - - ", "192.0.2.7 - - "] {
        assert_eq!(lines.matches(client).count(), 2, "{lines}");
    }
    server.stop();
}
