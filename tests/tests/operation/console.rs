//! The console in a real browser: every page in every look, work by clicking and by the keyboard
//! alone, records that are scripts, and hostile pages in the same browser.
//!
//! `LEVADA_TEST_PICTURES=DIR` keeps a picture of each page.
//!
//! Suite: long; 113 s; needs chromium, python

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use levada_tests::browser::{Browser, Visit};
use levada_tests::raw::lose_transaction;
use levada_tests::{Node, Tool, await_some, http, process};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

/// Pages that every broker has.
const PAGES: [&str; 13] = [
    "/",
    "/brokers",
    "/topics",
    "/topics?internal=1",
    "/groups",
    "/transactions",
    "/clients",
    "/connections",
    "/quotas",
    "/users",
    "/settings",
    "/performance",
    "/laboratory",
];

/// Writes lines to a topic.
fn produce(node: &Node, line: &str, text: &str) {
    let input = node.scratch().join("input");
    fs::write(&input, text).expect("room");
    node.levada(line).stdin(&input).run();
}

#[test]
fn every_page_of_an_empty_broker_is_legible() {
    let node = Node::started();
    Visit::new(&node).inspect("empty", &PAGES);
}

#[test]
fn console_pages_render_1000_topics_and_hostile_records() {
    let node = Node::started();
    let names: Vec<String> = (0..999).map(|number| format!("topic-{number:04}")).collect();
    // A request for all of them would take longer than a client waits on a busy machine.
    for some in names.chunks(50) {
        let mut create = node.levada("topic create -p 5");
        some.iter().for_each(|name| {
            create.arg(name);
        });
        create.run();
    }
    let hostile = "<script>window.hit=1</script><img src=x onerror=window.hit=1>\"'></pre>";
    let long = format!("a{}", "-long".repeat(49));
    node.levada(&format!("topic create -p 5 {long}")).run();
    produce(
        &node,
        "produce topic-0000 -k | -p 0",
        &format!("{hostile}|{hostile}\n{{\"a\":[1,2]}}|{{\"b\":null}}\n"),
    );
    produce(&node, "produce topic-0000 -p 1 -H x=<script>window.hit=1</script>", "\u{1}\u{2}\u{7f}binary\n");
    node.levada("consume topic-0000 -G <script>window.hit=1</script> -e").run();
    produce(&node, "produce topic-0000 -p 2", &"late\n".repeat(1000));
    let mut visit = Visit::new(&node);
    let long = format!("/topics/{long}");
    let mut pages = PAGES.to_vec();
    pages.extend([
        "/topics?page=9",
        "/topics/topic-0000",
        "/topics/topic-0000/messages?from=start",
        "/topics/topic-0000/produce",
        "/topics/topic-0000/settings",
        "/topics/topic-0000/producers",
        "/topics/topic-0000/groups",
        "/group?id=%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E",
        "/group/reset?id=%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E&to=latest",
        &long,
    ]);
    visit.inspect("full", &pages);
    assert_eq!(visit.browser.eval("window.hit === undefined"), json!(true));
    visit.open("/topics");
    assert!(visit.browser.text().contains("1,000 topics"));
    visit.open("/topics/topic-0000/messages?from=start");
    let text = visit.browser.text();
    assert!(text.contains("window.hit=1") && text.contains("01 02 7f 62"), "{text}");
    // The live tail inserts records by a script of the console.
    visit.open("/topics/topic-0000/messages?from=tail");
    visit
        .browser
        .await_true("document.querySelector('[data-tail-state]').textContent.startsWith('Following')");
    produce(&node, "produce topic-0000 -p 3", &format!("{hostile}\n"));
    visit.browser.await_true("document.querySelector('[data-tail] tbody').innerText.includes('onerror')");
    assert_eq!(
        visit.browser.eval("window.hit === undefined && !document.querySelector('main img')"),
        json!(true)
    );
}

