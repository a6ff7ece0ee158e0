//! Asks the questions of one kind, one after another, and passes the answers to the verifier.

use std::sync::Arc;

use shoal_client::{Client, Error};
use tokio::time::{Duration, Instant};
use tonic::Code;

use super::question::{Choosers, DrawnQuestion, PastKind};
use crate::error::LoadError;
use crate::measure::Latency;
use crate::query::chooser::QueryRandom;
use crate::session::Session;
use crate::verify::PastAnswered;

const DAY_MS: i64 = 86_400_000;

/// The answers of one kind.
#[derive(Clone, Debug)]
pub struct PastTally {
    /// The kind.
    pub kind: PastKind,
    /// Questions that were answered.
    pub answered: u64,
    /// Questions that failed.
    pub failed: u64,
    /// Rows of all answers.
    pub rows: u64,
    /// From the call to the end of the answer.
    pub latency: Latency,
    /// The first failure.
    pub failure: Option<String>,
}

/// Asks the questions of one kind.
pub struct Asker {
    /// The shared session.
    pub session: Arc<Session>,
    /// The kind.
    pub kind: PastKind,
    /// Draws objects and regions.
    pub choosers: Choosers,
    /// Draws times.
    pub random: QueryRandom,
    /// First event time of the run, Unix milliseconds. If it is `None`, questions begin a day
    /// before the last event time.
    pub first_ms: Option<i64>,
}

impl Asker {
    /// Asks questions while rows are sent, and at least as many as the plan demands; ends early if
    /// the run is stopped.
    ///
    /// # Errors
    /// [`LoadError::Call`] if the server is unreachable. Failed questions are counted.
    pub async fn run(mut self, client: Client) -> Result<PastTally, LoadError> {
        let session = Arc::clone(&self.session);
        let start = session.start().await?;
        let seconds = session.plan.seconds.unwrap_or(0.0);
        let end = start + Duration::from_secs_f64(seconds);
        let kind = self.kind;
        let mut tally = PastTally {
            kind,
            answered: 0,
            failed: 0,
            rows: 0,
            latency: Latency::default(),
            failure: None,
        };
        let mut last_ms = self.first_ms.unwrap_or(0);
        let least = session.plan.flags.history_queries;
        let is_due = |asked: u64| asked < least || Instant::now() < end;
        while is_due(tally.answered + tally.failed) && !session.is_stopped() {
            if let Some(verifier) = &session.verifier {
                verifier.answer_capacity().await;
            }
            let (space, is_compared) = (&session.space, session.verifier.is_some());
            let (choosers, random) = (&mut self.choosers, &mut self.random);
            let drawn = DrawnQuestion::draw(
                kind,
                self.first_ms.unwrap_or(last_ms - DAY_MS),
                last_ms,
                space,
                is_compared,
                choosers,
                random,
            );
            let sent = Instant::now();
            let outcome = drawn.ask(&client, &session).await;
            session.counters.arrivals.add(1);
            let (header, answer) = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    refused(error, &mut tally)?;
                    continue;
                }
            };
            tally.latency.record(sent.elapsed(), 1);
            tally.answered += 1;
            tally.rows += answer.rows() as u64;
            last_ms = last_ms.max(header.clock_ms);
            if let Some(verifier) = &session.verifier {
                verifier.past_answered(PastAnswered { question: drawn.question, header, answer });
            }
        }
        Ok(tally)
    }
}

/// Counts a failed call; an unreachable server ends the run.
fn refused(error: Error, tally: &mut PastTally) -> Result<(), LoadError> {
    match error {
        Error::Server(error) if !matches!(error.code, Code::Unavailable | Code::Unknown) => {
            tally.failed += 1;
            tally.failure.get_or_insert_with(|| error.to_string());
            Ok(())
        }
        error => Err(LoadError::call("a question about the past")(error)),
    }
}
