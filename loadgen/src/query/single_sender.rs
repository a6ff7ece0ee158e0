//! Sends sequential calls and waits for each answer, to measure idle latency. A Batch stream
//! measures rates.

use std::sync::Arc;

use shoal_client::v1::batch_query::Kind;
use shoal_client::v1::{
    AnswerHeader, BatchQuery, GetQuery, GetRequest, NearestQuery, NearestRequest, QueryOptions,
    RangeRequest,
};
use shoal_client::{Client, Error, QueryAnswer};
use tokio::time::Instant;
use tonic::Code;

use super::answers::QueryTally;
use super::chooser::Chooser;
use super::turn::Turn;
use crate::error::LoadError;
use crate::measure::Allowance;
use crate::session::Session;
use crate::verify::Answered;

/// Sends the queries of one connection as sequential calls.
pub struct SingleSender {
    /// The shared session.
    pub session: Arc<Session>,
    /// Index of the connection.
    pub connection: u32,
    /// Draws the queries.
    pub chooser: Chooser,
    /// Queries earned by rows.
    pub allowance: Arc<Allowance>,
}

impl SingleSender {
    /// Sends until the run ends.
    ///
    /// # Errors
    /// [`LoadError::Call`] if the server is unreachable. Failed queries are counted.
    pub async fn run(mut self, client: Client) -> Result<QueryTally, LoadError> {
        let mut tally = QueryTally::default();
        let allowance = Arc::clone(&self.allowance);
        let mut turn = Turn::start(Arc::clone(&self.session), self.connection, allowance).await?;
        while let Some((_, intended)) = turn.next().await {
            self.send(&client, intended, &mut tally).await?;
        }
        Ok(tally)
    }

    /// Sends one query and waits for its answer.
    async fn send(
        &mut self,
        client: &Client,
        intended: Option<Instant>,
        tally: &mut QueryTally,
    ) -> Result<(), LoadError> {
        let share = self.session.plan.verify_share.unwrap_or(0.0);
        let verifier = self.session.verifier.clone().filter(|_| self.chooser.falls_into(share));
        let mut message = self.chooser.draw(1, verifier.is_some());
        let mut options = message.options;
        options.fleet = self.session.fleet.clone();
        let mut epoch_min = 0;
        if let Some(verifier) = &verifier {
            verifier.answer_capacity().await;
            let share = self.session.plan.token_share();
            let with_token = self.chooser.falls_into(share);
            let (least, token) = verifier.ledger.query_sent(self.connection, with_token);
            epoch_min = if token.is_empty() { 0 } else { least };
            options.min_token = token.into();
        }
        let query = message.queries.pop().expect("one was drawn");
        self.session.counters.query_messages_in_flight.add(1);
        let sent = Instant::now();
        let outcome = call(client, options, query).await;
        self.session.counters.query_messages_in_flight.sub(1);
        self.session.counters.arrivals.add(1);
        let (header, answer) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                if let Some(verifier) = &verifier {
                    verifier.ledger.answered(self.connection, None);
                }
                return refused(error, tally);
            }
        };
        tally.answer(1, intended.unwrap_or(sent), sent);
        tally.rows += answer.objects.len() as u64;
        self.session.counters.queries.add(1);
        if let (Some(verifier), Some(queries)) = (verifier, message.engine) {
            let answered = Answered { queries, header, answers: vec![answer], epoch_min };
            verifier.answered(self.connection, answered);
        }
        Ok(())
    }
}

/// Counts a failed call; an unreachable server ends the run.
fn refused(error: Error, tally: &mut QueryTally) -> Result<(), LoadError> {
    match error {
        Error::Server(error) if !matches!(error.code, Code::Unavailable | Code::Unknown) => {
            tally.fail(1, &error);
            Ok(())
        }
        error => Err(LoadError::call("a query")(error)),
    }
}

/// Calls the method of a query.
async fn call(
    client: &Client,
    options: QueryOptions,
    query: BatchQuery,
) -> Result<(AnswerHeader, QueryAnswer), Error> {
    let options = Some(options);
    let answer = match query.kind {
        Some(Kind::Get(GetQuery { objects, names })) => {
            client.get(GetRequest { options, objects, names }).await?
        }
        Some(Kind::Range(region)) => {
            client.range(RangeRequest { options, region: Some(region) }).await?
        }
        Some(Kind::Nearest(NearestQuery { x, y, k, distance_max_m })) => {
            client.nearest(NearestRequest { options, x, y, k, distance_max_m }).await?
        }
        None => return Err(Error::Protocol("a query of no kind was drawn".to_owned())),
    };
    answer.collect().await
}
