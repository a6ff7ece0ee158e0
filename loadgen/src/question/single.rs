//! How long does one question take when nobody shares its message?
//!
//! Calls Range, Nearest or Get one after the other, as an ordinary client does, and waits for the
//! whole answer. For idle latency; a Batch stream is for rates.

use std::sync::Arc;

use shoal_proto::v1::batch_query::Kind;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_proto::v1::{
    AnswerHeader, BatchQuery, BatchResult, GetRequest, GetResponse, NearestQuery, NearestRequest,
    NearestResponse, QueryOptions, RangeRequest, RangeResponse,
};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::answers::QuestionTally;
use super::asking::Turn;
use super::chooser::Chooser;
use crate::error::LoadError;
use crate::limits::ANSWER_BYTES_MAX;
use crate::measure::Allowance;
use crate::session::Session;
use crate::verify::{Answered, GotAnswer};

/// Asks one question after the other on behalf of one connection.
pub struct SingleAsker {
    /// Shared by all.
    pub session: Arc<Session>,
    /// Which connection.
    pub connection: u32,
    /// Draws the questions.
    pub chooser: Chooser,
    /// Earned by rows, spent here.
    pub allowance: Arc<Allowance>,
}

impl SingleAsker {
    /// Asks until the end.
    ///
    /// # Errors
    /// [`LoadError::Call`] when the server is gone; a refused question is counted.
    pub async fn run(mut self, channel: Channel) -> Result<QuestionTally, LoadError> {
        let mut client =
            QueryServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let mut tally = QuestionTally::default();
        let allowance = Arc::clone(&self.allowance);
        let mut turn = Turn::start(Arc::clone(&self.session), self.connection, allowance).await?;
        while let Some((_, intended)) = turn.next().await {
            self.ask(&mut client, intended, &mut tally).await?;
        }
        Ok(tally)
    }

    /// Asks one question and waits for its answer.
    async fn ask(
        &mut self,
        client: &mut QueryServiceClient<Channel>,
        intended: Option<Instant>,
        tally: &mut QuestionTally,
    ) -> Result<(), LoadError> {
        let share = self.session.plan.verify_share.unwrap_or(0.0);
        let verifier = self.session.verifier.clone().filter(|_| self.chooser.falls_into(share));
        let mut question = self.chooser.draw(1, verifier.is_some());
        let mut options = question.options;
        options.fleet = self.session.fleet.clone();
        let mut epoch_min = 0;
        if let Some(verifier) = &verifier {
            verifier.answer_capacity().await;
            let with_token = self.chooser.falls_into(0.5);
            let (least, token) = verifier.ledger.query_sent(self.connection, with_token);
            epoch_min = if token.is_empty() { 0 } else { least };
            options.min_token = token.into();
        }
        let query = question.queries.pop().expect("one was drawn");
        self.session.counters.questions_in_flight.add(1);
        let sent = Instant::now();
        let outcome = call(client, options, query).await;
        self.session.counters.questions_in_flight.sub(1);
        self.session.counters.arrivals.add(1);
        let now = Instant::now();
        let (header, answer) = match outcome {
            Ok(outcome) => outcome,
            Err(status) => {
                if let Some(verifier) = &verifier {
                    verifier.ledger.answered(self.connection, None);
                }
                return refused(status, tally);
            }
        };
        tally.latency.record(now - intended.unwrap_or(sent), 1);
        tally.latency_sent.record(now - sent, 1);
        tally.queries += 1;
        tally.rows += answer.objects.len() as u64;
        tally.last_answer = Some(now);
        self.session.counters.queries.add(1);
        if let (Some(verifier), Some(queries)) = (verifier, question.engine) {
            let answered = Answered { queries, header, answers: vec![answer], epoch_min };
            verifier.answered(self.connection, answered);
        }
        Ok(())
    }
}

/// Counts a failed call; an unreachable server ends the run.
fn refused(status: Status, tally: &mut QuestionTally) -> Result<(), LoadError> {
    if matches!(status.code(), tonic::Code::Unavailable | tonic::Code::Unknown) {
        return Err(LoadError::call("a query")(status));
    }
    let (code, message) = (status.code().into(), status.message().into());
    let failed = tonic_types::Status { code, message, details: Vec::new() };
    tally.fail(1, &failed);
    Ok(())
}

/// Calls the method that a question belongs to.
async fn call(
    client: &mut QueryServiceClient<Channel>,
    options: QueryOptions,
    query: BatchQuery,
) -> Result<(AnswerHeader, GotAnswer), Status> {
    let options = Some(options);
    match query.kind {
        Some(Kind::Get(objects)) => {
            let request = GetRequest { options, objects: objects.objects };
            collect(client.get(request).await?.into_inner()).await
        }
        Some(Kind::Range(region)) => {
            let request = RangeRequest { options, region: Some(region) };
            collect(client.range(request).await?.into_inner()).await
        }
        Some(Kind::Nearest(nearest)) => {
            let NearestQuery { x, y, k, distance_max_m } = nearest;
            let request = NearestRequest { options, x, y, k, distance_max_m };
            collect(client.nearest(request).await?.into_inner()).await
        }
        None => Err(Status::internal("a question of no kind was drawn")),
    }
}

/// One message of an answer: its header and its rows.
trait Chunk {
    fn split(self) -> (Option<AnswerHeader>, BatchResult);
}

impl Chunk for GetResponse {
    fn split(self) -> (Option<AnswerHeader>, BatchResult) {
        let Self { header, objects, fixes } = self;
        (header, BatchResult { objects, fixes, ..BatchResult::default() })
    }
}

impl Chunk for RangeResponse {
    fn split(self) -> (Option<AnswerHeader>, BatchResult) {
        let Self { header, objects, fixes } = self;
        (header, BatchResult { objects, fixes, ..BatchResult::default() })
    }
}

impl Chunk for NearestResponse {
    fn split(self) -> (Option<AnswerHeader>, BatchResult) {
        let Self { header, objects, fixes, distance_m } = self;
        (header, BatchResult { objects, fixes, distance_m, ..BatchResult::default() })
    }
}

/// Puts an answer together from its chunks.
async fn collect<T: Chunk>(mut chunks: Streaming<T>) -> Result<(AnswerHeader, GotAnswer), Status> {
    let mut answer = GotAnswer::default();
    let mut header: Option<AnswerHeader> = None;
    while let Some(chunk) = chunks.message().await? {
        let (first, rows) = chunk.split();
        let is_first = header.is_none();
        let (total, truncated) =
            first.as_ref().map_or((0, false), |header| (header.total, header.truncated));
        answer.push(BatchResult { total, truncated, ..rows }, is_first);
        header = header.or(first);
    }
    let header = header.ok_or_else(|| Status::internal("the answer has no header"))?;
    Ok((header, answer))
}
