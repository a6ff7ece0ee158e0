//! Attacks of peers without a valid token or certificate: TLS handshakes, complete and not, and
//! calls with wrong tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shoal_client::{Client, ConnectOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};
use tonic::body::Body;

use super::raw_call::call_with_token;
use super::target::{Target, together};
use crate::connect::connect;
use crate::login::logged_in;

/// Loops that connect and disconnect at the same time.
const CONNECTORS: usize = 64;
/// Handshakes that stall: some more than a server accepts connections from one address.
const STALLED: usize = 2_100;
/// Pause before a stalled handshake that the server ended begins again.
const AGAIN: Duration = Duration::from_millis(100);
/// The first bytes of the greeting of a TLS client (RFC 8446, section 4.1.2): a record of 512 bytes
/// with a handshake message of 508.
const HALF_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
/// Connections that call with wrong tokens, and concurrent calls on each.
const CALLERS: usize = 8;
const CALLS: usize = 16;
/// The called method.
const LIST_FLEETS_PATH: &str = "/shoal.v1.FleetService/ListFleets";
/// Base64 of the header `{"alg":"EdDSA"}` and of the claims `{}`. The key is that of a file with
/// one key.
const SIGNED_HEAD: &str = "eyJhbGciOiJFZERTQSJ9.e30";

/// Connects, over TLS if the target has it, and disconnects as soon as HTTP/2 is ready, again and
/// again, 64 at a time.
pub async fn handshakes(target: Arc<Target>) {
    together(CONNECTORS, || connect_again(Arc::clone(&target))).await;
}

async fn connect_again(target: Arc<Target>) {
    loop {
        match connect(&target.url).await {
            Ok(client) => {
                target.answered(1);
                drop(client);
            }
            Err(error) => target.refused(1, || error.to_string()),
        }
    }
}

/// 2,100 connections send the first bytes of a TLS greeting and nothing more. One that the server
/// ends begins again.
pub async fn half_handshakes(target: Arc<Target>) {
    together(STALLED, || stall(Arc::clone(&target))).await;
}

async fn stall(target: Arc<Target>) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(target.authority()).await
            && stream.write_all(HALF_HELLO).await.is_ok()
        {
            target.answered(1);
            // The server may send an alert before it ends the connection.
            while let Ok(1..) = stream.read(&mut [0; 256]).await {}
        }
        target.refused(1, || "the connection ended".to_owned());
        sleep(AGAIN).await;
    }
}

/// Calls with tokens that no server has listed, each another one, 128 at a time on 8 connections.
pub async fn wrong_tokens(target: Arc<Target>) {
    call_with(target, |number| format!("shoal_{number:064x}")).await;
}

/// As [`wrong_tokens`], with signed tokens whose signatures are wrong.
pub async fn forged_tokens(target: Arc<Target>) {
    // The second half of the signature is a valid scalar, so that all of it must be computed.
    call_with(target, |number| format!("{SIGNED_HEAD}.{number:043}{:A<43}", "")).await;
}

async fn call_with(target: Arc<Target>, token: fn(u64) -> String) {
    let numbers = Arc::new(AtomicU64::new(0));
    together(CALLERS, || {
        let (target, numbers) = (Arc::clone(&target), Arc::clone(&numbers));
        async move {
            let options = ConnectOptions { token: None, ..logged_in() };
            let client = target.connect_with(options).await;
            let calls =
                || call_again(Arc::clone(&target), client.clone(), Arc::clone(&numbers), token);
            together(CALLS, calls).await;
        }
    })
    .await;
}

async fn call_again(
    target: Arc<Target>,
    client: Client,
    numbers: Arc<AtomicU64>,
    token: fn(u64) -> String,
) {
    loop {
        let token = token(numbers.fetch_add(1, Relaxed));
        match call_with_token(&client, LIST_FLEETS_PATH, Body::empty(), &token).await {
            Ok(_) => target.answered(1),
            Err(status) => target.refused(1, || status.message().to_owned()),
        }
    }
}
