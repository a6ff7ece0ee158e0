//! Sends the rows of a file, each when it is due.
//!
//! A row is due after its event time since the first row, divided by the speedup. Rows that are due
//! together share a message. A slow server delays the rows; none is dropped, and their order is kept.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use shoal_client::{ReportStream, v1};
use tokio::time::{Instant, sleep_until};

use crate::error::CliError;
use crate::input::{Batching, FixSource, IdKind, RowBatches};

/// Most rows of a message.
const MESSAGE_ROWS: usize = 4_096;
/// Shortest time between messages that are not full; people do not notice a shorter one.
const TICK: Duration = Duration::from_millis(40);

/// Schedule of the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Event time of the first row, Unix milliseconds.
    pub(super) first_ms: i64,
    /// Event time over real time.
    pub(super) speedup: f64,
}

impl Pace {
    /// Real time from the start until a row is due.
    fn due(&self, time_ms: i64) -> Duration {
        let ahead_ms = time_ms.saturating_sub(self.first_ms).max(0) as f64;
        Duration::try_from_secs_f64(ahead_ms / 1_000.0 / self.speedup).unwrap_or(Duration::MAX)
    }
}

/// Progress of a replay.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Latest event time sent, Unix milliseconds; 0 before the first.
    pub(super) event_ms: AtomicI64,
    /// Rows that could not be read.
    pub(super) unreadable: AtomicU64,
}

/// Sends all rows to the fleet `default`, each when it is due.
///
/// # Errors
/// The error that ended the stream of reports.
pub(super) async fn play(
    source: Box<dyn FixSource>,
    ids: IdKind,
    pace: Pace,
    stream: &mut ReportStream,
    progress: &Progress,
) -> Result<(), CliError> {
    let mut batches = RowBatches::read(source, MESSAGE_ROWS, ids, Batching::Whole);
    let start = Instant::now();
    let mut sent_at = start;
    let mut waiting: Vec<v1::Fix> = Vec::with_capacity(MESSAGE_ROWS);
    while let Some(batch) = batches.next().await {
        progress.unreadable.fetch_add(batch.unreadable, Ordering::Relaxed);
        for fix in batch.fixes {
            let due = start.checked_add(pace.due(fix.time_ms));
            let early = due.is_none_or(|due| due > Instant::now());
            if early || waiting.len() == MESSAGE_ROWS {
                send(&mut waiting, stream, progress).await?;
            }
            if early {
                // A row whose due time exceeds the range of `Instant` waits a day.
                let due = due.unwrap_or_else(|| start + Duration::from_secs(86_400));
                sleep_until(due.max(sent_at + TICK)).await;
                sent_at = Instant::now();
            }
            waiting.push(fix);
        }
    }
    send(&mut waiting, stream, progress).await
}

async fn send(
    waiting: &mut Vec<v1::Fix>,
    stream: &mut ReportStream,
    progress: &Progress,
) -> Result<(), CliError> {
    if waiting.is_empty() {
        return Ok(());
    }
    let fixes = std::mem::replace(waiting, Vec::with_capacity(MESSAGE_ROWS));
    let latest_ms = fixes.iter().map(|fix| fix.time_ms).max().unwrap_or(0);
    stream.send_rows(fixes).await?;
    progress.event_ms.fetch_max(latest_ms, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_due_by_event_time_over_the_speedup() {
        let pace = Pace { first_ms: 1_000, speedup: 100.0 };
        assert_eq!(pace.due(1_000), Duration::ZERO);
        assert_eq!(pace.due(0), Duration::ZERO);
        assert_eq!(pace.due(11_000), Duration::from_millis(100));
        let crawl = Pace { first_ms: i64::MIN, speedup: 1e-300 };
        assert_eq!(crawl.due(i64::MAX), Duration::MAX);
    }
}
