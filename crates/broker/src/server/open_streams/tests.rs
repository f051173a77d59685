//! Sockets of a thread that does not run.

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn another_thread_closes_the_sockets_that_are_still_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let streams = Arc::<OpenStreams>::default();
    let mut open = Vec::new();
    let mut peers = Vec::new();
    for _ in 0..3 {
        peers.push(TcpStream::connect(address).await.unwrap());
        let accepted = listener.accept().await.unwrap().0.into_std().unwrap();
        open.push(streams.register(accepted).unwrap());
    }
    drop(open.pop());
    let other = streams.clone();
    assert_eq!(std::thread::spawn(move || other.close()).join().unwrap(), 2);
    for peer in &mut peers {
        assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
    }
    drop(open);
    assert_eq!(streams.close(), 0);
}
