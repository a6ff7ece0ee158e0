//! `PositionService`: Report, ReportOnce and Remove.
//!
//! Reports arrive as bytes (`shoal_proto::raw`). ReportOnce and Remove never wait for capacity: if
//! the queue is full, they fail with RESOURCE_EXHAUSTED and the time after which to retry.

use std::sync::Arc;

use bytes::Bytes;
use shoal_engine::Request as EngineRequest;
use shoal_proto::raw::position_service_server::PositionService;
use shoal_proto::v1::{RemoveRequest, RemoveResponse, ReportOnceResponse};
use tonic::{Request, Response, Status, Streaming};

use super::ack_log::AckStream;
use super::ack_range::{AckRange, Settled};
use super::deadline::Deadline;
use super::intake::Intake;
use super::large_message::LargeMessage;
use super::object_names::add_named;
use super::report;
use super::report_message::check_numbered;
use super::service_context::ServiceContext;
use crate::access::{Call, MeteredQuota};
use crate::cycle::BatchId;
use crate::error::ServiceError;
use crate::fleet::{ChangeReply, Fleet, Token};

#[tonic::async_trait]
impl PositionService for ServiceContext {
    type ReportStream = AckStream;

    async fn report(
        &self,
        request: Request<Streaming<Bytes>>,
    ) -> Result<Response<AckStream>, Status> {
        Ok(report::report(self, request)?)
    }

    async fn report_once(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<ReportOnceResponse>, Status> {
        let deadline = Deadline::of(request.metadata());
        let intake = Intake::new(Call::of(request.extensions())?, self.clone());
        let large = LargeMessage::of(request.extensions()).take();
        let message = large.unwrap_or_else(|| request.into_inner());
        let settled = deadline.bound(report_once(intake, message)).await;
        let mut range = AckRange::default();
        range.add(1, settled.map_err(|error| self.count(error))?);
        Ok(Response::new(ReportOnceResponse { ack: Some(range.into_ack()) }))
    }

    async fn remove(
        &self,
        request: Request<RemoveRequest>,
    ) -> Result<Response<RemoveResponse>, Status> {
        let deadline = Deadline::of(request.metadata());
        let call = Call::of(request.extensions())?;
        let (request, _charge) = self.message(request).await?;
        let removed = deadline.bound(remove(self, &call, request)).await;
        Ok(Response::new(removed.map_err(|error| self.count(error))?))
    }
}

/// Applies one message. Its errors become the status of the call.
async fn report_once(mut intake: Intake, bytes: Bytes) -> Result<Settled, ServiceError> {
    let report = intake.parse(bytes).await?;
    let permit = report.try_reserve()?;
    match report.send(permit).await?.settled().await? {
        Settled::Failed(error) => Err(error),
        settled => Ok(settled),
    }
}

/// Removes objects. The change takes its turn in the queue of the fleet.
pub(super) async fn remove(
    context: &ServiceContext,
    call: &Call,
    request: RemoveRequest,
) -> Result<RemoveResponse, ServiceError> {
    let fleet = context.fleet(call, "fleet", &request.fleet)?;
    remove_from(&fleet, call, request).await
}

/// As [`remove`], from a fleet that the caller may use.
pub(super) async fn remove_from(
    fleet: &Arc<Fleet>,
    call: &Call,
    request: RemoveRequest,
) -> Result<RemoveResponse, ServiceError> {
    let RemoveRequest { mut objects, producer, batch_seq, mut names, .. } = request;
    check_numbered(&producer, batch_seq)?;
    // As in `Get`, repeated ids and names count once.
    names.sort_unstable();
    names.dedup();
    let sent = objects.len() + names.len();
    add_named(fleet, &mut objects, &names)?;
    let unknown = (sent - objects.len()) as u64;
    let batch = BatchId { producer: producer.into(), batch_seq };
    let batch = Some(batch).filter(|batch| !batch.producer.is_empty());
    objects.sort_unstable();
    objects.dedup();
    let durability = fleet.accept(None)?;
    // Names that the fleet does not know count too, because they were searched; an empty message
    // counts as one.
    call.take(MeteredQuota::Rows, (objects.len() as u64 + unknown).max(1))?;
    let permit = fleet.try_reserve(call.client(), objects.len())?;
    let change = fleet.change(permit, EngineRequest::Remove(objects), batch);
    let (epoch, outcome) = match change.await? {
        ChangeReply::Settled { epoch, outcome, .. } => (epoch, Some(outcome)),
        ChangeReply::Duplicate { epoch } => (epoch, None),
        ChangeReply::Refused(error) => return Err(error),
    };
    fleet.survives(durability, epoch).await?;
    let term = fleet.term();
    let token = Token::new(term, epoch).to_bytes();
    let duplicate = outcome.is_none();
    let (removed_count, missing_count) =
        outcome.map_or((0, 0), |outcome| (outcome.removed, outcome.missing + unknown));
    Ok(RemoveResponse { removed_count, missing_count, epoch, token, duplicate, term })
}

/// Refuses a field that is too long.
pub(super) fn at_most(
    field: &str,
    length: usize,
    unit: &str,
    limit: usize,
) -> Result<(), ServiceError> {
    if length <= limit {
        return Ok(());
    }
    Err(ServiceError::field(field, format!("{length} {unit} exceed the limit of {limit}")))
}
