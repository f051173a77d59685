//! `levada files` and the clients that people use: curl, wget, a browser.
//!
//! Suite: long; 13 s; needs chromium, curl, wget
//! Soak: scale 1, repeated, filter mirrors

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use levada_testing::scaled;
use levada_tests::Tool;
use levada_tests::files::FileServer;

/// Every file beneath a directory.
fn tree(root: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for name in fs::read_dir(&directory).expect("a directory") {
            let path = name.expect("a name").path();
            if path.is_dir() {
                left.push(path);
            } else {
                files.insert(path.strip_prefix(root).expect("beneath it").to_owned());
            }
        }
    }
    files
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The content of version `version` of file `index`: every byte depends on both.
fn content(index: usize, version: u8) -> Vec<u8> {
    let large = if index % 70 == 6 { 700_000 } else { 100_000 };
    let len = [0, 10, 5_000, 16_384, 16_385, 40_000, large][index % 7] + usize::from(version) * (index % 3);
    vec![version; len]
}

#[test]
fn wget_mirrors_tree_while_files_are_replaced() {
    let count = scaled(10_000);
    let name = |index: usize| format!("d{}/e {}/f&{index}.bin", index % 5, index % 3);
    let server = FileServer::start(&["--listing"], |root| {
        for index in 0..count {
            let path = root.join(name(index));
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, content(index, 1)).expect("a file");
        }
    });
    let (root, done) = (server.root(), AtomicBool::new(false));
    let mirror = server.home().join("mirror");
    let replaced = std::thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            let mut replaced = 0_usize;
            while !done.load(Ordering::Relaxed) {
                let (index, version) = (replaced * 13 % count, (replaced / count % 100) as u8 + 2);
                let beside = root.join(".next");
                fs::write(&beside, content(index, version)).expect("a file");
                fs::rename(&beside, root.join(name(index))).expect("a name");
                replaced += 1;
            }
            replaced
        });
        let mut wget = Command::new("wget");
        wget.args(["-q", "-r", "-np", "-nH", "-e", "robots=off", "-R", "index.html*", "-P"]).arg(&mirror);
        run(wget.arg(server.url("/")));
        done.store(true, Ordering::Relaxed);
        replacing.join().expect("no panic")
    });
    assert_eq!(tree(&mirror), (0..count).map(|index| PathBuf::from(name(index))).collect());
    let mut newer = 0;
    for index in 0..count {
        let bytes = fs::read(mirror.join(name(index))).expect("a file");
        let version = bytes.first().copied().unwrap_or(1);
        newer += usize::from(version > 1);
        assert!(bytes == content(index, version), "{} is not a version of itself", name(index));
    }
    println!("{count} files mirrored; {replaced} replaced meanwhile; {newer} mirrored in a later version");
    assert!(newer > count / 10, "only {newer} were replaced before they were mirrored");
    assert!(replaced > count / 10, "only {replaced} were replaced meanwhile");
    server.stop();
}

#[test]
fn wget_resumes_an_interrupted_download() {
    let all: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let server = FileServer::start(&[], |root| fs::write(root.join("file"), &all).expect("a file"));
    let part = server.home().join("file");
    fs::write(&part, &all[..1_234_567]).expect("a file");
    run(Command::new("wget").args(["-q", "-c", &server.url("/file")]).current_dir(server.home()));
    assert!(fs::read(&part).expect("a file") == all);
    server.stop();
}

#[test]
fn curl_works_with_etags_ranges_and_unix_socket() {
    let home = tempfile::TempDir::new().expect("a directory");
    let socket = home.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let server = FileServer::start(&["--listen", &listen, "--precompressed"], |root| {
        fs::write(root.join("a.txt"), "hello ".repeat(10_000)).expect("a file");
        run(Command::new("gzip").arg("-k").arg(root.join("a.txt")));
    });
    let url = server.url("/a.txt");
    let curl = |args: &[&str]| {
        let output = Command::new("curl").arg("-sS").args(args).output().expect("curl is there");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(curl(&["--compressed", &url]), "hello ".repeat(10_000));
    let tag = home.path().join("tag");
    let tag = tag.to_str().expect("a path");
    curl(&["--etag-save", tag, &url]);
    assert_eq!(curl(&["--etag-compare", tag, "-w", "%{http_code}", &url]), "304");
    assert_eq!(curl(&["-r", "6-9", &url]), "hell");
    assert_eq!(curl(&["-r", "-6", "--http1.0", &url]), "hello ");
    let path = socket.to_str().expect("a path");
    assert_eq!(curl(&["--unix-socket", path, "-r", "0-4", "http://any/a.txt"]), "hello");
    assert_eq!(curl(&["-d", "x=1", "-w", "%{http_code}", &url]), "405 Method Not Allowed\n405");
    server.stop();
    assert!(!socket.exists(), "the socket goes with its server");
}

#[test]
fn a_browser_shows_pages_and_listings() {
    let server = FileServer::start(&["--listing"], |root| {
        fs::create_dir(root.join("list")).expect("a directory");
        fs::write(root.join("list/<i>ü.txt"), "").expect("a file");
        fs::write(root.join("app.js"), "document.title = 'run by the script'").expect("a file");
        fs::write(root.join("page.html"), "<script src=app.js></script><p>ü</p>").expect("a file");
    });
    let show = |path: &str| Tool::chromium().args(["--dump-dom", &server.url(path)]).run().stdout;
    let page = show("/page.html");
    assert!(page.contains("<p>ü</p>") && page.contains("run by the script</title>"), "{page}");
    let list = show("/list/");
    assert!(list.contains("&lt;i&gt;ü.txt"), "{list}");
    let lost = show("/nothing");
    assert!(lost.contains("<h1>404 Not Found</h1>") && lost.contains("<html lang=\"en\">"), "{lost}");
    server.stop();
}