#[test]
fn console_creates_writes_follows_and_deletes_a_topic() {
    let node = Node::started();
    let mut visit = Visit::new(&node);
    visit.open("/");
    visit.browser.follow("nav a[href='/topics']");
    visit.browser.click("details summary");
    visit.browser.fill("input[name=name]", "clicks");
    visit.browser.fill("input[name=partitions]", "2");
    visit.browser.follow("form[action='/topics/create'] button");
    assert!(visit.browser.text().contains("The topic was created."));
    let mut follower = Visit::new(&node);
    follower.open("/topics/clicks/messages?from=tail");
    follower
        .browser
        .await_true("document.querySelector('[data-tail-state]').textContent.startsWith('Following')");
    visit.browser.follow(".tabs a[href='/topics/clicks/produce']");
    visit.browser.fill("textarea[name=key]", "a typed key");
    visit.browser.fill("textarea[name=value]", "hello from a form");
    visit.browser.follow("form.card button");
    assert!(visit.browser.text().contains("written to partition 0 at offset 0"), "{}", visit.browser.text());
    follower
        .browser
        .await_true("document.querySelector('[data-tail] tbody').innerText.includes('hello from a form')");
    visit.browser.follow(".notice a");
    let text = visit.browser.text();
    assert!(text.contains("hello from a form") && text.contains("a typed key"), "{text}");
    visit.browser.follow(".tabs a[href='/topics/clicks/settings']");
    visit.browser.fill("input[name=search]", "retention.ms");
    visit.browser.follow("form[role=search] button");
    visit.browser.click("td details summary");
    visit.browser.fill("td input[name=value]", "3600000");
    visit.browser.follow("td button[value=set]");
    assert!(visit.browser.text().contains("set for this topic"), "{}", visit.browser.text());
    visit.browser.follow(".tabs a[href='/topics/clicks']");
    for (action, done) in [("trim", "The records were deleted."), ("delete", "Deleted.")] {
        let form = format!("form[action='/topics/clicks/{action}']");
        visit.browser.eval(&format!("document.querySelector(\"{form}\").parentElement.open = true"));
        visit.browser.fill(&format!("{form} input[name=confirm]"), "clicks");
        visit.browser.follow(&format!("{form} button"));
        assert!(visit.browser.text().contains(done), "{}", visit.browser.text());
    }
    assert_eq!(node.levada_json("topic list"), json!([]));
}

#[test]
fn chart_of_traffic_survives_a_reload() {
    let node = Node::started();
    node.levada("topic create clicks -p 1").run();
    let mut visit = Visit::new(&node);
    visit.open("/");
    // Two samples, ten seconds apart, with the records in between.
    visit.browser.await_true("document.querySelector('[data-live=produced]').innerText !== '—'");
    produce(&node, "produce clicks", &"a line of twenty bytes\n".repeat(50_000));
    let line = "document.querySelector('[data-chart=traffic] polyline.s0')";
    let peak = "Math.min(...Array.from(LINE.points, (point) => point.y)) < 100".replace("LINE", line);
    visit.browser.await_true(&format!("{line} && {peak}"));
    visit.browser.await_true(
        "fetch('/live').then((reply) => reply.body.getReader()).then((reader) => reader.read().then((part) => {
             reader.cancel();
             const [event] = new TextDecoder().decode(part.value).split('\\n\\n');
             return JSON.parse(event.slice('data: '.length)).history.some((one) => one.produced > 1000);
         }))",
    );
    visit.open("/");
    visit.browser.await_true(&format!("{line} && {line}.points.length > 1 && {peak}"));
}

#[test]
fn newest_records_open_and_lists_sort() {
    let node = Node::started();
    node.levada("topic create clicks -p 1").run();
    node.levada("topic create few -p 2").run();
    produce(&node, "produce clicks", &"{\"a\": [1, 2],  \"b\": {\"c\": 3}}\n".repeat(60));
    node.levada("consume clicks -G readers -e").run();
    produce(&node, "produce clicks", "late\nlater\n");
    let mut visit = Visit::new(&node);
    visit.open("/topics/clicks");
    let text = visit.browser.text();
    assert!(
        text.contains("Cleanup policy: delete · Retention: 7 d · Minimum of replicas in sync: 1"),
        "{text}"
    );
    for (path, tab) in [("", "Partitions"), ("/settings", "Settings"), ("/produce", "Produce")] {
        visit.open(&format!("/topics/clicks{path}"));
        assert_eq!(visit.browser.eval("document.title"), json!(format!("clicks · {tab} · Levada")));
    }
    visit.browser.follow(".tabs a[href='/topics/clicks/messages']");
    assert_eq!(visit.browser.eval("document.title"), json!("clicks · Messages · Levada"));
    let rows = "document.querySelectorAll('[data-record]')";
    assert_eq!(visit.browser.eval(&format!("{rows}.length")), json!(50), "the newest, without a question");
    assert_eq!(visit.browser.eval(&format!("{rows}[0].dataset.record")), json!("0/61"));
    let text = visit.browser.text();
    assert!(text.contains("50 records shown") && !text.contains("From offset"), "the end: {text}");
    let height = visit.browser.eval(&format!("{rows}[9].offsetHeight")).as_f64().expect("a height");
    assert!(height < 60.0, "one line: {height}");
    visit.browser.eval(&format!("{rows}[9].querySelector('td.value summary').click()"));
    visit
        .browser
        .await_true(&format!("{rows}[9].querySelector('td.value pre').innerText.includes('\\n  \"a\": [')"));
    visit.browser.eval(&format!("{rows}[9].querySelector('td.value button').click()"));
    let copied = "['Copied', 'Press Ctrl+C'].includes(document.querySelectorAll('[data-record]')[9].querySelector('td.value button').innerText)";
    visit.browser.await_true(copied);
    assert_eq!(visit.browser.eval("getSelection().toString().startsWith('{')"), json!(true));
    visit.open("/topics/clicks/messages?from=start");
    assert!(visit.browser.text().contains("From offset 50 on"), "{}", visit.browser.text());
    // By a field of JSON: 60 of 62 records, none with another value.
    visit.open("/topics/clicks/messages?from=start&limit=100&field=b.c%3D3");
    assert!(visit.browser.text().contains("60 records shown"), "{}", visit.browser.text());
    visit.open("/topics/clicks/messages?from=start&field=b.c%3D4");
    assert!(visit.browser.text().contains("0 records shown"), "{}", visit.browser.text());
    // The groups of the topic, with their lag in it.
    visit.browser.follow(".tabs a[href='/topics/clicks/groups']");
    let row = visit.browser.eval("document.querySelector('#groups tbody tr').innerText");
    assert!(row.as_str().is_some_and(|row| row.contains("readers") && row.contains("\t2\t")), "{row}");
    visit.open("/topics/few/groups");
    assert!(visit.browser.text().contains("No group of this topic"), "{}", visit.browser.text());
    // Numbers sort as numbers, up and down, and stay sorted when the list is loaded again.
    visit.open("/topics");
    let first = "document.querySelector('#topics tbody tr').innerText.split('\\t')[0].trim()";
    let head = "document.querySelectorAll('#topics thead button')[2]";
    visit.browser.eval(&format!("{head}.click()"));
    assert_eq!(visit.browser.eval(first), json!("few"));
    visit.browser.eval(&format!("{head}.click()"));
    assert_eq!(visit.browser.eval(first), json!("clicks"));
    visit.browser.eval(&format!("{head}.click()"));
    let count = "Number(document.querySelector('#topics').dataset.count || 0)";
    visit.browser.await_true(&format!("{count} > 0"));
    assert_eq!(visit.browser.eval(first), json!("few"));
    assert_eq!(
        visit.browser.eval("document.querySelectorAll('#topics thead th')[2].ariaSort"),
        json!("ascending")
    );
}

