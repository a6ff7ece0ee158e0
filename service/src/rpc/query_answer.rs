//! How does the answer to one query go out?
//!
//! In chunks, the header in the first, each made when the client has room for it. The answer stays
//! whole in memory until the last chunk is taken; the budget knows it.

use shoal_engine::Answer;
use shoal_proto::v1::{AnswerHeader, GetResponse, NearestResponse, RangeResponse};
use tonic::{Response, Status};

use super::asking::Asking;
use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::deadline::Deadline;
use super::door::Door;
use super::held_answer::{HeldAnswer, ask};
use super::records::{Records, row_bytes_max};
use crate::error::ServiceError;
use crate::fleet::{Fleet, JobAnswers};
use crate::limits::CHUNK_BYTES_TARGET;
use shoal_engine::Query;

/// One chunk of an answer, as the response message of its call.
pub(super) trait AnswerPart: Send + Sized + 'static {
    /// Some rows, and the header in the first chunk.
    fn new(header: Option<AnswerHeader>, rows: Records) -> Self;
}

impl AnswerPart for GetResponse {
    fn new(header: Option<AnswerHeader>, Records { objects, fixes, .. }: Records) -> Self {
        Self { header, objects, fixes }
    }
}

impl AnswerPart for RangeResponse {
    fn new(header: Option<AnswerHeader>, Records { objects, fixes, .. }: Records) -> Self {
        Self { header, objects, fixes }
    }
}

impl AnswerPart for NearestResponse {
    fn new(header: Option<AnswerHeader>, rows: Records) -> Self {
        let Records { objects, fixes, distance_m } = rows;
        Self { header, objects, fixes, distance_m }
    }
}

/// Asks one query and streams its answer. Errors come before the first chunk, as the call's status.
pub(super) async fn answer_one<T: AnswerPart>(
    door: &Door,
    asking: Asking,
    query: Query,
    deadline: Deadline,
) -> Result<Response<ChunkStream<T>>, ServiceError> {
    let held = ask(door, &asking, vec![query], deadline, false).await?;
    let stream = ChunkStream::spawn(|sender| async move {
        tokio::select! {
            sent = send(&asking, held, &sender) => sent.map(Ok),
            () = deadline.passed() => Ok(Err(Status::from(ServiceError::Deadline))),
        }
    });
    Ok(Response::new(stream))
}

async fn send<T: AnswerPart>(
    asking: &Asking,
    held: HeldAnswer,
    sender: &ChunkSender<T>,
) -> Result<(), NotTaken> {
    let answered = &held.answered;
    let mut header = Some(header(&asking.fleet, answered, Some(answered.get(0))));
    let rows = answered.get(0).objects.len();
    let rows_at_once = CHUNK_BYTES_TARGET / row_bytes_max(&answered.get(0));
    let mut from = 0;
    loop {
        let to = rows.min(from + rows_at_once);
        let records = Records::of(asking.fleet.space(), &answered.get(0), from, to);
        sender.send(T::new(header.take(), records)).await?;
        from = to;
        if from == rows {
            return Ok(());
        }
    }
}

/// Where and when answers hold; `total` and `truncated` are those of one answer, if it is one.
pub(super) fn header(
    fleet: &Fleet,
    answered: &JobAnswers,
    one: Option<Answer<'_>>,
) -> AnswerHeader {
    AnswerHeader {
        fleet: fleet.name().as_str().to_owned(),
        term: fleet.term(),
        epoch: answered.epoch,
        clock_ms: answered.clock_ms,
        staleness_epochs: answered.staleness_epochs,
        total: one.map_or(0, |answer| answer.total),
        truncated: one.is_some_and(|answer| answer.truncated),
    }
}
