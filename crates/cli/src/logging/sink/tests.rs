//! A defect of the writing thread.

use super::*;

#[test]
fn a_panic_of_the_writing_thread_loses_no_line_after_it() {
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
