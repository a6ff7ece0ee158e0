//! Sends the reports of a connection.
//!
//! At full speed a message is sent when in-flight capacity is available; at a given rate at its
//! intended time, or later when the server accepts it. Messages are encoded before their send time,
//! so encoding is not measured. Sending ends with the duration, the workload, or a stop.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep_until};

use super::batch::{BatchMaker, ReportBatch};
use super::prepared::{Amount, PreparedBlocks};
use super::removal::Remover;
use super::source::Source;
use super::wire::ReportMessage;
use crate::InFlight;
use crate::error::LoadError;
use crate::limits::{PREPARED_BYTES_MAX, PREPARED_ROUNDS};
use crate::measure::{Allowance, Pace};
use crate::query::SeenObjects;
use crate::session::Session;
use crate::verify::SentRows;

/// Sums over the reports of a connection.
#[derive(Clone, Debug, Default)]
pub struct SentTally {
    /// Messages sent while the clock ran.
    pub messages: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows due before the end that could not be sent in time.
    pub behind_rows: u64,
    /// Removed objects.
    pub removed: u64,
    /// Removed objects that have a new name.
    pub renamed: u64,
    /// Unreadable rows of a file.
    pub unreadable_rows: u64,
    /// The error that ended the workload early.
    pub failure: Option<String>,
}

/// A report in flight.
#[derive(Debug)]
pub struct SentReport {
    /// Intended send time.
    pub intended: Instant,
    /// Actual send time.
    pub sent: Instant,
    /// Rows of the message.
    pub rows: u32,
    /// The rows, if answers are verified.
    pub columns: Option<SentRows>,
    /// Sent before the clock started; excluded from rates.
    pub is_preload: bool,
}

/// Sends one connection's reports.
pub struct Sender {
    /// The shared session.
    pub session: Arc<Session>,
    /// Index of the connection.
    pub connection: u32,
    /// The fixes.
    pub source: Source,
    /// Encodes messages.
    pub maker: BatchMaker,
    /// Reports in flight.
    pub in_flight: Arc<InFlight<SentReport>>,
    /// Queries earned by rows.
    pub allowance: Arc<Allowance>,
    /// Sampled ids for queries.
    pub seen: Arc<SeenObjects>,
    /// Removes between messages.
    pub remover: Remover,
    /// Input of the gRPC stream; dropping it ends the stream.
    pub messages: mpsc::Sender<ReportMessage>,
}

impl Sender {
    /// Sends until the run ends.
    ///
    /// # Errors
    /// [`LoadError`] of encoding or of a removal. The ack reader reports a broken stream.
    pub async fn run(mut self) -> Result<SentTally, LoadError> {
        let allowance = Arc::clone(&self.allowance);
        let result = self.send_all().await;
        allowance.end_rows();
        let mut tally = result?;
        tally.removed = self.remover.removed;
        tally.renamed = self.source.renames();
        (tally.failure, tally.unreadable_rows) = self.source.end();
        Ok(tally)
    }

    async fn send_all(&mut self) -> Result<SentTally, LoadError> {
        if self.session.plan.preload {
            self.preload().await?;
        }
        let mut prepared = match self.session.plan.flags.prepared {
            true => Some(self.prepare()?),
            false => None,
        };
        let start = self.session.start().await?;
        let mut tally = SentTally::default();
        if !self.session.plan.sends_rows() {
            return Ok(tally);
        }
        let pace = self.session.plan.report_pace(self.connection);
        let seconds = self.session.plan.seconds;
        let deadline = seconds.map(|seconds| start + Duration::from_secs_f64(seconds));
        let is_at_end = loop {
            let (batch, removals) = match &mut prepared {
                Some(prepared) => (prepared.next_batch(), Vec::new()),
                None => self.draw(self.session.plan.batch_rows)?,
            };
            let Some(batch) = batch else { break true };
            let turn = self.turn(start, deadline, pace, tally.rows).await;
            let Some(intended) = turn else { break false };
            let (rows, bytes) = (batch.rows, batch.bytes);
            if !self.send(batch, intended, false).await {
                break false;
            }
            tally.messages += 1;
            tally.rows += u64::from(rows);
            tally.bytes += bytes;
            self.remove(&removals).await?;
        };
        if let (Some(pace), false) = (pace, is_at_end) {
            let until = deadline.map_or_else(Instant::now, |end| end.min(Instant::now()));
            let due = pace.units_within((until - start).as_secs_f64());
            tally.behind_rows = due.saturating_sub(tally.rows);
        }
        Ok(tally)
    }

