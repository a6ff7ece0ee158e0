//! Attacks on the HTTP listener, with requests of HTTP/1.1 that are written as bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};
use tonic::Status;

use super::connections::{AGAIN, slow_request};
use super::target::{Target, together};
use crate::login::logged_in;

/// Connections whose requests arrive a byte a second.
const SLOW_CONNECTIONS: usize = 1_000;
/// Concurrent loops that send a giant header.
const GIANT_LOOPS: usize = 20;
/// Bytes of a giant header.
const GIANT_BYTES: usize = 1 << 20;
/// Connections that read nothing.
const UNREAD_CONNECTIONS: usize = 200;
/// After this time they are opened again: before the server cuts them.
const UNREAD_TIME: Duration = Duration::from_secs(50);

/// The lines that begin a request, with the token of the process.
fn request(line: &str) -> Vec<u8> {
    let mut bytes = format!("{line} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
    if let Some(bearer) = logged_in().token.as_ref().and_then(|token| token.bearer()) {
        bytes.extend_from_slice(b"Authorization: ");
        bytes.extend_from_slice(bearer.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// 1,000 connections send the headers of a request a byte a second. A connection that the server
/// ends is opened again.
pub async fn slow_headers(target: Arc<Target>, address: SocketAddr) {
    let begin: Arc<[u8]> = [&request("GET /healthz")[..], b"X: "].concat().into();
    together(SLOW_CONNECTIONS, || slow_request(Arc::clone(&target), address, begin.clone())).await;
}

/// As [`slow_headers`], with the body of a report.
pub async fn slow_bodies(target: Arc<Target>, address: SocketAddr) {
    let line = format!("POST /v1/fleets/{}/objects", target.fleet);
    let rest = b"Content-Type: application/x-ndjson\r\nContent-Length: 8000000\r\n\r\n";
    let begin: Arc<[u8]> = [&request(&line)[..], rest].concat().into();
    together(SLOW_CONNECTIONS, || slow_request(Arc::clone(&target), address, begin.clone())).await;
}

/// Sends requests with a header of 1 MiB, 20 at a time. Each one counts as refused.
pub async fn giant_headers(target: Arc<Target>, address: SocketAddr) {
    let mut giant = [&request("GET /healthz")[..], b"X: "].concat();
    giant.resize(giant.len() + GIANT_BYTES, b'x');
    giant.extend_from_slice(b"\r\n\r\n");
    let giant: Arc<[u8]> = giant.into();
    together(GIANT_LOOPS, || send_giants(Arc::clone(&target), address, giant.clone())).await;
}

async fn send_giants(target: Arc<Target>, address: SocketAddr, giant: Arc<[u8]>) {
    loop {
        match send_giant(address, &giant).await {
            Ok(answer) => target.refused(1, || answer),
            Err(error) => target.failed(Status::unavailable(error.to_string())).await,
        }
    }
}

/// Returns the first line of the answer.
async fn send_giant(address: SocketAddr, giant: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // The server may refuse the request before it has read all of it.
    let _ = stream.write_all(giant).await;
    let mut answer = [0; 64];
    let count = stream.read(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer[..count]);
    Ok(answer.lines().next().unwrap_or("the connection ended").to_owned())
}

/// 200 connections ask for all objects of the fleet and read nothing; one whose request is sent
/// counts as answered.
pub async fn unread(target: Arc<Target>, address: SocketAddr) {
    let line = format!("GET /v1/fleets/{}/range?rectangle=-180,-90,180,90", target.fleet);
    let ask: Arc<[u8]> = [&request(&line)[..], b"\r\n"].concat().into();
    together(UNREAD_CONNECTIONS, || ask_and_wait(Arc::clone(&target), address, ask.clone())).await;
}

async fn ask_and_wait(target: Arc<Target>, address: SocketAddr, ask: Arc<[u8]>) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await
            && stream.write_all(&ask).await.is_ok()
        {
            target.answered(1);
            sleep(UNREAD_TIME).await;
            continue;
        }
        target.refused(1, || "no connection".to_owned());
        sleep(AGAIN).await;
    }
}
