//! Status of a replay on standard error: one line that is redrawn on a terminal, a line every
//! second elsewhere. It counts acknowledged rows, not sent ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shoal_client::{AckTotals, Client};
use shoal_service::timestamp::rfc3339;
use tokio::sync::watch;

use super::player::Progress;
use super::survey::Survey;
use crate::logs;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// Shows the status until it is dropped.
#[derive(Debug)]
pub(super) struct StatusLine {
    client: Client,
    totals: watch::Receiver<AckTotals>,
    progress: Arc<Progress>,
    first_ms: i64,
    /// `None` without a terminal.
    bar: Option<ProgressBar>,
    before: (Instant, u64),
}

impl StatusLine {
    /// The status of a replay that is about to begin.
    pub(super) fn new(
        client: &Client,
        survey: &Survey,
        totals: watch::Receiver<AckTotals>,
        progress: &Arc<Progress>,
    ) -> Self {
        let bar = ProgressBar::new(survey.span_ms());
        let style = ProgressStyle::with_template("{spinner} [{bar:20}] {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        let bar = (!bar.is_hidden()).then_some(bar);
        if let Some(bar) = &bar {
            logs::keep_below(bar);
        }
        Self {
            client: client.clone(),
            totals,
            progress: progress.clone(),
            first_ms: survey.first_ms,
            bar,
            before: (Instant::now(), 0),
        }
    }

    /// Draws once per second; never returns.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.draw().await;
        }
    }

    async fn draw(&mut self) {
        let totals = self.totals.borrow().clone();
        let (now, rows) = (Instant::now(), totals.rows_total());
        let (then, rows_then) = std::mem::replace(&mut self.before, (now, rows));
        let seconds = now.duration_since(then).as_secs_f64().max(1e-9);
        let rate = rows.saturating_sub(rows_then) as f64 / seconds;
        // A server that is too busy to count its objects does not stop the replay.
        let objects = match self.client.get_fleet("").await {
            Ok(fleet) => fleet.object_count.to_string(),
            Err(_) => "?".to_owned(),
        };
        let event_ms = self.progress.event_ms.load(Ordering::Relaxed);
        let unreadable = self.progress.unreadable.load(Ordering::Relaxed);
        let text = format!(
            "{}  {objects} objects  {rows} rows  {rate:.0} rows/s  {} late  {} refused",
            rfc3339(event_ms),
            totals.rows.late,
            totals.rows.refused + unreadable
        );
        let Some(bar) = self.bar.clone() else {
            logs::note(&format!("replay: {text}"));
            return;
        };
        let position = event_ms.saturating_sub(self.first_ms).max(0).unsigned_abs();
        logs::draw(move || {
            bar.set_position(position);
            bar.set_message(text);
        });
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            logs::draw(move || bar.finish_and_clear());
        }
    }
}
