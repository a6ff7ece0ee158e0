//! How does a person see that a replay goes on?
//!
//! On a terminal one line that is redrawn, elsewhere a plain line every second, both on standard
//! error. It shows what the server acknowledged, not what was sent.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shoal_client::{AckTotals, Client};
use tokio::sync::watch;

use super::player::Progress;
use super::survey::Survey;
use crate::cli::timestamp::rfc3339;
use crate::logs;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// Shows a replay until it is dropped.
#[derive(Debug)]
pub struct StatusLine {
    client: Client,
    totals: watch::Receiver<AckTotals>,
    progress: Arc<Progress>,
    first_ms: i64,
    bar: ProgressBar,
    before: (Instant, u64),
}

impl StatusLine {
    /// A line for a replay that is about to start.
    #[must_use]
    pub fn new(
        client: &Client,
        survey: &Survey,
        totals: watch::Receiver<AckTotals>,
        progress: &Arc<Progress>,
    ) -> Self {
        let bar = ProgressBar::new(survey.span_ms());
        let style = ProgressStyle::with_template("{spinner} [{bar:20}] {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        if !bar.is_hidden() {
            logs::keep_below(&bar);
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

    /// Draws once a second, for ever.
    pub async fn run(mut self) {
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
        // The count is for people: a server that is too busy to say it keeps the rest of the line.
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
        if self.bar.is_hidden() {
            // That nobody reads it is no reason to stop the replay.
            let _ = writeln!(std::io::stderr(), "replay: {text}");
        } else {
            self.bar.set_position(event_ms.saturating_sub(self.first_ms).max(0).unsigned_abs());
            self.bar.set_message(text);
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