/// A stream of events at a path, with further head fields.
fn stream(node: &Node, path: &str, fields: &str) -> BufReader<TcpStream> {
    let host = node.http_address();
    let mut stream = TcpStream::connect(host).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).expect("the broker reads");
    BufReader::new(stream)
}

/// Reads a stream up to the first line that begins like this, and returns the rest of that line.
fn line_of(stream: &mut impl BufRead, start: &str) -> String {
    let mut line = String::new();
    while !line.starts_with(start) {
        line.clear();
        assert!(stream.read_line(&mut line).expect("an event in time") > 0, "no {start}");
    }
    line[start.len()..].trim().to_owned()
}

#[test]
fn live_tail_resumes_after_its_last_event() {
    let mut node = Node::started();
    node.levada("topic create cut -p 2").run();
    produce(&node, "produce cut -p 0", "before\n");
    let path = "/topics/cut/tail?from=tail";
    let mut first = stream(&node, path, "");
    assert_eq!(line_of(&mut first, "id: "), "0:1,1:0");
    drop(first);
    produce(&node, "produce cut -p 1", "in the gap\n");
    let mut second = stream(&node, path, "Last-Event-ID: 0:1,1:0\r\n");
    assert_eq!(line_of(&mut second, "id: "), "0:1,1:0");
    assert_eq!(line_of(&mut second, "id: "), "0:1,1:1");
    assert!(line_of(&mut second, "data: ").contains("in the gap"));
    // An id that no event had begins within the log.
    let mut third = stream(&node, path, "Last-Event-ID: 0:-5,1:99,2:3,x\r\n");
    assert_eq!(line_of(&mut third, "id: "), "0:0,1:1");
    drop((second, third));
    // The page does the same, and shows that it has no connection.
    let mut visit = Visit::new(&node);
    visit.open("/topics/cut/messages?from=tail");
    let shown =
        |text: &str| format!("document.querySelector('[data-tail] tbody').innerText.includes('{text}')");
    let state = "document.querySelector('[data-stream-state]')";
    visit
        .browser
        .await_true("document.querySelector('[data-tail-state]').textContent.startsWith('Following')");
    assert_eq!(visit.browser.eval(&format!("{state}.hidden")), json!(true));
    node.stop();
    visit.browser.await_true(&format!("!{state}.hidden && {state}.textContent.includes('is lost')"));
    node.start();
    produce(&node, "produce cut -p 0", "while away\n");
    visit.browser.await_true(&shown("while away"));
    assert_eq!(visit.browser.eval(&format!("{state}.hidden")), json!(true));
}

