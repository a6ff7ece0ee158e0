//! Replays a file: surveys it, plays it and prints commands to try.
//!
//! A failure of the replay is logged, and the server continues with the rows that it has. To send
//! every row exactly once, use `shoal report`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shoal_client::{AckTotals, Client, ConnectOptions, ReportOptions};
use shoal_service::fleet_space;
use shoal_table::CsvReader;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::advice::Advice;
use super::player::{Pace, Progress, play};
use super::status_line::StatusLine;
use super::survey::Survey;
use crate::config::ReplayConfig;
use crate::error::CliError;
use crate::file_rows;
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
        replayer.csv()?;
        Ok(replayer)
    }

    fn csv(&self) -> Result<CsvReader, CliError> {
        let file: &Path = &self.config.file;
        CsvReader::open(file, self.config.speed_unit)
            .map_err(|error| file_rows::unusable(&file.display().to_string(), &error))
    }

    /// Plays the file into the server at `address` until it ends or `stopped` is true.
    /// It connects with `options`.
    pub async fn run(
        self,
        address: SocketAddr,
        options: ConnectOptions,
        mut stopped: watch::Receiver<bool>,
    ) {
        let file = self.config.file.display().to_string();
        tokio::select! {
            result = self.replay(address, options) => if let Err(error) = result {
                tracing::error!(%file, %error, "the replay ended early");
            },
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }

    async fn replay(self, address: SocketAddr, options: ConnectOptions) -> Result<(), CliError> {
        let options = ConnectOptions { timeout: TIMEOUT, ..options };
        let client = Client::connect(&address.to_string(), options).await?;
        let space = fleet_space::space(&client.get_fleet("").await?)?;
        let csv = self.csv()?;
        let surveyed = spawn_blocking(move || Survey::of(csv, &space)).await;
        let survey = surveyed.ok().flatten().ok_or_else(|| CliError::Input {
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
        let pace = Pace { first_ms: survey.first_ms, speedup };
        let totals = self.play(&client, address, &survey, pace).await?;
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
        advise(&client, address, &survey).await;
        Ok(())
    }

    /// Sends all rows and shows the status line.
    async fn play(
        &self,
        client: &Client,
        address: SocketAddr,
        survey: &Survey,
        pace: Pace,
    ) -> Result<AckTotals, CliError> {
        let progress = Arc::new(Progress::default());
        let mut stream = client.report(ReportOptions::unnumbered(""));
        let status = StatusLine::new(client, survey, stream.totals(), &progress);
        let mut first = stream.totals();
        let watching = async {
            // The commands need an object to find.
            if first.wait_for(|totals| totals.rows.applied > 0).await.is_ok() {
                advise(client, address, survey).await;
            }
            status.run().await;
        };
        tokio::select! {
            played = play(self.csv()?, pace, &mut stream, &progress) => played?,
            () = watching => {}
        }
        Ok(stream.finish().await?)
    }
}

/// Prints commands to try. An error of the server is reported at the end of the replay.
async fn advise(client: &Client, address: SocketAddr, survey: &Survey) {
    match Advice::query(client, address, survey.busiest).await {
        Ok(Some(advice)) => logs::say(&advice.to_string()),
        Ok(None) => tracing::warn!("the fleet holds no object"),
        Err(error) => tracing::warn!(%error, "cannot find commands to try"),
    }
}
