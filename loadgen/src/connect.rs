//! How does a connection to the server come up?
//!
//! One HTTP/2 channel each, with windows wide enough that answers are never held up by the reader's
//! window alone. Plain text, as the server has it.

use tonic::transport::{Channel, Endpoint};

use crate::error::LoadError;
use crate::limits::{FRAME_BYTES_MAX, NARROW_WINDOW_BYTES, WINDOW_BYTES};

/// Opens a channel of its own.
///
/// # Errors
/// [`LoadError::Usage`] for a target that is no URL, [`LoadError::Connect`] when nobody answers.
pub async fn connect(target: &str) -> Result<Channel, LoadError> {
    let wide = endpoint(target)?
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX);
    open(wide, target).await
}

/// Opens a channel for those who read late or never: what is unread stays with the server but for
/// [`NARROW_WINDOW_BYTES`] a stream. The channel's own window holds all of these, so that no stream
/// waits for another.
///
/// # Errors
/// As [`connect`].
pub async fn connect_narrow(target: &str) -> Result<Channel, LoadError> {
    let narrow = endpoint(target)?
        .initial_stream_window_size(NARROW_WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    open(narrow, target).await
}

fn endpoint(target: &str) -> Result<Endpoint, LoadError> {
    let endpoint = Endpoint::from_shared(target.to_owned())
        .map_err(|error| LoadError::Usage(format!("--target {target:?} is no URL: {error}")))?;
    Ok(endpoint.tcp_nodelay(true))
}

async fn open(endpoint: Endpoint, target: &str) -> Result<Channel, LoadError> {
    endpoint
        .connect()
        .await
        .map_err(|source| LoadError::Connect { target: target.to_owned(), source })
}
