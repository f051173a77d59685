//! Tests of the warnings.

use super::*;

#[test]
fn overview_warns_of_low_disk_space() {
    let volume = |free: u64, size: u64| ("/data".to_owned(), free, size);
    assert_eq!(scarce(&volume(10, 100)), None);
    assert_eq!(scarce(&volume(0, 0)), None, "a file system without a size");
    let told = scarce(&volume(9 << 30, 100 << 30)).expect("a warning");
    assert!(told.contains("/data has 9.00 GiB free, 9 %"), "{told}");
}

#[test]
fn overview_names_fenced_brokers() {
    let broker = |id: i32, is_fenced: bool| {
        let mut broker = DescribeClusterBroker::default();
        (broker.broker_id, broker.is_fenced) = (id, is_fenced);
        broker
    };
    let brokers = [broker(1, true), broker(2, true), broker(3, false)];
    let said: Vec<String> = fenced(&brokers, 1).collect();
    assert_eq!(said.len(), 1, "this broker has its own notice: {said:?}");
    assert!(said[0].starts_with("Broker 2 is fenced: the controllers get no heartbeats"), "{said:?}");
}

#[test]
fn late_transactions_link_to_their_page() {
    let (one, two) = (overdue(1).into_string(), overdue(2).into_string());
    assert!(
        one.starts_with("1 partition has a transaction") && two.starts_with("2 partitions have a"),
        "{two}"
    );
    assert!(one.contains("<a href=\"/transactions\">"), "{one}");
}
