//! `shoal stats`: the content of a fleet, and the rates at which it changes.
//!
//! A rate is the difference of two descriptions over the time between their arrivals.

use std::io::Write as _;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use shoal_client::{Client, v1};
use shoal_service::timestamp::rfc3339;

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::fleets::write_one;
use super::output::stdout;
use super::values::span_above_zero;

/// Flags of `shoal stats`.
#[derive(Args, Debug)]
pub struct StatsArgs {
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Show rates, one line every so often, until Ctrl-C
    #[arg(long, value_name = "EVERY", num_args = 0..=1, default_missing_value = "1s",
          value_parser = span_above_zero)]
    pub watch: Option<Duration>,
    /// End after this many lines
    #[arg(long, value_name = "N", requires = "watch")]
    pub lines: Option<u64>,
    /// Write JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Changes per second between two descriptions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    rows_per_s: f64,
    refused_per_s: f64,
    queries_per_s: f64,
    epochs_per_s: f64,
}

impl Rates {
    fn between(before: &v1::Fleet, after: &v1::Fleet, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let rate = |of: fn(&v1::Fleet) -> u64| {
            // The counters of a fleet that was deleted and created again start at zero.
            of(after).saturating_sub(of(before)) as f64 / seconds
        };
        Self {
            rows_per_s: rate(|fleet| {
                shoal_client::rows_total(&fleet.row_counts.unwrap_or_default())
            }),
            refused_per_s: rate(|fleet| fleet.row_counts.unwrap_or_default().refused),
            queries_per_s: rate(|fleet| fleet.query_count),
            epochs_per_s: rate(|fleet| fleet.epoch),
        }
    }
}

/// Writes one description of the fleet, or with `--watch` a line of rates after each interval.
///
/// # Errors
/// Those of the server and of writing.
pub async fn run(client: &Client, args: &StatsArgs) -> Result<Exit, CliError> {
    let name = &args.fleet.fleet;
    let mut before = client.get_fleet(name).await?;
    let Some(every) = args.watch else {
        let mut out = stdout();
        write_one(&mut out, &before, args.json)?;
        out.flush()?;
        return Ok(Exit::Done);
    };
    let mut since = Instant::now();
    let mut written = 0;
    while args.lines.is_none_or(|lines| written < lines) {
        tokio::time::sleep(every).await;
        let after = client.get_fleet(name).await?;
        let rates = Rates::between(&before, &after, since.elapsed());
        (since, before) = (Instant::now(), after);
        write_line(&before, rates, args.json, written == 0)?;
        written += 1;
    }
    Ok(Exit::Done)
}

fn write_line(fleet: &v1::Fleet, rates: Rates, json: bool, first: bool) -> Result<(), CliError> {
    let mut out = stdout();
    let Rates { rows_per_s, refused_per_s, queries_per_s, epochs_per_s } = rates;
    if json {
        let line = json!({
            "fleet": fleet.name,
            "objects": fleet.object_count,
            "epoch": fleet.epoch,
            "clock_ms": fleet.clock_ms,
            "rows_per_s": rows_per_s,
            "refused_per_s": refused_per_s,
            "queries_per_s": queries_per_s,
            "epochs_per_s": epochs_per_s,
        });
        writeln!(out, "{line}")?;
    } else {
        if first {
            writeln!(
                out,
                "{:>12} {:>10} {:>12} {:>12} {:>12} {:>10}  clock",
                "objects", "epoch", "rows/s", "refused/s", "queries/s", "epochs/s"
            )?;
        }
        writeln!(
            out,
            "{:>12} {:>10} {rows_per_s:>12.0} {refused_per_s:>12.0} {queries_per_s:>12.0} \
             {epochs_per_s:>10.0}  {}",
            fleet.object_count,
            fleet.epoch,
            rfc3339(fleet.clock_ms)
        )?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_and_never_negative() {
        let fleet = |applied, queries| v1::Fleet {
            row_counts: Some(v1::RowCounts {
                applied,
                refused: applied / 10,
                ..Default::default()
            }),
            query_count: queries,
            ..Default::default()
        };
        let rates = Rates::between(&fleet(100, 9), &fleet(300, 5), Duration::from_secs(2));
        assert_eq!((rates.rows_per_s, rates.refused_per_s), (110.0, 10.0));
        assert_eq!(rates.queries_per_s, 0.0);
    }
}
