//! Starts threads with names.
//!
//! A thread that the system refuses is an error with that name, never a panic.

use std::thread::{Builder, JoinHandle};

use crate::error::ServiceError;

/// Runs `work` on a thread of this name.
///
/// # Errors
/// [`ServiceError::Io`].
pub(crate) fn spawn(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServiceError> {
    let what = format!("starting the thread {name}");
    Builder::new().name(name).spawn(work).map_err(|source| ServiceError::Io { what, source })
}
