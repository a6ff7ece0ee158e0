//! The signals that end a command.

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{CliError, Exit};

/// Completes at the first Ctrl-C or SIGTERM; a second signal ends the process at once.
///
/// # Errors
/// The signals cannot be caught.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    let catch = |kind| signal(kind).map_err(CliError::local("catching signals"));
    let mut interrupt = catch(SignalKind::interrupt())?;
    let mut terminate = catch(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(Exit::Failed as i32);
        });
    })
}
