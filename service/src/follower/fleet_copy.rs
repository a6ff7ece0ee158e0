//! Copies a fleet into a new folder: first the leader's newest checkpoint, then its log up to the
//! last durable cycle.
//!
//! Until the copy is complete, the existing fleet answers queries and can be promoted.

use shoal_client::Transport;
use shoal_position_log::CheckpointImport;
use shoal_proto::v1;
use shoal_proto::v1::follow_response::Kind;
use shoal_proto::v1::log_service_client::LogServiceClient;
use tonic::Streaming;
use tracing::info;

use super::fleet_list::Problem;
use super::fleet_stream::CopiedFleet;
use super::group_assembly::GroupAssembly;
use super::leader_stream::LeaderStream;
use crate::error::ServiceError;
use crate::fleet::Registry;
use crate::persistence::{FleetFolder, LogCopy};

/// Copies a fleet; returns the folder of the complete copy. When the copy is installed, the
/// existing folder is renamed with the suffix `aside`, or removed if that is `None`.
pub(super) async fn fetch(
    registry: &Registry,
    service: &mut LogServiceClient<Transport>,
    copied: &CopiedFleet,
    follower: &str,
    aside: Option<String>,
) -> Result<FleetFolder, Problem> {
    let CopiedFleet { name, spec, id, .. } = copied.clone();
    let limits = registry.limits().clone();
    let failed = |error: ServiceError| error.to_string();
    let begun = registry.begin_copy(name, spec, id, aside).await;
    let folder = begun.map_err(failed)?;
    let request = v1::FetchCheckpointRequest {
        fleet: copied.name.as_str().to_owned(),
        fleet_id: id.to_be_bytes().to_vec(),
        follower: follower.to_owned(),
    };
    let parts =
        service.fetch_checkpoint(request).await.map_err(|status| message(&status))?.into_inner();
    import(registry, folder.clone(), parts).await?;
    let of_copy = folder.clone();
    let opened = registry.copy_on_disk(move || LogCopy::open(&of_copy, &limits));
    let mut copy = opened.await.map_err(failed)?;
    let (term, epoch) = copy.end();
    let start = v1::FollowStart {
        fleet: copied.name.as_str().to_owned(),
        fleet_id: id.to_be_bytes().to_vec(),
        term,
        epoch,
        follower: follower.to_owned(),
        copying: true,
    };
    let mut stream = LeaderStream::open(service, start).await?;
    let mut group = GroupAssembly::default();
    loop {
        match stream.next().await? {
            Kind::Verdict(verdict) => match verdict.state() {
                v1::FollowState::Continues => {}
                state => return Err(format!("the leader's log does not continue: {state:?}")),
            },
            Kind::Group(part) => {
                let cycles = group.add(&part, copy.end().1)?;
                let records: Vec<_> = cycles.into_iter().map(|cycle| cycle.encoded).collect();
                if !records.is_empty() {
                    // The cycles are not acknowledged, because a crash before the copy is installed
                    // removes the copy.
                    let appended =
                        registry.copy_on_disk(move || copy.append(&records).map(|()| copy));
                    copy = appended.await.map_err(failed)?;
                }
            }
            Kind::Term(v1::TermStart { term, epoch }) => {
                let begun =
                    registry.copy_on_disk(move || copy.begin_term(term, epoch).map(|()| copy));
                copy = begun.await.map_err(failed)?;
            }
            // The leader sends this message after all cycles up to its epoch.
            Kind::Progress(v1::FollowProgress { durable_epoch, .. }) => {
                registry.copy_on_disk(move || copy.close()).await.map_err(failed)?;
                info!(fleet = %copied.name, epoch = durable_epoch, "a copy is complete");
                return Ok(folder);
            }
        }
    }
}

fn message(status: &tonic::Status) -> Problem {
    status.message().to_owned()
}

/// Writes a checkpoint that arrives in parts.
async fn import(
    registry: &Registry,
    folder: FleetFolder,
    mut parts: Streaming<v1::FetchCheckpointResponse>,
) -> Result<(), Problem> {
    let (mut import, reserve_bytes) = (None, registry.limits().log_reserve_bytes);
    let failed = |error: ServiceError| error.to_string();
    while let Some(part) = parts.message().await.map_err(|status| message(&status))? {
        let folder = folder.clone();
        let appended = registry.copy_on_disk(move || {
            let mut import = match import {
                Some(import) => import,
                None => {
                    let path = folder.checkpoint();
                    CheckpointImport::create(folder.storage, &path, reserve_bytes)?
                }
            };
            import.append(&part.data)?;
            Ok(import)
        });
        import = Some(appended.await.map_err(failed)?);
    }
    let Some(import) = import else { return Ok(()) };
    let finished = registry.copy_on_disk(move || Ok(import.finish(&folder.identity)?));
    let epoch = finished.await.map_err(failed)?;
    info!(epoch, "a checkpoint of the leader is copied");
    Ok(())
}
