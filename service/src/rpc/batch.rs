//! `QueryService.Batch`: many queries in a message, all answered at one epoch.
//!
//! One future reads messages and answers several at the same time; another sends the answers in the
//! order of the messages. An invalid query or message fails alone, and the stream continues.
//! Workers decode and convert large messages.

use std::sync::Arc;

use bytes::Bytes;
use shoal_engine::Query;
use shoal_proto::v1::batch_query::Kind;
use shoal_proto::v1::{BatchQuery, BatchRequest};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::{Request, Response, Status, Streaming};

use super::batch_answer::{BatchStream, send_failure, send_message};
use super::budgeted_answer::{BudgetedAnswer, Questions, ask};
use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::deadline::Deadline;
use super::large_message::LargeMessage;
use super::position_service::at_most;
use super::query_context::QueryContext;
use super::region;
use super::service_context::ServiceContext;
use crate::access::{Call, MeteredQuota};
use crate::error::ServiceError;
use crate::limits::{BATCH_MESSAGES_MAX, BATCH_QUERIES_MAX};
use crate::shares::PlacesPermit;

/// The answers to one message.
#[derive(Debug)]
pub(super) struct AnsweredMessage {
    pub(super) query_context: QueryContext,
    /// The answers to the valid queries.
    pub(super) answer: BudgetedAnswer,
    /// For each query, why it is invalid.
    pub(super) failures: Vec<Option<ServiceError>>,
}

type Turn = oneshot::Receiver<Result<AnsweredMessage, ServiceError>>;

pub(super) fn batch(
    context: &ServiceContext,
    request: Request<Streaming<BatchRequest>>,
) -> Result<Response<BatchStream>, ServiceError> {
    let call = Call::of(request.extensions())?;
    let open = context.open_stream(&call)?;
    let caller = (call, Deadline::of(request.metadata()));
    let large = LargeMessage::of(request.extensions());
    let context = Arc::new(context.clone());
    let budget = Some(context.answers.clone());
    let stream = ChunkStream::spawn_with(budget, |chunks| async move {
        let (sender, receiver) = mpsc::channel(BATCH_MESSAGES_MAX);
        let messages = (request.into_inner(), large);
        let reading = async { Ok(read(&context, messages, caller, sender).await) };
        let (end, ()) = tokio::try_join!(reading, send(receiver, &chunks))?;
        drop(open);
        Ok(end)
    });
    Ok(Response::new(stream))
}

/// Reads messages until the stream ends; returns its status.
async fn read(
    context: &Arc<ServiceContext>,
    (mut messages, large): (Streaming<BatchRequest>, LargeMessage),
    (call, deadline): (Call, Deadline),
    sender: mpsc::Sender<Turn>,
) -> Result<(), Status> {
    // Dropped with this future, so that queries are aborted when the client disconnects.
    let mut running = JoinSet::new();
    let turn_of_large = Arc::new(Mutex::new(()));
    loop {
        // Reserve a turn before reading the next message: this bounds the messages in progress.
        let Ok(turn) = sender.reserve().await else {
            return Ok(());
        };
        let message = tokio::select! {
            biased;
            () = context.stopped() => Err(ServiceError::ShuttingDown.into()),
            () = deadline.passed() => Err(ServiceError::Deadline.into()),
            message = messages.message() => message,
        };
        let message = match message {
            Ok(Some(message)) => message,
            end => {
                drop(turn);
                while running.join_next().await.is_some() {}
                return end.map(drop);
            }
        };
        let (reply, receiver) = oneshot::channel();
        let (context, call, large) = (context.clone(), call.clone(), large.take());
        let turn_of_large = turn_of_large.clone();
        // A large message is charged already. Others are read only as fast as there is room for
        // what they become.
        let in_work = match &large {
            Some(_) => None,
            None => Some(tokio::select! {
                biased;
                () = context.stopped() => Err(ServiceError::ShuttingDown),
                reserved = deadline.bound(reserve(&context, &call, &message)) => reserved,
            }),
        };
        running.spawn(async move {
            let answered = match in_work.transpose() {
                Ok(in_work) => {
                    let sent = Sent { message, large, turn_of_large, in_work };
                    answer(&context, sent, (call, deadline)).await
                }
                Err(error) => Err(error),
            };
            // The receiver is gone if the stream has ended.
            let _ = reply.send(answered);
        });
        while running.try_join_next().is_some() {}
        turn.send(receiver);
    }
}

