//! Replays the history at a given speed: fixes are sent when they are due.
//!
//! For each time slice the replay takes the newest version of the history, so that a replay of
//! several days does not keep files that were replaced or erased meanwhile.

use std::time::Duration;

use shoal_codec::FixColumns;
use shoal_history::Replay;
use shoal_proto::v1;
use tokio::time::{Instant, sleep_until};
use tonic::{Response, Status};

use super::checked_fleet::CheckedFleet;
use super::chunk_stream::{Chunk, ChunkSender, NotTaken, RowStream};
use super::deadline::Deadline;
use super::history_answer::{PastQuery, PastRows, Turns, chunk_rows, fixes, query_step, stream};
use super::past_filter::PastFilter;
use super::records::RowMessage;
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::limits::{REPLAY_INTERVAL_MS, REPLAY_QUIET_MS, REPLAY_ROWS_MAX, REPLAY_SPEED_MAX};

type Sender = ChunkSender<v1::ReplayResponse, PastRows>;

/// See the file's head.
pub(super) struct PacedReplay {
    pub(super) checked: CheckedFleet,
    pub(super) filter: PastFilter,
    pub(super) window_ms: (i64, i64),
    pub(super) speed: f64,
}

/// Checks the speed of a request. Returns `None` for 0, which means as fast as possible.
pub(super) fn speed_of(speed: f64) -> Result<Option<f64>, ServiceError> {
    if (0.0..=REPLAY_SPEED_MAX).contains(&speed) {
        return Ok(Some(speed).filter(|speed| *speed > 0.0));
    }
    let problem = format!("{speed}: must be 0 to {REPLAY_SPEED_MAX}");
    Err(ServiceError::field("speed", problem))
}

/// Maps times of the past to the moments at which they are due.
struct Pace {
    began: Instant,
    from_ms: i64,
    speed: f64,
}

impl Pace {
    fn due(&self, time_ms: i64) -> Instant {
        let past_ms = time_ms.saturating_sub(self.from_ms).max(0) as f64;
        // Limit the delay to some centuries: an instant cannot represent much more.
        self.began + Duration::from_secs_f64((past_ms / self.speed / 1e3).min(1e10))
    }

    /// The latest time of the past that is due now, Unix milliseconds.
    fn now_ms(&self) -> i64 {
        let past_ms = self.began.elapsed().as_secs_f64() * 1e3 * self.speed;
        self.from_ms.saturating_add(past_ms as i64)
    }
}

impl PacedReplay {
    /// Streams the replay.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::ShuttingDown`].
    pub(super) fn answer(
        self,
        context: &ServiceContext,
        deadline: Deadline,
    ) -> Result<Response<RowStream<v1::ReplayResponse>>, ServiceError> {
        stream(context, self.checked.clone(), deadline, |context, sender| async move {
            self.send(&context, &sender).await
        })
    }