#[test]
fn hidden_page_closes_stream_and_resumes_when_visible() {
    let node = Node::started();
    node.levada("topic create clicks -p 1").run();
    let mut visit = Visit::new(&node);
    visit.open("/topics/clicks/messages?from=tail");
    let follows = "document.querySelector('[data-tail-state]').textContent.startsWith('Following')";
    visit.browser.await_true(follows);
    visit.browser.eval(
        "window.streamsClosed = 0; const close = EventSource.prototype.close; \
         EventSource.prototype.close = function () { window.streamsClosed += this.readyState < 2; close.call(this); }",
    );
    let turn = |visit: &mut Visit, hidden: bool| {
        visit.browser.eval(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        ));
    };
    turn(&mut visit, true);
    assert_eq!(visit.browser.eval("window.streamsClosed"), json!(1));
    produce(&node, "produce clicks", "written unseen\n");
    turn(&mut visit, false);
    visit
        .browser
        .await_true("document.querySelector('[data-tail] tbody').innerText.includes('written unseen')");
}

/// The lag of a group as `/metrics` shows it.
fn lag(node: &Node, group: &str) -> f64 {
    let named = format!("levada_group_lag_records{{group=\"{group}\"");
    node.metrics().iter().filter(|(name, _)| name.starts_with(&named)).map(|(_, value)| value).sum()
}

#[test]
fn console_finds_and_resets_a_lagging_group() {
    let node = Node::started();
    node.levada("topic create orders -p 1").run();
    produce(&node, "produce orders", "one\n");
    node.levada("consume orders -G billing -e").run();
    node.levada("consume orders -G done -e").run();
    produce(&node, "produce orders", &"more\n".repeat(500));
    node.levada("consume orders -G done -e").run();
    assert_eq!((lag(&node, "billing"), lag(&node, "done")), (500.0, 0.0));
    let mut visit = Visit::new(&node);
    visit.open("/");
    assert!(
        visit.browser.text().contains("Groups with lag and without a member: 1"),
        "{}",
        visit.browser.text()
    );
    visit.browser.follow(".notice a[href='/groups']");
    let first = visit.browser.eval("document.querySelector('#groups tbody tr').innerText");
    assert!(
        first.as_str().is_some_and(|row| row.contains("billing") && row.contains("no member")),
        "{first}"
    );
    visit.browser.follow("#groups tbody tr a");
    assert!(
        visit.browser.text().contains("The group lags because it has no member."),
        "{}",
        visit.browser.text()
    );
    visit.browser.click("details summary");
    visit.browser.follow("form[action='/group/reset'] button");
    assert!(visit.browser.text().contains("skips 500 records and reads 0 again"), "{}", visit.browser.text());
    assert_eq!(lag(&node, "billing"), 500.0, "the plan changes nothing");
    visit.browser.follow("button.danger");
    assert!(visit.browser.text().contains("The offsets were reset."), "{}", visit.browser.text());
    assert_eq!(lag(&node, "billing"), 0.0);
    // A plan that is older than the last commit is refused.
    visit.open("/group/reset?id=billing&to=earliest");
    node.levada("consume orders -G billing -e -n 0").outcome();
    produce(&node, "produce orders", "last\n");
    node.levada("consume orders -G billing -e").run();
    visit.browser.follow("button.danger");
    assert!(visit.browser.text().contains("has changed since the plan was made"), "{}", visit.browser.text());
    assert_eq!(lag(&node, "billing"), 0.0);
    // The page follows the group without being opened again.
    visit.open("/group?id=billing");
    produce(&node, "produce orders", "new\n");
    visit.browser.await_true("document.querySelector('#group .tiles').innerText.includes('1')");
    visit.browser.eval("document.querySelector(\"form[action='/group/delete']\").parentElement.open = true");
    visit.browser.fill("form[action='/group/delete'] input[name=confirm]", "billing");
    visit.browser.follow("form[action='/group/delete'] button");
    assert!(
        !visit.browser.eval("document.querySelector('#groups').innerText").to_string().contains("billing")
    );
}

#[test]
fn the_keyboard_reaches_everything() {
    let node = Node::started();
    node.levada("topic create keys -p 3").run();
    let mut visit = Visit::new(&node);
    for path in ["/", "/topics", "/topics/keys", "/topics/keys/messages", "/groups", "/users", "/laboratory"]
    {
        visit.open(path);
        let wanted = visit.browser.eval(
            "(() => { window.reached = new Set(); document.addEventListener('focusin', (event) => reached.add(event.target)); \
             window.wanted = Array.from(document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')) \
             .filter((one) => one.checkVisibility()); return wanted.length; })()",
        );
        let count = wanted.as_u64().expect("a number");
        assert!(count > 4, "{path}: {count}");
        for _ in 0..count + 10 {
            visit.browser.press("Tab", 9);
        }
        let missed =
            visit.browser.eval("wanted.filter((one) => !reached.has(one)).map((one) => one.outerHTML)");
        assert_eq!(missed, json!([]), "{path}");
        let outlined = visit.browser.eval(
            "(() => { const one = Array.from(reached).find((one) => one.matches('a, button')); one.focus(); \
             return getComputedStyle(one).outlineStyle !== 'none'; })()",
        );
        assert_eq!(outlined, json!(true), "{path}: the focus is seen");
    }
    // A topic without a mouse: the form is opened, filled and sent by keys.
    visit.open("/topics");
    visit.browser.eval("document.querySelector('summary').focus()");
    visit.browser.press("Enter", 13);
    visit.browser.await_true("document.querySelector('details').open");
    visit.browser.press("Tab", 9);
    visit.browser.call("Input.insertText", &json!({ "text": "typed" }));
    visit.browser.press("Enter", 13);
    visit.browser.await_true("document.body?.innerText.includes('The topic was created.') === true");
}

