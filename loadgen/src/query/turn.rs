//! Schedules query messages and their sizes.
//!
//! At full speed, rows earn queries; at a given rate, queries have their own send times. The plan's
//! minimum number of queries is sent in both cases, if necessary after the last row.

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep_until};

use crate::error::LoadError;
use crate::measure::{Allowance, Pace};
use crate::session::Session;

/// Turns of one connection.
#[derive(Debug)]
pub struct Turn {
    session: Arc<Session>,
    allowance: Arc<Allowance>,
    start: Instant,
    deadline: Option<Instant>,
    pace: Option<Pace>,
    /// Minimum number of queries.
    least: u64,
    sent: u64,
}

impl Turn {
    /// Waits for the clock to start.
    ///
    /// # Errors
    /// The run ended before its start.
    pub async fn start(
        session: Arc<Session>,
        connection: u32,
        allowance: Arc<Allowance>,
    ) -> Result<Self, LoadError> {
        let start = session.start().await?;
        let plan = &session.plan;
        Ok(Self {
            allowance,
            start,
            deadline: plan.seconds.map(|seconds| start + Duration::from_secs_f64(seconds)),
            pace: plan.query_pace(connection),
            least: plan.queries_min_of(connection),
            sent: 0,
            session,
        })
    }

    /// Waits for the next turn; returns the number of queries and their intended send time, if any.
    /// `None` at the end.
    pub async fn next(&mut self) -> Option<(u64, Option<Instant>)> {
        let most = u64::from(self.session.plan.message_queries);
        let turn = match self.pace {
            Some(pace) => self.paced(pace, most).await?,
            None => (self.earned(most).await?, None),
        };
        self.sent += turn.0;
        Some(turn)
    }

    async fn paced(&self, pace: Pace, most: u64) -> Option<(u64, Option<Instant>)> {
        let intended = pace.intended(self.start, self.sent);
        self.session.unless_stopped(sleep_until(intended)).await?;
        let is_late = self.deadline.is_some_and(|deadline| intended >= deadline);
        let are_rows_over = self.session.plan.sends_rows() && self.allowance.are_rows_ended();
        let count = if is_late || are_rows_over { self.left(most)? } else { most };
        Some((count, Some(intended)))
    }

    async fn earned(&self, most: u64) -> Option<u64> {
        if self.session.is_stopped() {
            return None;
        }
        if self.session.plan.sends_rows() {
            match self.session.unless_stopped(self.allowance.take(most)).await? {
                0 => self.left(most),
                taken => Some(taken),
            }
        } else if self.deadline.is_none_or(|deadline| Instant::now() < deadline) {
            Some(most)
        } else {
            self.left(most)
        }
    }

    /// Number of queries that are still required to reach the minimum.
    fn left(&self, most: u64) -> Option<u64> {
        Some(self.least.saturating_sub(self.sent).min(most)).filter(|left| *left > 0)
    }
}

impl Drop for Turn {
    /// Releases the row sender, which must not wait for queries that will not be sent.
    fn drop(&mut self) {
        self.allowance.end_queries();
    }
}