    /// Places every object, or sends all of a replay, before the clock starts.
    async fn preload(&mut self) -> Result<(), LoadError> {
        let plan = &self.session.plan;
        let is_replay = plan.flags.workload.starts_with("replay:");
        let objects = plan.params.objects.div_ceil(u64::from(plan.connections()));
        let mut left = if is_replay { u64::MAX } else { objects };
        while left > 0 && !self.session.is_stopped() {
            let rows = left.min(crate::limits::BATCH_ROWS_DEFAULT.into()) as u32;
            let (Some(batch), removals) = self.draw(rows)? else {
                break;
            };
            left -= u64::from(batch.rows).min(left);
            if !self.send(batch, None, true).await {
                break;
            }
            self.remove(&removals).await?;
        }
        self.in_flight.drained().await;
        Ok(())
    }

    /// Encodes the blocks of this connection.
    fn prepare(&mut self) -> Result<PreparedBlocks, LoadError> {
        let plan = &self.session.plan;
        let objects = plan.params.objects.div_ceil(u64::from(plan.connections()));
        let is_replay = plan.flags.workload.starts_with("replay:");
        let amount = Amount {
            batch_rows: plan.batch_rows,
            rows: if is_replay { u64::MAX } else { objects * PREPARED_ROUNDS },
            bytes: PREPARED_BYTES_MAX / plan.connections() as usize,
            step_ms: plan.params.step_ms,
            is_once: plan.seconds.is_none(),
            plans: plan.flags.plans(),
        };
        let is_verified = self.session.verifier.is_some();
        PreparedBlocks::make(&mut self.source, &self.session.message_fleet(), amount, is_verified)
    }

    /// The next message of the workload and the objects to remove after it.
    fn draw(&mut self, rows: u32) -> Result<(Option<ReportBatch>, Vec<u64>), LoadError> {
        let (fixes, removals) = self.source.next(rows as usize);
        if fixes.is_empty() && removals.is_empty() {
            return Ok((None, Vec::new()));
        }
        if !self.session.learns_numbers() {
            self.seen.add(fixes.iter().map(|fix| fix.object));
        }
        let batch = self.maker.make(fixes)?;
        Ok((Some(batch), removals.to_vec()))
    }

    /// Waits until the next message may be sent; `None` at the end. Returns its intended send time
    /// at a given rate.
    async fn turn(
        &mut self,
        start: Instant,
        deadline: Option<Instant>,
        pace: Option<Pace>,
        rows_before: u64,
    ) -> Option<Option<Instant>> {
        let is_over = |moment: Instant| deadline.is_some_and(|deadline| moment >= deadline);
        let intended = pace.map(|pace| pace.intended(start, rows_before));
        match intended {
            Some(intended) if is_over(intended) => return None,
            Some(intended) => self.session.unless_stopped(sleep_until(intended)).await?,
            None => self.session.unless_stopped(self.allowance.caught_up()).await?,
        }
        self.room().await?;
        (!is_over(Instant::now())).then_some(intended)
    }

    /// Waits for in-flight capacity; returns `None` if the run is stopped.
    async fn room(&mut self) -> Option<()> {
        self.session.unless_stopped(self.in_flight.acquire()).await
    }

    /// Passes a message to the stream when it has capacity; false after the end of the stream or
    /// run. Waits for in-flight capacity only in the preload; later, [`Sender::turn`] has waited.
    async fn send(
        &mut self,
        batch: ReportBatch,
        intended: Option<Instant>,
        is_preload: bool,
    ) -> bool {
        if is_preload && self.room().await.is_none() {
            return false;
        }
        let ReportBatch { message, rows, columns, .. } = batch;
        if let Some(verifier) = &self.session.verifier {
            verifier.reserve_rows(rows).await;
        }
        let place = self.session.unless_stopped(self.messages.reserve()).await;
        let Some(Ok(place)) = place else { return false };
        if let Some(verifier) = &self.session.verifier {
            verifier.ledger.change_sent(self.connection);
        }
        if let Some(times) = &self.session.times {
            times.sent(self.connection);
        }
        let sent = Instant::now();
        let intended = intended.unwrap_or(sent);
        self.in_flight.push(SentReport { intended, sent, rows, columns, is_preload });
        self.session.counters.reports_in_flight.add(1);
        if !is_preload {
            self.allowance.earn(rows.into());
        }
        place.send(message);
        true
    }

    async fn remove(&mut self, objects: &[u64]) -> Result<(), LoadError> {
        if objects.is_empty() {
            return Ok(());
        }
        self.remover.remove(objects, &self.in_flight).await
    }
}
