//! Replays a file: surveys it, plays it and prints commands to try.
//!
//! A failure of the replay is logged, and the server continues with the rows that it has. To send
//! every row exactly once, use `shoal report`.

use std::sync::Arc;
use std::time::Duration;

use shoal_client::{AckTotals, Client, ConnectOptions, ReportOptions};
use shoal_service::fleet_space;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::advice::{Addresses, Advice};
use super::player::{Pace, Progress, play};
use super::status_line::StatusLine;
use super::survey::Survey;
use super::time_order::{SORTED_ROWS_MAX, TimeOrder};
use crate::config::ReplayConfig;
use crate::error::CliError;
use crate::input::{FixSource, IdKind};
use crate::logs;

/// Duration of a replay without a speedup, seconds.
const SECONDS_DEFAULT: f64 = 60.0;
/// Timeout of calls to the server.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A replay that has not begun.
#[derive(Debug)]
pub struct Replayer {
    config: ReplayConfig,
}

impl Replayer {
    /// Checks that the file can be opened and has the required columns.
    ///
    /// # Errors
    /// [`CliError::Input`] with the file and the fault.
    pub fn open(config: ReplayConfig) -> Result<Self, CliError> {
        let replayer = Self { config };
        replayer.source()?;
        Ok(replayer)
    }

    fn source(&self) -> Result<Box<dyn FixSource>, CliError> {
        self.config.input.open(&self.config.file.display().to_string(), None)
    }

    /// The rows in the order of their times.
    fn ordered(&self, survey: &Survey) -> Result<Box<dyn FixSource>, CliError> {
        let source = self.source()?;
        let Some(place) = survey.unordered_place else { return Ok(source) };
        let (file, kind) = (self.config.file.display().to_string(), source.summary().place);
        if survey.rows > SORTED_ROWS_MAX {
            return Err(CliError::Input {
                file,
                reason: format!(
                    "{kind} {place} is older than a row before it, and only a file of at most \
                     {SORTED_ROWS_MAX} rows is sorted; sort the file by time"
                ),
            });
        }
        tracing::info!(
            %file,
            "the rows are sorted by time: {kind} {place} is older than a row before it"
        );
        Ok(Box::new(TimeOrder::of(source)))
    }

    /// Plays the file into the server at `addresses` until it ends or `stopped` is true.
    /// It connects with `options`.
    pub async fn run(
        self,
        addresses: Addresses,
        options: ConnectOptions,
        mut stopped: watch::Receiver<bool>,
    ) {
        let file = self.config.file.display().to_string();
        tokio::select! {
            result = self.replay(addresses, options) => if let Err(error) = result {
                tracing::error!(%file, %error, "the replay ended early");
            },
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }

    async fn replay(self, addresses: Addresses, options: ConnectOptions) -> Result<(), CliError> {
        let options = ConnectOptions { timeout: TIMEOUT, ..options };
        let client = Client::connect(&addresses.grpc.to_string(), options).await?;
        let fleet = client.get_fleet("").await?;
        let (space, ids) = (fleet_space::space(&fleet)?, IdKind::of(&fleet));
        let mut source = self.source()?;
        source.check_space(space.is_geographic())?;
        let surveyed = spawn_blocking(move || {
            let survey = Survey::of(&mut *source, ids, &space)?;
            Some((survey, source.summary()))
        });
        let surveyed = surveyed.await;
        let (survey, understood) = surveyed.ok().flatten().ok_or_else(|| CliError::Input {
            file: self.config.file.display().to_string(),
            reason: "no row can be read".to_owned(),
        })?;
        let speedup = self.config.speedup.unwrap_or_else(|| survey.speedup_for(SECONDS_DEFAULT));
        tracing::info!(
            file = %self.config.file.display(),
            rows = survey.rows,
            span_s = survey.span_ms() / 1_000,
            speedup,
            "replay begins"
        );
        for note in understood.notes {
            tracing::info!("read as: {note}");
        }
        if understood.dropped.count > 0 {
            let (measures, first) = (understood.dropped.count, understood.dropped.shown.first());
            tracing::warn!(measures, ?first, "measures that cannot be stored are dropped");
        }
        let pace = Pace { first_ms: survey.first_ms, speedup };
        let totals = self.play(&client, addresses, &survey, ids, pace).await?;
        tracing::info!(
            rows = totals.rows_total(),
            applied = totals.rows.applied,
            duplicate = totals.rows.duplicate,
            superseded = totals.rows.superseded,
            expired = totals.rows.expired,
            late = totals.rows.late,
            refused = totals.rows.refused,
            ahead = totals.rows.ahead,
            unreadable = survey.unreadable,
            "replay done"
        );
        logs::say(&format!("replay done: {} rows; serving until Ctrl-C", totals.rows_total()));
        advise(&client, addresses, &survey).await;
        Ok(())
    }

    /// Sends all rows and shows the status line.
    async fn play(
        &self,
        client: &Client,
        addresses: Addresses,
        survey: &Survey,
        ids: IdKind,
        pace: Pace,
    ) -> Result<AckTotals, CliError> {
        let progress = Arc::new(Progress::default());
        let source = self.ordered(survey)?;
        let mut stream = client.report(ReportOptions::unnumbered(""));
        let status = StatusLine::new(client, survey, stream.totals(), &progress);
        let mut first = stream.totals();
        let watching = async {
            // The commands need an object to find.
            if first.wait_for(|totals| totals.rows.applied > 0).await.is_ok() {
                advise(client, addresses, survey).await;
            }
            status.run().await;
        };
        tokio::select! {
            played = play(source, ids, pace, &mut stream, &progress) => played?,
            () = watching => {}
        }
        Ok(stream.finish().await?)
    }
}

/// Prints commands to try. An error of the server is reported at the end of the replay.
async fn advise(client: &Client, addresses: Addresses, survey: &Survey) {
    match Advice::query(client, addresses, survey.busiest).await {
        Ok(Some(advice)) => logs::say(&advice.to_string()),
        Ok(None) => tracing::warn!("the fleet holds no object"),
        Err(error) => tracing::warn!(%error, "cannot find commands to try"),
    }
}
