//! The signals that end a command.

use std::sync::mpsc;
use std::thread;

use shoal_table::remove_partial_files;
use tokio::runtime::Builder;
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

/// From now on, the first Ctrl-C or SIGTERM removes the output files that are not complete, and
/// ends the process.
///
/// # Errors
/// The signals cannot be caught.
pub(crate) fn remove_output_at_signal() -> Result<(), CliError> {
    let (caught, is_caught) = mpsc::channel();
    let wait = move || {
        let runtime = match Builder::new_current_thread().enable_io().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                return drop(caught.send(Err(CliError::local("catching signals")(error))));
            }
        };
        runtime.block_on(async {
            let stop = match stop_signal() {
                Ok(stop) => stop,
                Err(error) => return drop(caught.send(Err(error))),
            };
            // The receiver waits.
            let _ = caught.send(Ok(()));
            stop.await;
            remove_partial_files();
            std::process::exit(Exit::Failed as i32);
        });
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map_err(CliError::local("starting a thread"))?;
    // The thread answers, or has ended.
    is_caught.recv().unwrap_or(Ok(()))
}
