//! Streams the answer to one query.
//!
//! The first chunk has the header. Each chunk is encoded when the client can take it. The whole
//! answer counts against the answer budget until the last chunk is taken.

use shoal_engine::{Answer, Query};
use shoal_proto::v1::AnswerHeader;
use tonic::{Response, Status};

use super::budgeted_answer::{BudgetedAnswer, Questions, ask};
use super::chunk_stream::{Chunk, ChunkSender, ChunkStream, NotTaken, RowStream, chunk_bytes};
use super::deadline::Deadline;
use super::fleet_message::staleness_message;
use super::query_context::QueryContext;
use super::records::{RowMessage, StoredRows, row_bytes_max};
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::JobAnswers;

/// Runs one query and streams its answer. An error of the query becomes the status of the call.
pub(super) async fn answer_one<T: RowMessage<Header = AnswerHeader>>(
    context: &ServiceContext,
    query_context: QueryContext,
    query: Query,
    deadline: Deadline,
) -> Result<Response<RowStream<T>>, ServiceError> {
    let questions = Questions::valid(vec![query]);
    let answer = ask(context, &query_context, questions, deadline, false).await?;
    let (budget, call) = (Some(context.answers.clone()), query_context.call.clone());
    let stream = ChunkStream::spawn_with(budget, |sender| async move {
        tokio::select! {
            sent = send(&query_context, answer, &sender) => sent.map(Ok),
            () = deadline.passed() => Ok(Err(Status::from(ServiceError::Deadline))),
        }
    });
    Ok(stream.answer(&call))
}

async fn send<T: RowMessage<Header = AnswerHeader>>(
    query_context: &QueryContext,
    answer: BudgetedAnswer,
    sender: &ChunkSender<T, StoredRows<AnswerHeader>>,
) -> Result<(), NotTaken> {
    let (fleet, answered) = (&query_context.fleet, &answer.answered);
    let mut header = Some(header(query_context, answered, Some(answered.get(0))));
    let rows = answered.get(0).objects.len();
    let rows_at_once = chunk_bytes(&query_context.call) / row_bytes_max(fleet, &answered.get(0));
    let mut from = 0;
    loop {
        let to = rows.min(from + rows_at_once);
        let part = StoredRows::of(fleet, header.take(), &answered.get(0), from..to);
        sender.send(Chunk::of(&query_context.call, part, T::new)).await?;
        from = to;
        if from == rows {
            return Ok(());
        }
    }
}

/// The header: fleet and epoch of the answers, and `total` and `truncated` of the answer `one`, if
/// given.
pub(super) fn header(
    query_context: &QueryContext,
    answered: &JobAnswers,
    one: Option<Answer<'_>>,
) -> AnswerHeader {
    AnswerHeader {
        fleet: query_context.name.to_string(),
        term: answered.term,
        epoch: answered.epoch,
        clock_ms: answered.clock_ms,
        staleness_epochs: answered.staleness_epochs,
        total: one.map_or(0, |answer| answer.total),
        truncated: one.is_some_and(|answer| answer.truncated),
        staleness: query_context.fleet.staleness().map(staleness_message),
    }
}
