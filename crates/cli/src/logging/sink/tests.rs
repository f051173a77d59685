//! Defects of the writing thread, and of its file.

use super::*;

#[test]
fn sink_thread_panic_loses_no_later_line() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let sink = Sink::start();
    sink.write_to(&path).unwrap();
    let mut writer = sink.writer()();
    writer.write_all(b"before\n").unwrap();
    sink.writer.orders.send(Order::Panic).unwrap();
    writer.write_all(b"after\n").unwrap();
    drop(sink);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nafter\n");
}

#[test]
fn sink_counts_lines_lost_to_full_disk() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let sink = Sink::start();
    sink.write_to(Path::new("/dev/full")).unwrap();
    let mut writer = sink.writer()();
    for line in ["1\n", "2\n", "3\n"] {
        writer.write_all(line.as_bytes()).unwrap();
    }
    sink.write_to(&path).unwrap();
    writer.write_all(b"4\n").unwrap();
    drop(sink);
    let lost = "{\"event\":\"lost\",\"lines\":3,\"target\":\"levada::audit\"}\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{lost}4\n"));
}

#[test]
fn torn_sink_line_ends_before_next_line() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    std::fs::write(&path, "{\"a\":").unwrap();
    let target = Some(Target { path: path.clone(), file: open(&path).unwrap() });
    let mut place = Place { target, is_told: true, is_torn: true };
    place.put(b"{}\n").unwrap();
    place.put(b"{}\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":\n{}\n{}\n");
}