#[test]
fn console_aborts_only_hanging_transactions() {
    let mut node = Node::new().option("transaction.partition.verification.enable", "false");
    node.start();
    node.levada("topic create ledger young lost -p 1").run();
    let mut tool = Tool::python("open_transaction.py");
    let mut producer = tool.args([&node.bootstrap(), "payments", "ledger"]).spawn();
    assert_eq!(producer.line(LIMIT), "open");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    lose_transaction(node.address(), "young", (4710, i64::try_from(now).expect("near") - 60_000));
    lose_transaction(node.address(), "lost", (4711, 1_700_000_000_000));
    let mut visit = Visit::new(&node);
    visit.open("/transactions");
    let text = visit.browser.text();
    assert!(text.contains("payments") && text.contains("Ongoing") && text.contains("20 min"), "{text}");
    let hanging = visit.browser.eval("document.querySelector('#hanging').innerText").to_string();
    assert!(hanging.contains("lost") && hanging.contains("4711"), "{hanging}");
    assert!(!hanging.contains("ledger") && !hanging.contains("young"), "{hanging}");
    // A form for the transaction that is too young to hang is refused as well.
    visit.browser.eval(
        "(() => { const form = document.querySelector('#hanging form'); form.topic.value = 'young'; \
         form.producer.value = '4710'; })()",
    );
    visit.browser.click("#hanging summary");
    visit.browser.fill("#hanging input[name=confirm]", "abort");
    visit.browser.follow("#hanging form button");
    assert!(
        visit.browser.text().contains("No such transaction hangs in young/0"),
        "{}",
        visit.browser.text()
    );
    visit.open("/transactions");
    visit.browser.click("#hanging summary");
    visit.browser.fill("#hanging input[name=confirm]", "abort");
    visit.browser.follow("#hanging form button");
    let text = visit.browser.text();
    assert!(
        text.contains("The transaction was aborted.") && text.contains("No transaction hangs."),
        "{text}"
    );
    let committed =
        |topic: &str| node.levada_json(&format!("offsets {topic} --committed"))[0]["latest"].clone();
    assert_eq!([committed("lost"), committed("young"), committed("ledger")], [json!(2), json!(0), json!(0)]);
    producer.say("commit");
    assert_eq!(producer.line(LIMIT), "committed");
}

/// A server of one page, on a separate address.
fn serve(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let page = page.clone();
            // A browser also opens connections that it does not use yet.
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    page.len()
                );
                let _ = stream.write_all((head + &page).as_bytes());
            });
        }
    });
    address
}

/// The address of the document in the frame of the page: that of the browser's own error page if
/// the console may not be framed.
fn framed(browser: &mut Browser) -> String {
    // A frame of another site is a separate target, an error page may be one.
    let targets = browser.call_browser("Target.getTargets", &json!({}));
    let mut targets = targets["targetInfos"].as_array().expect("targets").iter();
    if let Some(frame) = targets.find(|one| one["type"] == "iframe") {
        return browser.eval_in(&frame["targetId"], "location.href").as_str().expect("an address").to_owned();
    }
    let tree = browser.call("Page.getFrameTree", &json!({}));
    tree["frameTree"]["childFrames"][0]["frame"]["url"].as_str().expect("a frame").to_owned()
}

