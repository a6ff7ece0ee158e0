//! `LogService`: streams the logs of a leader to followers; promotes and fences servers.
//!
//! Only a leader describes and streams its logs: a follower of a follower would not learn of a
//! promotion.

use bytes::Bytes;
use shoal_position_log::{CheckpointExport, LogError};
use shoal_proto::v1;
use shoal_proto::v1::log_service_server::LogService;
use tonic::{Request, Response, Status, Streaming};

use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::follow::{Connection, FollowStream, check_name, follow};
use super::service_context::ServiceContext;
use crate::access::Call;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::follower::describe_log;
use crate::limits::FOLLOW_PART_BYTES;
use crate::persistence::{FleetFolder, NewTerm};

/// The parts of a checkpoint.
pub(super) type CheckpointStream = ChunkStream<v1::FetchCheckpointResponse>;

#[tonic::async_trait]
impl LogService for ServiceContext {
    type FetchCheckpointStream = CheckpointStream;
    type FollowStream = FollowStream;

    async fn describe_logs(
        &self,
        request: Request<v1::DescribeLogsRequest>,
    ) -> Result<Response<v1::DescribeLogsResponse>, Status> {
        let call = self.replication_call(&request)?;
        self.check_log_leader()?;
        let logs =
            self.administered(&call).iter().filter_map(|fleet| describe_log(fleet)).collect();
        let server_id = self.replication.server_id().await?;
        Ok(Response::new(v1::DescribeLogsResponse { logs, server_id }))
    }

    async fn fetch_checkpoint(
        &self,
        request: Request<v1::FetchCheckpointRequest>,
    ) -> Result<Response<CheckpointStream>, Status> {
        let call = self.replication_call(&request)?;
        let v1::FetchCheckpointRequest { fleet, fleet_id, follower } = request.into_inner();
        check_name("follower", &follower)?;
        let open = self.open_stream(&call)?;
        let (fleet, folder) = self.find_log(&call, &fleet, &fleet_id)?;
        let log = fleet.log().cloned().ok_or(ServiceError::NoLog)?;
        // Register before the checkpoint is opened, so that the log after it is kept.
        let held = (log.reading().needed_epoch, true);
        let connection = Connection::new(log, &follower, held, self.limits.followers_max)?;
        let context = self.clone();
        Ok(Response::new(ChunkStream::spawn(|sender| async move {
            let _open = open;
            tokio::select! {
                sent = send_checkpoint(folder, &sender) => sent,
                error = connection.replaced() => Ok(Err(error.into())),
                () = context.stopped() => Ok(Err(ServiceError::ShuttingDown.into())),
                error = fleet.clone().ended() => Ok(Err(error.into())),
            }
        })))
    }

    async fn follow(
        &self,
        request: Request<Streaming<v1::FollowRequest>>,
    ) -> Result<Response<FollowStream>, Status> {
        Ok(Response::new(follow(self, request).await?))
    }

    async fn promote(
        &self,
        request: Request<v1::PromoteRequest>,
    ) -> Result<Response<v1::PromoteResponse>, Status> {
        self.replication_call(&request)?.allowed(None);
        let (replication, force) = (self.replication.clone(), request.get_ref().force);
        // Runs to its end even if the caller leaves.
        let promoted = tokio::spawn(async move { replication.promote(force).await });
        let fleets = promoted.await.unwrap_or(Err(ServiceError::ShuttingDown))?;
        let message = |NewTerm { name, id, term, epoch }| v1::FleetTerm {
            fleet: name,
            fleet_id: id.to_be_bytes().to_vec(),
            term,
            epoch,
        };
        Ok(Response::new(v1::PromoteResponse { fleets: fleets.into_iter().map(message).collect() }))
    }

    async fn fence(
        &self,
        request: Request<v1::FenceRequest>,
    ) -> Result<Response<v1::FenceResponse>, Status> {
        self.replication_call(&request)?.allowed(None);
        self.check_ready()?;
        let replication = self.replication.clone();
        // The task completes even if the client disconnects: what is stored must take effect.
        let fenced = tokio::spawn(async move { replication.fence(request.into_inner()).await });
        Ok(Response::new(fenced.await.unwrap_or(Err(ServiceError::ShuttingDown))?))
    }

    async fn unfence(
        &self,
        request: Request<v1::UnfenceRequest>,
    ) -> Result<Response<v1::UnfenceResponse>, Status> {
        let call = self.replication_call(&request)?;
        let fleet = self.fleet(&call, "fleet", &request.get_ref().fleet)?;
        let replication = self.replication.clone();
        // Runs to its end even if the caller leaves.
        let unfenced = tokio::spawn(async move { replication.unfence(&fleet).await });
        unfenced.await.unwrap_or(Err(ServiceError::ShuttingDown))?;
        Ok(Response::new(v1::UnfenceResponse {}))
    }
}

impl ServiceContext {
    /// Returns the call of a request; fails if the request lacks the replication secret.
    pub(super) fn replication_call<T>(&self, request: &Request<T>) -> Result<Call, Status> {
        let call = Call::of(request.extensions())?;
        let secret = request.metadata().get("shoal-replication-secret");
        let secret = secret.and_then(|secret| secret.to_str().ok());
        self.replication.authorize(secret).map_err(|error| call.refused(None, error))?;
        Ok(call)
    }

    /// Finds the fleet with this name and identity, and its folder.
    pub(super) fn find_log(
        &self,
        call: &Call,
        name: &str,
        id: &[u8],
    ) -> Result<(std::sync::Arc<Fleet>, FleetFolder), ServiceError> {
        self.check_log_leader()?;
        let fleet = self.fleet(call, "fleet", name)?;
        let folder = fleet.folder().cloned().ok_or(ServiceError::NoLog)?;
        if folder.identity.id.to_be_bytes() != *id {
            return Err(ServiceError::FleetUnknown(name.to_owned()));
        }
        Ok((fleet, folder))
    }
}

/// Sends the newest checkpoint; sends nothing if there is none.
async fn send_checkpoint(
    folder: FleetFolder,
    sender: &ChunkSender<v1::FetchCheckpointResponse>,
) -> Result<Result<(), Status>, NotTaken> {
    let mut export = None;
    loop {
        let folder = folder.clone();
        // Reading blocks, so each part is read on a blocking thread.
        let read = tokio::task::spawn_blocking(move || {
            let open =
                || CheckpointExport::open(&folder.storage, &folder.checkpoint(), &folder.identity);
            let Some(mut export) = export.map_or_else(open, |export| Ok(Some(export)))? else {
                return Ok(None);
            };
            let part = export.next_part()?.map(Bytes::copy_from_slice);
            Ok::<_, LogError>(part.map(|part| (export, part)))
        });
        let (next, part) = match read.await {
            Ok(Ok(Some(read))) => read,
            Ok(Ok(None)) => return Ok(Ok(())),
            Ok(Err(error)) => return Ok(Err(ServiceError::from(error).into())),
            Err(_) => return Ok(Err(ServiceError::ShuttingDown.into())),
        };
        export = Some(next);
        let mut rest = part;
        while !rest.is_empty() {
            let data = rest.split_to(rest.len().min(FOLLOW_PART_BYTES));
            sender.send(v1::FetchCheckpointResponse { data }).await?;
        }
    }
}
