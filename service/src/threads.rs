//! Starts threads with names.
//!
//! A thread that the system refuses is an error with that name, never a panic.

use std::thread::{Builder, JoinHandle};

use crate::error::ServiceError;

/// Lowers the priority of background threads: each gets about a quarter of a core that a thread of
/// usual priority wants too. With less, other processes of a busy machine stop them.
const BACKGROUND_NICENESS: i32 = 5;

/// Runs work that blocks beside the tasks of the runtime.
///
/// # Errors
/// Those of the work; [`ServiceError::ShuttingDown`].
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    // An error means that the work panicked or that the runtime ends.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(ServiceError::ShuttingDown))
}

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

/// As [`spawn`], for work that others do not wait for.
///
/// # Errors
/// [`ServiceError::Io`].
pub(crate) fn spawn_background(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServiceError> {
    spawn(name, || {
        enter_background();
        work();
    })
}

/// Lowers the priority of this thread, where the system has one for each thread.
pub(crate) fn enter_background() {
    // Elsewhere the call would concern the whole process. A refusal costs only the priority.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(BACKGROUND_NICENESS);
}