    async fn send(
        mut self,
        context: &ServiceContext,
        sender: &Sender,
    ) -> Result<Result<(), Status>, NotTaken> {
        let ahead_ms = context.limits.history_replay_ms;
        let slice_ms = ((ahead_ms as f64 * self.speed) as i64).max(1);
        let (mut next_ms, to_ms) = self.window_ms;
        let (mut pace, mut held) = (None, None);
        loop {
            if let Err(error) = self.checked.check() {
                return Ok(Err(error.into()));
            }
            let mut query = match PastQuery::of_fleet(context, self.checked.clone()) {
                Ok(query) => query.within(self.window_ms),
                Err(error) => return Ok(Err(error.into())),
            };
            let mut header = Some(query.header());
            // The history has no fixes outside `times_ms`: if the rest of the window has none, the
            // replay ends.
            let times = query.version().times_ms().filter(|(_, last)| *last >= next_ms);
            let Some((first_ms, last_ms)) = times.filter(|(first, _)| *first <= to_ms) else {
                let header = header.filter(|_| pace.is_none());
                sender.send(progress(&self.checked, header, to_ms)).await?;
                return Ok(Ok(()));
            };
            let pace = pace.get_or_insert_with(|| {
                next_ms = next_ms.max(first_ms);
                Pace { began: Instant::now(), from_ms: next_ms, speed: self.speed }
            });
            let end_ms = next_ms.saturating_add(slice_ms - 1).min(to_ms).min(last_ms);
            let window_ms = (next_ms, end_ms);
            let budget = query.budget(Replay::<PastFilter>::ROW_BYTES, REPLAY_ROWS_MAX);
            let room = match held.clone() {
                Some(room) => room,
                None => match query.room(context).await {
                    Ok(room) => room,
                    Err(error) => return Ok(Err(error.into())),
                },
            };
            held = Some(room.clone());
            let version = query.version().clone();
            let mut replay = Replay::new(version, window_ms, self.filter.clone(), budget);
            let steps = vec![query_step(move |rows: &mut FixColumns| replay.next(rows))];
            let mut turns = Turns::new(&query, context, steps, room);
            loop {
                let rows = match turns.next().await {
                    Ok(Some(rows)) => rows,
                    Ok(None) => break,
                    Err(error) => return Ok(Err(error.into())),
                };
                self.send_rows(pace, &mut header, &rows, sender).await?;
            }
            drop((turns, query));
            self.wait(pace, &mut header, end_ms, sender).await?;
            sender.send(progress(&self.checked, header, end_ms)).await?;
            if end_ms == to_ms {
                return Ok(Ok(()));
            }
            next_ms = end_ms + 1;
        }
    }

    /// Sends each row when it is due.
    async fn send_rows(
        &self,
        pace: &Pace,
        header: &mut Option<v1::HistoryHeader>,
        rows: &FixColumns,
        sender: &Sender,
    ) -> Result<(), NotTaken> {
        let (mut from, chunk_rows) = (0, chunk_rows(&self.checked));
        while from < rows.len() {
            let first_ms = rows.time_ms[from];
            self.wait(pace, header, first_ms.saturating_sub(1), sender).await?;
            // Wait a little longer, so that rows that follow closely are sent in the same message.
            sleep_until(pace.due(first_ms) + Duration::from_millis(REPLAY_INTERVAL_MS)).await;
            let now_ms = pace.now_ms();
            let due = rows.time_ms[from..].partition_point(|time_ms| *time_ms <= now_ms);
            let range = from..from + due.clamp(1, chunk_rows);
            from = range.end;
            let due_rows = fixes(&self.checked.fleet, header.take(), rows, range);
            // More rows of the same time may follow: report progress only up to the millisecond
            // before.
            let time_ms = rows.time_ms[from - 1].saturating_sub(1);
            sender.send(chunk(&self.checked, due_rows, time_ms)).await?;
        }
        Ok(())
    }

    /// Waits until a time is due, and meanwhile sends the progress of the replay.
    async fn wait(
        &self,
        pace: &Pace,
        header: &mut Option<v1::HistoryHeader>,
        time_ms: i64,
        sender: &Sender,
    ) -> Result<(), NotTaken> {
        let due = pace.due(time_ms);
        let quiet = Duration::from_millis(REPLAY_QUIET_MS);
        while Instant::now() + quiet < due {
            tokio::time::sleep(quiet).await;
            let time_ms = pace.now_ms().min(time_ms);
            sender.send(progress(&self.checked, header.take(), time_ms)).await?;
        }
        sleep_until(due).await;
        Ok(())
    }
}

/// A chunk of rows with the time up to which all rows were sent, which only a message has.
fn chunk(
    checked: &CheckedFleet,
    rows: PastRows,
    time_ms: i64,
) -> Chunk<v1::ReplayResponse, PastRows> {
    Chunk::of(&checked.call, rows, |rows| v1::ReplayResponse { time_ms, ..RowMessage::new(rows) })
}

/// A chunk without rows, with the time up to which all rows were sent.
fn progress(
    checked: &CheckedFleet,
    header: Option<v1::HistoryHeader>,
    time_ms: i64,
) -> Chunk<v1::ReplayResponse, PastRows> {
    let none = PastRows::new(&checked.fleet, header, Vec::new(), Vec::new());
    chunk(checked, none, time_ms)
}
