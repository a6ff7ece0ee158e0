//! `shoal history replay`: the past in the order of time, as text or into another fleet.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use shoal_client::{AnswerRow, AnswerStream, Client, Payload, ReportOptions, v1};

use shoal_service::json::fleet::is_named;

use super::{PastArgs, WindowArgs};
use crate::error::{CliError, Exit};
use crate::input::RowBatch;
use crate::output::stdout;
use crate::query::{RegionArgs, of_names};
use crate::report_summary::ReportSummary;

/// Flags of `shoal history replay`.
#[derive(Args, Debug)]
#[command(mut_group("RegionArgs", |group| group.required(false)))]
pub struct ReplayArgs {
    #[command(flatten)]
    pub(super) window: WindowArgs,
    /// How fast time passes: 1 as it was, 60 an hour in a minute; without it as fast as possible
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0, hide_default_value = true)]
    pub speed: f64,
    /// Only objects whose name matches, in a named fleet, as in truck-*
    #[arg(long = "name", value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub name_pattern: Option<String>,
    /// Report the fixes to this fleet of the same server instead of writing them
    #[arg(long, value_name = "FLEET", conflicts_with_all = ["json", "geojson", "csv"])]
    pub into: Option<String>,
    #[command(flatten)]
    region: Option<RegionArgs>,
    #[command(flatten)]
    pub(super) output: PastArgs,
}

impl ReplayArgs {
    /// The request; reads the polygon's file.
    ///
    /// # Errors
    /// As [`RegionArgs::region`].
    pub(super) fn request(&self) -> Result<v1::ReplayRequest, CliError> {
        Ok(v1::ReplayRequest {
            fleet: self.output.fleet.fleet.clone(),
            filter: of_names(self.name_pattern.as_deref()),
            region: self.region.as_ref().map(RegionArgs::region).transpose()?,
            window: self.window.window(),
            speed: self.speed,
        })
    }
}

/// Reports the replayed fixes to another fleet, and writes a summary.
///
/// # Errors
/// Those of the server and of writing. Refused rows give [`Exit::PartlyRefused`].
pub(super) async fn into(
    client: &Client,
    mut answer: AnswerStream<v1::HistoryHeader>,
    args: &ReplayArgs,
    fleet: &str,
) -> Result<Exit, CliError> {
    let source = client.get_fleet(&args.output.fleet.fleet).await?;
    let fleet = client.get_fleet(fleet).await?;
    if is_named(&source) && !is_named(&fleet) {
        let (from, into) = (source.name, fleet.name);
        let problem = format!("fleet {into} takes numbers, and the objects of {from} have names");
        return Err(CliError::Usage(problem));
    }
    let is_named = is_named(&fleet);
    let (started, mut summary) = (Instant::now(), ReportSummary::new(&fleet));
    let mut stream = client.report(ReportOptions::unnumbered(&fleet.name));
    while let Some(rows) = answer.next().await? {
        let fixes: Vec<_> = rows.into_rows().map(|row| fix(&row, is_named)).collect();
        if !fixes.is_empty() {
            let batch = Arc::new(RowBatch { fixes, ..RowBatch::default() });
            summary.sent(&batch, 0..batch.fixes.len());
            stream.send(Payload::Rows(batch.fixes.clone())).await?;
            summary.settle(&stream.totals().borrow());
        }
    }
    summary.finish(stream.finish().await?, None, started.elapsed());
    let mut out = stdout();
    write!(out, "{}", summary.text())?;
    out.flush()?;
    Ok(if summary.is_partly_refused() { Exit::PartlyRefused } else { Exit::Done })
}

/// Converts a fix to a row of a report to a fleet whose objects have names or numbers.
fn fix(row: &AnswerRow, is_named: bool) -> v1::Fix {
    let v1::FixRecord { time_ms, x, y, speed_mps, heading_deg, altitude_m, state, valid_s } =
        row.fix.unwrap_or_default();
    let name = if is_named { row.label().into_owned() } else { String::new() };
    v1::Fix {
        object: if is_named { 0 } else { row.object },
        time_ms,
        x,
        y,
        speed_mps: speed_mps.map(|speed| speed as f32),
        heading_deg: heading_deg.map(|heading| heading as f32),
        altitude_m,
        state,
        name,
        valid_s,
    }
}
