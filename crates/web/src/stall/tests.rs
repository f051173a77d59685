//! Clients that read, and one that does not.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const LARGE: usize = 64 << 20;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

#[tokio::test]
async fn client_that_reads_nothing_times_out() {
    let (_client, stream) = pair().await;
    let mut guard = StallGuard::waiting(stream, Duration::ZERO);
    guard.write_all(b"fits into the socket").await.unwrap();
    let failed = guard.write_all(&vec![0; LARGE]).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_client_that_reads_gets_everything() {
    let (mut client, stream) = pair().await;
    let mut guard = StallGuard::new(stream);
    let sent = async {
        guard.write_all(&vec![7; LARGE]).await.unwrap();
        guard.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(sent, client.read_to_end(&mut received));
    assert_eq!(read.unwrap(), LARGE);
}
