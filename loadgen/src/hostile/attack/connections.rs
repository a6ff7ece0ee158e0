//! An attack by connections that are opened and closed.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};
use tonic::Status;

use super::target::{Target, together};

/// Number of concurrent loops that open and close connections.
const OPENERS: usize = 64;
/// Timeout of one attempt: if the server's accept queue is full, the system retries only after a
/// second.
const OPEN_MAX: Duration = Duration::from_millis(50);

/// Opens and closes connections as fast as possible, 64 at a time; an open connection counts as
/// answered.
pub async fn open_and_close(target: Arc<Target>) {
    together(OPENERS, || open_and_close_one(Arc::clone(&target))).await;
}

async fn open_and_close_one(target: Arc<Target>) {
    let address = target.url.trim_start_matches("http://").trim_end_matches('/');
    loop {
        // Closing with a reset frees the port at once for the next connection.
        let Ok(opened) = timeout(OPEN_MAX, TcpStream::connect(address)).await else {
            target.refused(1, || "no connection in time".to_owned());
            continue;
        };
        match opened.and_then(|stream| stream.set_zero_linger()) {
            Ok(()) => target.answered(1),
            Err(error) => target.failed(Status::unavailable(error.to_string())).await,
        }
    }
}
