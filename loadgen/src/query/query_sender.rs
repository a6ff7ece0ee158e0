//! The sending half of a Batch stream: waits for its turn and for in-flight capacity, draws and
//! sends queries, and selects answers to verify.

use std::sync::Arc;

use shoal_engine::Query;
use shoal_proto::v1::BatchRequest;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::chooser::Chooser;
use super::turn::Turn;
use crate::InFlight;
use crate::error::LoadError;
use crate::measure::Allowance;
use crate::session::Session;

/// Expectations for the answers to a message.
#[derive(Clone, Debug)]
pub struct ToVerify {
    /// The queries.
    pub queries: Arc<[Query]>,
    /// Minimum epoch of the answers, guaranteed by a token.
    pub epoch_min: u64,
}

/// A message of queries in flight.
#[derive(Debug)]
pub struct SentQueries {
    /// Intended send time.
    pub intended: Instant,
    /// Actual send time.
    pub sent: Instant,
    /// Number of queries.
    pub queries: u64,
    /// Set if the answers are compared.
    pub to_verify: Option<ToVerify>,
}

/// Sends the queries of one connection.
pub struct QuerySender {
    /// The shared session.
    pub session: Arc<Session>,
    /// Index of the connection.
    pub connection: u32,
    /// Draws the queries.
    pub chooser: Chooser,
    /// Queries earned by rows.
    pub allowance: Arc<Allowance>,
    /// Messages in flight.
    pub in_flight: Arc<InFlight<SentQueries>>,
    /// Input of the gRPC stream; dropping it ends the stream.
    pub requests: mpsc::Sender<BatchRequest>,
}

impl QuerySender {
    /// Sends until the run ends.
    ///
    /// # Errors
    /// The run ended before its start. The answer reader reports a broken stream.
    pub async fn run(mut self) -> Result<(), LoadError> {
        let allowance = Arc::clone(&self.allowance);
        let mut turn = Turn::start(Arc::clone(&self.session), self.connection, allowance).await?;
        while let Some((count, intended)) = turn.next().await {
            if self.session.unless_stopped(self.in_flight.acquire()).await.is_none() {
                break;
            }
            if !self.send(count, intended).await {
                break;
            }
        }
        Ok(())
    }

    /// Sends one message; false when the stream has ended.
    async fn send(&mut self, count: u64, intended: Option<Instant>) -> bool {
        let share = self.session.plan.verify_share.unwrap_or(0.0);
        let verifier = self.session.verifier.clone().filter(|_| self.chooser.falls_into(share));
        let message = self.chooser.draw(count as usize, verifier.is_some());
        let mut options = message.options;
        options.fleet = self.session.fleet.clone();
        let mut to_verify = None;
        if let Some(verifier) = &verifier {
            verifier.answer_capacity().await;
        }
        let place = self.session.unless_stopped(self.requests.reserve()).await;
        let Some(Ok(place)) = place else { return false };
        if let (Some(verifier), Some(queries)) = (verifier, message.engine) {
            let share = self.session.plan.token_share();
            let with_token = self.chooser.falls_into(share);
            let (least, token) = verifier.ledger.query_sent(self.connection, with_token);
            let epoch_min = if token.is_empty() { 0 } else { least };
            options.min_token = token.into();
            to_verify = Some(ToVerify { queries, epoch_min });
        }
        let sent = Instant::now();
        let intended = intended.unwrap_or(sent);
        self.in_flight.push(SentQueries { intended, sent, queries: count, to_verify });
        self.session.counters.query_messages_in_flight.add(1);
        place.send(BatchRequest { options: Some(options), queries: message.queries });
        true
    }
}