/// A message of a client.
struct Sent {
    /// The decoded message; empty if it is a large one.
    message: BatchRequest,
    large: Option<Bytes>,
    /// Held while a large message of the stream is decoded and waits for its room.
    turn_of_large: Arc<Mutex<()>>,
    /// The room of its queries, if it is not large.
    in_work: Option<PlacesPermit>,
}

/// Waits for the quota of the queries of a message, then for their room.
///
/// # Errors
/// [`ServiceError::Limit`] for too many queries; those of [`ServiceContext::reserve_work`].
async fn reserve(
    context: &ServiceContext,
    call: &Call,
    message: &BatchRequest,
) -> Result<PlacesPermit, ServiceError> {
    at_most("queries", message.queries.len(), "queries", BATCH_QUERIES_MAX)?;
    call.wait(MeteredQuota::Queries, message.queries.len() as u64).await;
    context.reserve_work(call.client(), message.queries.iter().map(work).sum()).await
}

async fn answer(
    context: &ServiceContext,
    sent: Sent,
    (call, deadline): (Call, Deadline),
) -> Result<AnsweredMessage, ServiceError> {
    let Sent { mut message, large, turn_of_large, in_work } = sent;
    let _in_work = match (&large, in_work) {
        (_, Some(in_work)) => in_work,
        (large, None) => {
            let _turn = deadline.bound(async { Ok(turn_of_large.lock().await) }).await?;
            if let Some(bytes) = large {
                message = deadline.bound(context.decode(call.client(), bytes.clone())).await?;
            }
            deadline.bound(reserve(context, &call, &message)).await?
        }
    };
    let options = message.options.unwrap_or_default();
    let query_context = QueryContext::new(context, call, &options, "options")?;
    for sent in &message.queries {
        if let Some(Kind::Get(get)) = &sent.kind {
            query_context.reach_names(&get.names, deadline).await?;
        }
    }
    let each = {
        let query_context = query_context.clone();
        move |index, sent| convert(&query_context, index, sent)
    };
    let converting = context.convert(query_context.client, message.queries, work, each);
    let converted = deadline.bound(converting).await?;
    let mut queries = Vec::with_capacity(converted.len());
    let failures = converted.into_iter();
    let failures: Vec<_> =
        failures.map(|query| query.map(|query| queries.push(query)).err()).collect();
    drop(large);
    let failed = failures.len() - queries.len();
    let questions = Questions::with_failures(queries, failed);
    let answer = ask(context, &query_context, questions, deadline, true).await?;
    Ok(AnsweredMessage { query_context, answer, failures })
}

/// See [`region::work`].
fn work(sent: &BatchQuery) -> usize {
    match &sent.kind {
        Some(Kind::Range(sent)) => region::work(sent),
        // An id takes as much memory as a third of a vertex, a name as two.
        Some(Kind::Get(sent)) => {
            region::REGION_WORK + sent.objects.len() / 3 + 2 * sent.names.len()
        }
        Some(Kind::Nearest(_)) | None => region::REGION_WORK,
    }
}

fn convert(context: &QueryContext, index: usize, sent: BatchQuery) -> Result<Query, ServiceError> {
    let query = format!("queries[{index}]");
    match sent.kind {
        Some(Kind::Get(get)) => context
            .get(get.objects, &get.names)
            .map_err(|error| error.under(&format!("{query}.get"))),
        Some(Kind::Range(region)) => context.range(&format!("{query}.range"), Some(&region)),
        Some(Kind::Nearest(nearest)) => context.nearest(&format!("{query}.nearest"), nearest),
        None => Err(ServiceError::field(query, "none of get, range and nearest is set")),
    }
}

/// Sends the answers in the order of the messages.
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
            // The task of the message was dropped with the stream.
            Err(_) => return Err(NotTaken),
        }
    }
    Ok(())
}
