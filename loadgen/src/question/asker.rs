//! How do many queries travel in one message?
//!
//! The sending half of a Batch stream: waits for its turn and for room under way, draws the
//! questions, decides whether their answers are verified, sends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use shoal_engine::Query;
use shoal_proto::v1::BatchRequest;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::asking::Turn;
use super::chooser::Chooser;
use crate::error::LoadError;
use crate::measure::Allowance;
use crate::session::Session;

/// What is needed to compare the answers to a message.
#[derive(Clone, Debug)]
pub struct ToVerify {
    /// The queries.
    pub queries: Arc<[Query]>,
    /// A token makes the answers be at this epoch at least.
    pub epoch_min: u64,
}

/// A message of queries under way.
#[derive(Debug)]
pub struct Asked {
    /// The moment at which it should have been sent.
    pub intended: Instant,
    /// The moment at which it was handed to the stream.
    pub sent: Instant,
    /// Its queries.
    pub queries: u64,
    /// Set when the answers are compared.
    pub to_verify: Option<ToVerify>,
}

/// Messages under way of one connection, oldest first.
#[derive(Debug)]
pub struct Pending {
    queue: Mutex<VecDeque<Asked>>,
    room: Semaphore,
}

impl Pending {
    /// At most so many.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self { queue: Mutex::new(VecDeque::new()), room: Semaphore::new(most as usize) }
    }

    /// Takes the oldest out and gives its room back.
    pub fn pop(&self) -> Option<Asked> {
        let asked = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        self.room.add_permits(1);
        Some(asked)
    }

    async fn room(&self) {
        // Never closed.
        if let Ok(permit) = self.room.acquire().await {
            permit.forget();
        }
    }

    fn push(&self, asked: Asked) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(asked);
    }
}

/// Asks on behalf of one connection.
pub struct Asker {
    /// Shared by all.
    pub session: Arc<Session>,
    /// Which connection.
    pub connection: u32,
    /// Draws the questions.
    pub chooser: Chooser,
    /// Earned by rows, spent here.
    pub allowance: Arc<Allowance>,
    /// Messages under way.
    pub pending: Arc<Pending>,
    /// Into the gRPC stream; dropping it ends the stream.
    pub requests: mpsc::Sender<BatchRequest>,
}

impl Asker {
    /// Asks until the end.
    ///
    /// # Errors
    /// The run ended before it started; a broken stream is the answer reader's to tell.
    pub async fn run(mut self) -> Result<(), LoadError> {
        let allowance = Arc::clone(&self.allowance);
        let mut turn = Turn::start(Arc::clone(&self.session), self.connection, allowance).await?;
        while let Some((count, intended)) = turn.next().await {
            if self.session.unless_stopped(self.pending.room()).await.is_none() {
                break;
            }
            if !self.ask(count, intended).await {
                break;
            }
        }
        Ok(())
    }

    /// Sends one message; false when the stream has ended.
    async fn ask(&mut self, count: u64, intended: Option<Instant>) -> bool {
        let share = self.session.plan.verify_share.unwrap_or(0.0);
        let verifier = self.session.verifier.clone().filter(|_| self.chooser.falls_into(share));
        let question = self.chooser.draw(count as usize, verifier.is_some());
        let mut options = question.options;
        options.fleet = self.session.fleet.clone();
        let mut to_verify = None;
        if let Some(verifier) = &verifier {
            verifier.answer_capacity().await;
        }
        let place = self.session.unless_stopped(self.requests.reserve()).await;
        let Some(Ok(place)) = place else { return false };
        if let (Some(verifier), Some(queries)) = (verifier, question.engine) {
            // Half of the messages carry a token, so that both ways of asking are checked.
            let with_token = self.chooser.falls_into(0.5);
            let (least, token) = verifier.ledger.query_sent(self.connection, with_token);
            let epoch_min = if token.is_empty() { 0 } else { least };
            options.min_token = token.into();
            to_verify = Some(ToVerify { queries, epoch_min });
        }
        let sent = Instant::now();
        let intended = intended.unwrap_or(sent);
        self.pending.push(Asked { intended, sent, queries: count, to_verify });
        self.session.counters.questions_in_flight.add(1);
        place.send(BatchRequest { options: Some(options), queries: question.queries });
        true
    }
}
