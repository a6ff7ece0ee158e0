//! How does a connection to the server come up?
//!
//! One HTTP/2 channel each, with windows wide enough that answers are never held up by the reader's
//! window alone. Plain text, as the server has it.

use tonic::transport::{Channel, Endpoint};

use crate::error::LoadError;
use crate::limits::{FRAME_BYTES_MAX, WINDOW_BYTES};

/// Opens a channel of its own.
///
/// # Errors
/// [`LoadError::Usage`] for a target that is no URL, [`LoadError::Connect`] when nobody answers.
pub async fn connect(target: &str) -> Result<Channel, LoadError> {
    let endpoint = Endpoint::from_shared(target.to_owned())
        .map_err(|error| LoadError::Usage(format!("--target {target:?} is no URL: {error}")))?
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .tcp_nodelay(true);
    endpoint
        .connect()
        .await
        .map_err(|source| LoadError::Connect { target: target.to_owned(), source })
}
