//! `shoal history import`: reports the rows of a file, and waits until they are in the history.
//!
//! The history takes accepted fixes of any age, so an import is a report. Fixes with the object and
//! time of one that is there replace it: a file can be imported again.

use std::io;
use std::time::Duration;

use clap::Args;
use shoal_client::{Client, v1};
use tokio::time::{Instant, sleep};

use crate::cli::error::{CliError, Exit};
use crate::cli::file_rows::RowFile;
use crate::cli::report::{self, RowSource, SendArgs};

/// Between two looks at the progress of the history.
const POLL: Duration = Duration::from_millis(100);

/// Flags of `shoal history import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// GeoParquet with object_id, time (or t_ms), points, and perhaps speed, heading, altitude and
    /// state; or CSV as of `shoal report`; - for CSV on standard input
    pub file: String,
    #[command(flatten)]
    pub(super) sending: SendArgs,
}

impl ImportArgs {
    /// Opens the file.
    ///
    /// # Errors
    /// As [`RowFile::open`].
    pub(super) fn source(&self) -> Result<RowSource, CliError> {
        Ok(RowSource::File(RowFile::open(&self.file, self.sending.speed_unit)?))
    }
}

/// Reports the rows in the order of the file, waits until the history has them, and writes the
/// summary of the report.
///
/// # Errors
/// Those of the server and of writing. Refused rows give [`Exit::PartlyRefused`].
pub(super) async fn run(
    client: &Client,
    ImportArgs { sending, .. }: &ImportArgs,
    source: RowSource,
) -> Result<Exit, CliError> {
    let fleet = client.get_fleet(&sending.fleet.fleet).await?;
    history_of(&fleet)?;
    let summary = report::send(client, sending, source, &fleet).await?;
    let exit = report::write_summary(sending, &summary)?;
    if let Some(epoch) = summary.changed_epoch() {
        reaches(client, &fleet.name, epoch).await?;
    }
    Ok(exit)
}

/// How far the history of a fleet is.
fn history_of(fleet: &v1::Fleet) -> Result<&v1::HistoryState, CliError> {
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

/// Waits until the history has an epoch, as long as it comes nearer within the timeout.
async fn reaches(client: &Client, name: &str, epoch: u64) -> Result<(), CliError> {
    let timeout = client.options().timeout;
    let (mut reached, mut since) = (0, Instant::now());
    loop {
        let fleet = client.get_fleet(name).await?;
        let v1::HistoryState { watermark_epoch: watermark, backlog_byte_count, .. } =
            *history_of(&fleet)?;
        // Cycles that changed nothing are not logged: the history has no later epoch than the log.
        let durable = fleet.log.as_ref().map_or(0, |log| log.durable_epoch);
        if watermark >= epoch || durable >= epoch && backlog_byte_count == 0 {
            return Ok(());
        }
        if watermark > reached {
            (reached, since) = (watermark, Instant::now());
        }
        if since.elapsed() > timeout {
            let late = CliError::local(format!(
                "the rows are reported, but the history of fleet {name} stays at epoch {watermark} \
                 of {epoch}; wait longer with --timeout"
            ));
            return Err(late(io::ErrorKind::TimedOut.into()));
        }
        sleep(POLL).await;
    }
}
