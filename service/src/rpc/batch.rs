//! `QueryService.Batch`: many queries a message, all answered at one epoch.
//!
//! One half reads messages and has several answered at once; the other sends answers, in the order
//! of the messages. A query that cannot be answered fails alone, a message that cannot be fails
//! alone too; the stream goes on.

use std::sync::Arc;

use shoal_engine::Query;
use shoal_proto::v1::batch_query::Kind;
use shoal_proto::v1::{BatchQuery, BatchRequest};
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status, Streaming};

use super::asking::Asking;
use super::batch_answer::{BatchStream, send_failure, send_message};
use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::deadline::Deadline;
use super::door::Door;
use super::held_answer::{HeldAnswer, ask};
use super::remove::at_most;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::{BATCH_MESSAGES_MAX, BATCH_QUERIES_MAX};

/// The answers to one message.
#[derive(Debug)]
pub(super) struct AnsweredMessage {
    pub(super) fleet: Arc<Fleet>,
    /// Of the queries that could be asked.
    pub(super) held: HeldAnswer,
    /// Per query, why it could not be asked.
    pub(super) failures: Vec<Option<ServiceError>>,
}

type Turn = oneshot::Receiver<Result<AnsweredMessage, ServiceError>>;

pub(super) fn batch(
    door: &Arc<Door>,
    request: Request<Streaming<BatchRequest>>,
) -> Result<Response<BatchStream>, ServiceError> {
    let open = door.open_stream().map_err(|error| door.count(error))?;
    let deadline = Deadline::of(request.metadata());
    let door = door.clone();
    let stream = ChunkStream::spawn(|chunks| async move {
        let (sender, receiver) = mpsc::channel(BATCH_MESSAGES_MAX);
        let reading = async { Ok(read(&door, request.into_inner(), deadline, sender).await) };
        let (end, ()) = tokio::try_join!(reading, send(receiver, &chunks))?;
        drop(open);
        Ok(end)
    });
    Ok(Response::new(stream))
}

/// Reads until there is a reason to stop; says how the stream ends.
async fn read(
    door: &Arc<Door>,
    mut messages: Streaming<BatchRequest>,
    deadline: Deadline,
    sender: mpsc::Sender<Turn>,
) -> Result<(), Status> {
    // Dropped with this half: a client that is gone costs nothing more.
    let mut asked = JoinSet::new();
    loop {
        // A turn is reserved first: so many messages are under way, not one more.
        let Ok(turn) = sender.reserve().await else {
            return Ok(());
        };
        let message = tokio::select! {
            biased;
            () = door.stopped() => Err(ServiceError::ShuttingDown.into()),
            () = deadline.passed() => Err(ServiceError::Deadline.into()),
            message = messages.message() => message,
        };
        let message = match message {
            Ok(Some(message)) => message,
            end => {
                drop(turn);
                while asked.join_next().await.is_some() {}
                return end.map(drop);
            }
        };
        let (reply, receiver) = oneshot::channel();
        let door = door.clone();
        asked.spawn(async move {
            // A stream that ended wants no answer.
            let _ = reply.send(answer(&door, message, deadline).await);
        });
        while asked.try_join_next().is_some() {}
        turn.send(receiver);
    }
}

async fn answer(
    door: &Door,
    message: BatchRequest,
    deadline: Deadline,
) -> Result<AnsweredMessage, ServiceError> {
    at_most("queries", message.queries.len(), "queries", BATCH_QUERIES_MAX)?;
    let asking = Asking::new(door, message.options)?;
    let mut queries = Vec::with_capacity(message.queries.len());
    let failures = message.queries.into_iter().enumerate().map(|(index, sent)| {
        understand(&asking, index, sent).map(|query| queries.push(query)).err()
    });
    let failures = failures.collect();
    let held = ask(door, &asking, queries, deadline, true).await?;
    Ok(AnsweredMessage { fleet: asking.fleet, held, failures })
}

fn understand(asking: &Asking, index: usize, sent: BatchQuery) -> Result<Query, ServiceError> {
    let query = format!("queries[{index}]");
    match sent.kind {
        Some(Kind::Get(get)) => {
            asking.get(get.objects).map_err(|error| error.under(&format!("{query}.get")))
        }
        Some(Kind::Range(region)) => asking.range_at(&format!("{query}.range"), Some(&region)),
        Some(Kind::Nearest(nearest)) => {
            asking.check_nearest()?;
            asking.nearest(nearest).map_err(|error| error.under(&format!("{query}.nearest")))
        }
        None => Err(ServiceError::field(query, "none of get, range and nearest is set")),
    }
}

/// Sends the answers of each message in its turn.
async fn send(
    mut receiver: mpsc::Receiver<Turn>,
    chunks: &ChunkSender<shoal_proto::v1::BatchResponse>,
) -> Result<(), NotTaken> {
    let mut message = 0;
    while let Some(turn) = receiver.recv().await {
        message += 1;
        match turn.await {
            Ok(Ok(answered)) => send_message(message, answered, chunks).await?,
            Ok(Err(error)) => send_failure(message, error, chunks).await?,
            // The task that answers it was dropped: so is the stream.
            Err(_) => return Err(NotTaken),
        }
    }
    Ok(())
}
