//! `shoal history import`: reports the rows of a file, and waits until they are in the history.
//!
//! The history takes accepted fixes of any age, so an import is a report. A fix replaces a stored
//! fix with the same object and time, so a file can be imported again.

use std::collections::BTreeMap;
use std::io;

use clap::Args;
use shoal_client::{Client, v1};
use shoal_engine::limits::TIME_MIN_MS;
use shoal_service::timestamp::rfc3339;
use shoal_table::TimeDefault;

use super::wait::{history_of, reaches};
use crate::error::{CliError, Exit};
use crate::input::InputArgs;
use crate::report::{self, RowSource, SendArgs};
use crate::values::time_default;

/// Flags of `shoal history import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// A file of any format of `shoal report`; - for standard input
    pub file: String,
    #[command(flatten)]
    pub(super) sending: SendArgs,
    /// Event time of rows that state none: Unix milliseconds, RFC 3339, or now (the time of reading)
    #[arg(long, value_parser = time_default)]
    pub time: Option<TimeDefault>,
    #[command(flatten)]
    pub(super) input: InputArgs,
}

impl ImportArgs {
    /// Opens the file.
    ///
    /// # Errors
    /// As [`RowSource::open`].
    pub(super) fn source(&self) -> Result<RowSource, CliError> {
        RowSource::open(&self.file, &self.input, self.time)
    }
}

/// Numbers of rows by the hour of their time, because retention drops whole hours. Rows before
/// 2000, which the server refuses, do not count.
#[derive(Default)]
struct Hours(BTreeMap<i64, u64>);

impl Hours {
    const MS: i64 = 3_600_000;

    fn add(&mut self, fixes: &[v1::Fix]) {
        for fix in fixes.iter().filter(|fix| fix.time_ms >= TIME_MIN_MS) {
            *self.0.entry(fix.time_ms.div_euclid(Self::MS)).or_default() += 1;
        }
    }

    /// Number of rows in the hours before the hour of `time_ms`.
    fn before(&self, time_ms: i64) -> u64 {
        self.0.range(..time_ms.div_euclid(Self::MS)).map(|(_, rows)| rows).sum()
    }
}

/// Reports the rows in the order of the file, waits until the history has them, and writes the
/// summary of the report.
///
/// # Errors
/// Those of the server and of writing; a fleet whose history is absent or has stopped; rows that
/// are older than what the history keeps. Refused rows are not an error: the result is
/// [`Exit::PartlyRefused`].
pub(super) async fn run(
    client: &Client,
    ImportArgs { sending, .. }: &ImportArgs,
    source: RowSource,
) -> Result<Exit, CliError> {
    let fleet = sending.fleet(client).await?;
    history_of(&fleet)?;
    let mut hours = Hours::default();
    let see = |fixes: &[v1::Fix]| hours.add(fixes);
    let mut summary = report::send(client, sending, source, &fleet, see).await?;
    let reached = match summary.last_epoch() {
        Some(epoch) => {
            let reached = reaches(client, &fleet.name, epoch, "; the rows are reported").await;
            reached.map(|history| history.kept_from_ms)
        }
        None => Ok(None),
    };
    let kept_from_ms = reached.as_ref().ok().copied().flatten();
    let not_kept = kept_from_ms.map_or(0, |kept_from_ms| hours.before(kept_from_ms));
    summary.not_kept(not_kept);
    let exit = report::write_summary(sending, &summary)?;
    let exit = if summary.is_stopped() { Exit::Failed } else { exit };
    match reached? {
        Some(kept_from_ms) if not_kept > 0 => {
            let (name, from) = (&fleet.name, rfc3339(kept_from_ms));
            let what = format!("the import into the history of fleet {name} is not complete");
            Err(CliError::local(what)(io::Error::other(format!(
                "{not_kept} rows are older than its retention, which keeps fixes from {from} on"
            ))))
        }
        _ => Ok(exit),
    }
}
