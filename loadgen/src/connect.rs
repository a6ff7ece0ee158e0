//! Connections of the load generator: wide HTTP/2 windows, so that only the reader limits the
//! server, or narrow windows for silent subscribers. All have the same token and TLS settings.

use shoal_client::{Client, ConnectOptions};
use tokio::time::Duration;

use crate::error::LoadError;
use crate::limits::{
    ANSWER_BYTES_MAX, FRAME_BYTES_MAX, NARROW_WINDOW_BYTES, STALL_S_MAX, WINDOW_BYTES,
};
use crate::login::logged_in;

/// Opens a connection with wide windows.
///
/// # Errors
/// [`LoadError::Usage`] for an invalid target, [`LoadError::Connect`] if no server answers.
pub async fn connect(target: &str) -> Result<Client, LoadError> {
    open(target, WINDOW_BYTES, Some(FRAME_BYTES_MAX)).await
}

/// Opens a connection for streams that are read late or never. At most [`NARROW_WINDOW_BYTES`] of
/// each stream arrive unread; the server keeps the rest. The window of the connection is large
/// enough for all of its streams, so that streams do not block each other.
///
/// # Errors
/// As [`connect`].
pub async fn connect_narrow(target: &str) -> Result<Client, LoadError> {
    open(target, NARROW_WINDOW_BYTES, None).await
}

async fn open(
    target: &str,
    stream_window: u32,
    frame_bytes_max: Option<u32>,
) -> Result<Client, LoadError> {
    let options = ConnectOptions {
        timeout: Duration::from_secs(STALL_S_MAX),
        stream_window_bytes: Some(stream_window),
        connection_window_bytes: Some(WINDOW_BYTES),
        frame_bytes_max,
        message_bytes_max: ANSWER_BYTES_MAX,
        ..logged_in()
    };
    Ok(Client::connect(target, options).await?)
}
