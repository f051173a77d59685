//! Tests of the rates of clients.

use super::*;

#[test]
fn rates_of_hostile_clients_are_text() {
    let one = |name: &str| ByteRates { name: name.to_owned(), produced: 2048.9, fetched: 0.0 };
    let busiest = BusiestClients { client_ids: vec![one("<script>"), one("")], users: Vec::new() };
    let text = rates(&busiest).into_string();
    for part in ["&lt;script&gt;", "(no client id)", "2.00 KiB/s", "0 B/s", "No client has produced"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("<script>"), "{text}");
}