/// A hostile page in the browser of a user of the console reads and changes nothing.
fn attack(node: &Node, visit: &mut Visit) {
    let console = visit.base.clone();
    let port = node.http_address().port();
    // DNS rebinding: the page's own name leads to the console.
    for path in ["/", "/topics", "/metrics", "/live"] {
        visit.browser.open(&format!("http://evil.example:{port}{path}"));
        let text = visit.browser.text();
        assert!(text.contains("use localhost") && !text.contains("secret"), "{path}: {text}");
    }
    // A frame that may be shown, and one of the console.
    let harmless = format!("http://127.0.0.1:{}/", serve("<!doctype html>harmless".to_owned()).port());
    let page = |target: &str| {
        format!(
            "<!doctype html><iframe name=frame src='{target}'></iframe>\
             <form method=post target=frame action='{console}/topics/create'><input name=name value=stolen></form>"
        )
    };
    let mut open = |target: &str| {
        let evil = format!("http://evil.example:{}/", serve(page(target)).port());
        assert_eq!(visit.browser.open(&evil), None);
        framed(&mut visit.browser)
    };
    assert_eq!(open(&harmless), harmless);
    assert_eq!(open(&format!("{console}/topics")), "chrome-error://chromewebdata/");
    let reads = format!(
        "Promise.all(['/', '/topics', '/live', '/metrics'].map((path) => fetch('{console}' + path, \
         {{ credentials: 'include' }}).then((answer) => answer.text(), () => 'refused')))"
    );
    assert_eq!(visit.browser.eval(&reads), json!(["refused", "refused", "refused", "refused"]));
    let posts = format!(
        "fetch('{console}/topics/create', {{ method: 'POST', mode: 'no-cors', credentials: 'include', \
         headers: {{ 'Content-Type': 'application/x-www-form-urlencoded' }}, body: 'name=stolen' }}).then(() => 'sent', () => 'sent')"
    );
    assert_eq!(visit.browser.eval(&posts), json!("sent"));
    let submitted = "new Promise((resolve) => { document.querySelector('iframe').onload = () => resolve('loaded'); \
                     document.querySelector('form').submit(); })";
    assert_eq!(visit.browser.eval(submitted), json!("loaded"));
    let frames = visit.browser.eval(
        "(() => { try { return frames[0].document.body.innerText } catch (error) { return error.name } })()",
    );
    assert!(!frames.to_string().contains("secret"), "{frames}");
    visit.browser.open(&format!("{console}/topics"));
    assert!(visit.browser.text().contains("secret") && !visit.browser.text().contains("stolen"));
    let topics = node.levada_json("topic list");
    let names: BTreeSet<String> =
        topics.as_array().expect("a list").iter().map(|one| one["name"].to_string()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn hostile_page_cannot_read_or_change_anything() {
    let node = Node::started();
    node.levada("topic create secret -p 1").run();
    let mut visit = Visit::new(&node);
    visit.browser = Browser::start("MAP evil.example 127.0.0.1");
    visit.open("/topics");
    attack(&node, &mut visit);
}

#[test]
fn hostile_page_cannot_use_a_login_session() {
    let mut node = guarded();
    node.levada("topic create secret -p 1").run();
    let mut visit = Visit::new(&node);
    visit.browser = Browser::start("MAP evil.example 127.0.0.1");
    visit.log_in("admin", "admin-pass");
    assert!(visit.browser.text().contains("secret"), "{}", visit.browser.text());
    attack(&node, &mut visit);
    node.stop();
}

/// Status and head of the response to a raw request.
fn ask(node: &Node, request: &str) -> String {
    let mut stream = TcpStream::connect(node.http_address()).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let mut answer = Vec::new();
    // The broker may close before it has read everything.
    let _ = stream.write_all(request.as_bytes());
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Opens streams up to the bound, which a page then shows, and closes them again.
fn streams_are_bounded(node: &Node) {
    let host = node.http_address();
    let stream = format!("GET /live HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n");
    let mut held = Vec::new();
    let refused = await_some("the bound of streams", LIMIT, || {
        assert!(held.len() < 60, "no bound");
        let mut one = TcpStream::connect(host).expect("a connection");
        one.set_read_timeout(Some(LIMIT)).expect("a timeout");
        one.write_all(stream.as_bytes()).expect("the broker reads");
        let mut head = [0; 12];
        one.read_exact(&mut head).expect("an answer");
        held.push(one);
        head.ends_with(b"503").then_some(held.len())
    });
    assert_eq!(refused, 9, "one user has half of the places");
    let mut visit = Visit::new(node);
    visit.open("/");
    let state = "document.querySelector('[data-stream-state]')";
    visit.browser.await_true(&format!(
        "!{state}.hidden && {state}.textContent.includes('16 pages with a live connection')"
    ));
    assert_eq!(node.http("/topics").0, 200);
    drop(held);
    visit.browser.await_true(&format!("{state}.hidden"));
    await_some("room for a stream", LIMIT, || {
        let mut one = TcpStream::connect(host).expect("a connection");
        one.write_all(stream.as_bytes()).expect("the broker reads");
        let mut head = [0; 12];
        one.read_exact(&mut head).expect("an answer");
        head.ends_with(b"200").then_some(())
    });
}

#[test]
fn browsers_get_pages_for_unknown_paths() {
    let node = Node::started();
    let host = node.http_address();
    let get = |accept: &str| {
        let head =
            format!("GET /groups/%3Cb%3Ea HTTP/1.1\r\nHost: {host}\r\n{accept}Connection: close\r\n\r\n");
        ask(&node, &head)
    };
    let page = get("Accept: text/html,*/*;q=0.8\r\n");
    assert!(page.starts_with("HTTP/1.1 404 ") && page.contains("No such page"), "{page}");
    assert!(page.contains("<nav aria-label=\"Console\">") && page.contains("href=\"/groups\""), "{page}");
    assert!(page.contains("content-security-policy: "), "{page}");
    let text = get("Accept: */*\r\n");
    assert!(
        text.starts_with("HTTP/1.1 404 ") && text.contains("\r\n\r\nno such page; the paths are "),
        "{text}"
    );
    let (status, page) = node.http("/topics/no-such");
    assert!(
        status == 404 && page.contains("Not found") && page.contains("There is no topic no-such."),
        "{page}"
    );
}

#[test]
fn console_survives_hostile_requests_unchanged() {
    let mut node = Node::started();
    let host = node.http_address();
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_string();
    let post = |path: &str, head: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    for (head, body) in [
        ("", "name=stolen"),
        ("", "name=stolen&_proof="),
        ("Cookie: levada=x; levada_9644=y\r\n", "name=stolen&_proof=00"),
        ("Origin: http://evil.example\r\n", "name=stolen"),
        ("Origin: null\r\n", "name=stolen"),
        ("Sec-Fetch-Site: cross-site\r\n", "name=stolen"),
    ] {
        assert_eq!(status(&ask(&node, &post("/topics/create", head, body))), "403", "{head}{body}");
    }
    let huge = "a=".to_string() + &"x".repeat(8 << 20);
    assert_eq!(status(&ask(&node, &post("/topics/create", "", &huge))), "413");
    let many = "a=1&".repeat(400_000);
    assert!(["403", "413"].contains(&status(&ask(&node, &post("/topics/create", "", &many))).as_str()));
    for path in [
        "/../../etc/passwd",
        "/topics/..%2f..%2fetc",
        "/%00",
        "/laboratory/report/../../x",
        "//evil.example/",
        "/topics/%ff%fe",
    ] {
        let answer = ask(&node, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert!(["400", "404", "409"].contains(&status(&answer).as_str()), "{path}: {answer}");
        assert!(!answer.contains("root:"), "{path}");
    }
    streams_are_bounded(&node);
    // More connections than there are places: silent ones make room.
    let idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(host).expect("a connection")).collect();
    drop(idle);
    assert_eq!(http::call(host, "GET", "/topics", "").expect("an answer").0, 200);
    assert_eq!(node.levada_json("topic list"), json!([]));
    node.assert_running("after hostile requests");
    node.stop();
}

#[test]
fn console_runs_the_lab_and_shows_its_report() {
    let node = Node::started();
    let mut visit = Visit::new(&node);
    visit.open("/laboratory");
    visit.browser.choose("select[name=experiment]", "search");
    visit.browser.follow("form.card button");
    assert!(visit.browser.text().contains("search has been running"), "{}", visit.browser.text());
    let runs = process::children(node.pid());
    assert_eq!(runs.len(), 1, "the run is a process of its own");
    let priority = fs::read_to_string(format!("/proc/{}/stat", runs[0])).expect("it runs");
    let fields = priority.rsplit_once(") ").expect("a name").1;
    assert_eq!(fields.split(' ').nth(16), Some("19"), "the lowest priority: {priority}");
    visit.browser.follow("form[action='/laboratory/stop'] button");
    assert!(visit.browser.text().contains("The run was stopped."), "{}", visit.browser.text());
    assert_eq!(process::children(node.pid()).len(), 0);
    // Another stream ends itself, and the page shows it.
    visit.browser.choose("select[name=experiment]", "search");
    visit.browser.follow("form.card button");
    let ended = "document.querySelector(\"a[href='/laboratory/report']\") !== null";
    visit.browser.await_true(&format!("document.readyState === 'complete' && {ended}"));
    visit.browser.follow("a[href='/laboratory/report']");
    assert!(visit.browser.text().contains("search"), "{}", visit.browser.text());
    assert_eq!(visit.browser.complaints(), [""; 0]);
}

/// A node whose listener CLIENT has SASL, with the user admin who may do everything.
fn guarded() -> Node {
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required user_admin=\"admin-pass\";";
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let mut node = Node::new()
        .option("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        .option("super.users", "User:ANONYMOUS;User:admin")
        .option("inter.broker.listener.name", "PLAINTEXT")
        .option("connection.failed.authentication.delay.ms", "1")
        .option("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512")
        .option("listener.name.client.plain.sasl.jaas.config", plain)
        .option("listener.name.client.scram-sha-512.sasl.jaas.config", scram);
    node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    node
}

/// Pages that the user bob may not see.
fn refusals_name_the_permission(visit: &mut Visit) {
    visit.open("/users");
    assert!(visit.browser.text().contains("CLUSTER_AUTHORIZATION_FAILED"), "{}", visit.browser.text());
    for (path, needed) in [
        ("/topics/hushed", "describe --topic hushed"),
        ("/topics/shown/messages?from=start", "read --topic shown"),
        ("/laboratory", "describe --cluster"),
        ("/settings", "describe-configs --cluster"),
        ("/users", "describe --cluster"),
        ("/topics/shown/settings", "describe-configs --topic shown"),
        ("/topics/shown/producers", "read --topic shown"),
        ("/groups", "describe --group NAME"),
        ("/transactions", "describe --transactional-id NAME"),
    ] {
        visit.open(path);
        let text = visit.browser.text();
        assert!(text.contains(&format!("levada acl add 'User:bob' --allow {needed}")), "{path}: {text}");
    }
    // Bob may describe the topic, and not its settings.
    visit.open("/topics");
    let rows = visit.browser.eval("document.querySelector('#topics').innerText").to_string();
    assert!(rows.contains("shown") && rows.contains('—') && !rows.contains("unlimited"), "{rows}");
}

#[test]
fn console_users_see_and_do_what_acls_allow() {
    let mut node = guarded();
    node.levada("topic create shown hushed -p 1").run();
    let mut visit = Visit::new(&node);
    visit.log_in("admin", "wrong");
    assert!(visit.browser.text().contains("were not accepted"), "{}", visit.browser.text());
    visit.log_in("admin", "admin-pass");
    assert!(visit.browser.text().contains("hushed"), "{}", visit.browser.text());
    // The administrator makes a user, and one entry of access control.
    visit.open("/users");
    visit.browser.eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    visit.browser.fill("form[action='/users/set'] input[name=user]", "bob");
    visit.browser.fill("form[action='/users/set'] input[name=password]", "bob-pass");
    visit.browser.follow("form[action='/users/set'] button");
    assert!(visit.browser.text().contains("The password was set."), "{}", visit.browser.text());
    visit.browser.eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    visit.browser.fill("form[action='/acls/create'] input[name=principal]", "User:bob");
    visit.browser.choose("form[action='/acls/create'] select[name=operation]", "8");
    visit.browser.fill("form[action='/acls/create'] input[name=name]", "shown");
    visit.browser.follow("form[action='/acls/create'] button");
    let text = visit.browser.text();
    assert!(text.contains("User:bob") && text.contains("ALLOW") && text.contains("DESCRIBE"), "{text}");
    assert_eq!(visit.browser.inspect(), json!([]));
    // A session is the cookie; a forged one, and one of a session that was closed, are none.
    let cookies = visit.browser.call("Network.getCookies", &json!({}))["cookies"].clone();
    let cookie = &cookies[0];
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")), "{cookies}");
    let name = cookie["name"].as_str().expect("a name");
    let with = |secret: &str| {
        let host = node.http_address();
        ask(
            &node,
            &format!(
                "GET /topics HTTP/1.1\r\nHost: {host}\r\nCookie: {name}={secret}\r\nConnection: close\r\n\r\n"
            ),
        )
    };
    let secret = cookie["value"].as_str().expect("a value");
    assert!(with(secret).contains("hushed"));
    for forged in ["", "admin", &"0".repeat(64), &secret.to_uppercase(), &secret[1..]] {
        let answer = with(forged);
        assert!(answer.contains("/login") && !answer.contains("hushed"), "{forged}: {answer}");
    }
    // A stream ends with its session.
    let mut tail = stream(&node, "/topics/hushed/tail?from=tail", &format!("Cookie: {name}={secret}\r\n"));
    line_of(&mut tail, "id: ");
    visit.browser.follow("form[action='/logout'] button");
    tail.read_to_end(&mut Vec::new()).expect("the end of the stream in time");
    assert!(!with(secret).contains("hushed"));
    visit.log_in("bob", "bob-pass");
    let text = visit.browser.text();
    assert!(text.contains("shown") && !text.contains("hushed"), "{text}");
    for path in ["/topics/hushed", "/performance", "/laboratory", "/topics/hushed/messages?from=start"] {
        visit.open(path);
        let text = visit.browser.text();
        assert!(text.contains("AUTHORIZATION_FAILED"), "{path}: {text}");
    }
    refusals_name_the_permission(&mut visit);
    a_form_that_is_not_offered_is_refused(&mut visit);
    node.stop();
}

/// A user without the permission to create topics sees the missing permission instead of the form;
/// a form that the page does not offer is refused.
fn a_form_that_is_not_offered_is_refused(visit: &mut Visit) {
    visit.open("/topics");
    let locked = visit.browser.eval("document.querySelector('details.locked').textContent").to_string();
    assert!(locked.contains("levada acl add 'User:bob' --allow create --topic NAME"), "{locked}");
    assert_eq!(visit.browser.inspect(), json!([]));
    // By elements: the pages forbid markup from scripts.
    visit.browser.eval(
        "(() => {
            const [form, name, button] = ['form', 'input', 'button'].map((kind) => document.createElement(kind));
            Object.assign(form, { method: 'post', action: '/topics/create' });
            Object.assign(name, { name: 'name', value: 'stolen' });
            form.append(name, document.querySelector('form.who input').cloneNode(), button);
            document.querySelector('main').append(form);
        })()",
    );
    visit.browser.follow("form[action='/topics/create'] button");
    assert!(visit.browser.text().contains("TOPIC_AUTHORIZATION_FAILED"), "{}", visit.browser.text());
}
