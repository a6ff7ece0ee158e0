//! Waits until the history of a fleet has an epoch, and says so.

use std::io;
use std::time::Duration;

use indicatif::ProgressBar;
use shoal_client::{Client, v1};
use tokio::time::{Instant, sleep};

use crate::error::CliError;
use crate::logs::note;

/// Interval between two requests for the progress of the history.
const POLL: Duration = Duration::from_millis(100);
/// Time after which a wait is worth a line.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// The state of the history of a fleet.
///
/// # Errors
/// The fleet has no history, or it has stopped.
pub(super) fn history_of(fleet: &v1::Fleet) -> Result<&v1::HistoryState, CliError> {
    let name = &fleet.name;
    let history = fleet.history.as_ref().ok_or_else(|| {
        CliError::Usage(format!("fleet {name} has no history; start its server with --history"))
    })?;
    if history.problem.is_empty() {
        return Ok(history);
    }
    let stopped = CliError::local(format!("the history of fleet {name} has stopped"));
    Err(stopped(io::Error::other(history.problem.clone())))
}

/// Waits until the history of the fleet `name` has `epoch`, and returns its state then. A progress
/// line, or after a second a line on standard error, says what is waited for; `remedy` is the end of
/// the error of a history that does not advance within the timeout.
///
/// # Errors
/// Those of the server; as [`history_of`]; the timeout.
pub(super) async fn reaches(
    client: &Client,
    name: &str,
    epoch: u64,
    remedy: &str,
) -> Result<v1::HistoryState, CliError> {
    let timeout = client.options().timeout;
    let begun = Instant::now();
    let (mut reached, mut since, mut is_told) = (0, begun, false);
    let bar = ProgressBar::new_spinner();
    loop {
        let fleet = client.get_fleet(name).await?;
        let history = history_of(&fleet)?;
        let watermark = history.watermark_epoch;
        if watermark >= epoch {
            bar.finish_and_clear();
            return Ok(history.clone());
        }
        if watermark > reached {
            (reached, since) = (watermark, Instant::now());
        }
        let behind = format!(
            "the history of fleet {name} is behind: it has epoch {watermark}, and epoch {epoch} is \
             waited for"
        );
        bar.set_message(behind.clone());
        if bar.is_hidden() && !is_told && begun.elapsed() >= TOLD_AFTER {
            note(&behind);
            is_told = true;
        }
        if since.elapsed() > timeout {
            let late = CliError::local(format!(
                "the history of fleet {name} stays at epoch {watermark} of {epoch}; wait longer with \
                 --timeout{remedy}"
            ));
            return Err(late(io::ErrorKind::TimedOut.into()));
        }
        bar.tick();
        sleep(POLL).await;
    }
}
