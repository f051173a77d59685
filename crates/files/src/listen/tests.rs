//! Addresses as they are written, and sockets that somebody has left behind.

use std::os::unix::net::UnixStream;

use super::{Address, Purpose, bind, for_shards};

#[test]
fn an_address_is_read_as_it_is_shown() {
    for text in ["127.0.0.1:8080", "[::1]:80", ":80", "unix:/run/x", "systemd", "localhost:0"] {
        let address: Address = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
    }
    for odd in ["", "80", "host", "host:", "host:x", "::1:80", "unix:", "host:65536"] {
        assert!(odd.parse::<Address>().is_err(), "{odd}");
    }
}

#[test]
fn a_socket_that_nobody_serves_is_replaced_and_no_other() {
    let home = tempfile::TempDir::new().unwrap();
    let path = home.path().join("socket");
    let address = Address::Unix(path.clone());
    let first = bind(&address, Purpose::Files).unwrap();
    assert!(bind(&address, Purpose::Files).is_err(), "somebody answers there");
    drop(first);
    let second = bind(&address, Purpose::Files).unwrap();
    UnixStream::connect(&path).unwrap();
    drop(second);
    let file = home.path().join("file");
    std::fs::write(&file, "data").unwrap();
    assert!(bind(&Address::Unix(file.clone()), Purpose::Files).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"data");
}

#[test]
fn shards_have_queues_of_their_own_on_an_address_that_nobody_else_can_bind() {
    let first = bind(&Address::Tcp("127.0.0.1".to_owned(), 0), Purpose::Files).unwrap();
    let address = first[0].address().unwrap();
    let shards = for_shards(first, 3).unwrap();
    let addresses = shards.iter().map(|own| own[0].address().unwrap());
    assert_eq!(addresses.collect::<Vec<_>>(), vec![address.clone(); 3]);
    assert!(bind(&address, Purpose::Files).is_err(), "it is taken");
    drop(shards);
    bind(&address, Purpose::Files).unwrap();
}
