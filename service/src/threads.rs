//! Starts threads with names.
//!
//! If the system cannot start a thread, that is an error with the thread's name, not a panic.

use std::thread::{Builder, JoinHandle};

use crate::error::ServiceError;

/// Niceness of background threads: each gets about a quarter of a core for which it competes with a
/// thread of normal priority. With a lower priority, other processes of a busy machine could starve
/// them.
const BACKGROUND_NICENESS: i32 = 5;

/// Runs blocking work on a thread of the runtime's blocking pool.
///
/// # Errors
/// The errors of the work; [`ServiceError::ShuttingDown`] if the work panics or the runtime ends.
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

/// As [`spawn`], on a thread of low priority.
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

/// Lowers the priority of this thread, on systems where each thread has a priority of its own.
pub(crate) fn enter_background() {
    // On other systems the call would change the whole process. If it fails, the thread keeps its
    // priority.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(BACKGROUND_NICENESS);
}
