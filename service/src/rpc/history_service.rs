//! `HistoryService`: requests become queries of one version of the history. `history_answer` runs
//! them; `history_replay` runs replays at a given speed.

use std::collections::HashSet;
use std::ops::Range;

use shoal_engine::Space;
use shoal_history::{
    AsOf, AsOfQuery, Density, DensityCell, DensityGrid, Objects, Replay, Scan, Trajectory,
};
use shoal_proto::v1;
use shoal_proto::v1::history_service_server::HistoryService;
use tonic::{Request, Response, Status};

use super::chunk_stream::{Chunk, ChunkStream, RowStream};
use super::deadline::Deadline;
use super::history_answer::{PastQuery, PastRows, fixes, query_step};
use super::history_replay::{PacedReplay, speed_of};
use super::object_names::add_named;
use super::past_filter::PastFilter;
use super::position_service::remove_from;
use super::service_context::ServiceContext;
use crate::access::Call;
use crate::cycle::Durability;
use crate::duration::millis;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::{HISTORY_REPLAY_ROWS_MAX, HISTORY_ROWS_MAX};

#[tonic::async_trait]
impl HistoryService for ServiceContext {
    type TrajectoryStream = RowStream<v1::TrajectoryResponse>;
    type PassedStream = RowStream<v1::PassedResponse>;
    type AsOfStream = RowStream<v1::AsOfResponse>;
    type ReplayStream = RowStream<v1::ReplayResponse>;
    type DensityStream = ChunkStream<v1::DensityResponse>;

    async fn trajectory(
        &self,
        request: Request<v1::TrajectoryRequest>,
    ) -> Result<Response<Self::TrajectoryStream>, Status> {
        let (deadline, call) = (Deadline::of(request.metadata()), Call::of(request.extensions())?);
        let (v1::TrajectoryRequest { fleet, mut objects, names, window, every }, _charge) =
            self.message(request).await?;
        let query = PastQuery::new(self, &call, &fleet)?;
        add_named(query.fleet(), &mut objects, &names)?;
        let mut known = HashSet::new();
        objects.retain(|object| known.insert(*object));
        let window_ms = window_of(window)?;
        let mut query = query.within(window_ms);
        let every_ms = millis("every", every.as_ref())?.unwrap_or_default();
        let budget = query.budget(Trajectory::ROW_BYTES, HISTORY_ROWS_MAX);
        let version = query.version().clone();
        let mut track = Trajectory::new(version, &objects, window_ms, every_ms, budget);
        let steps = vec![query_step(move |rows: &mut _| track.next(rows))];
        Ok(query.answer_rows(self, steps, fixes, deadline)?)
    }

    async fn passed(
        &self,
        request: Request<v1::PassedRequest>,
    ) -> Result<Response<Self::PassedStream>, Status> {
        let (deadline, call) = (Deadline::of(request.metadata()), Call::of(request.extensions())?);
        let (v1::PassedRequest { fleet, filter, region, window, projection }, _charge) =
            self.message(request).await?;
        let query = PastQuery::new(self, &call, &fleet)?;
        let region = Some(region.unwrap_or_default());
        let filter = PastFilter::new(query.fleet(), filter.as_ref(), region.as_ref())?;
        let window_ms = window_of(window)?;
        let mut query = query.within(window_ms);
        let projection = v1::Projection::try_from(projection);
        let rows_max = if projection == Ok(v1::Projection::Fixes) { 1 } else { HISTORY_ROWS_MAX };
        let budget = query.budget(Objects::<PastFilter>::ROW_BYTES, rows_max);
        let scan = Scan::new(query.version().clone(), window_ms, filter, budget);
        let parts = query.parts(self, scan.blocks());
        let answer = match projection {
            Ok(v1::Projection::Fixes) => {
                let parts = scan.split(parts).into_iter();
                let steps = parts.map(|mut part| query_step(move |rows: &mut _| part.next(rows)));
                query.answer_rows(self, steps.collect(), fixes, deadline)
            }
            Ok(v1::Projection::Unspecified | v1::Projection::Ids) => {
                let parts = Objects::split(scan, parts).into_iter();
                let steps =
                    parts.map(|mut part| query_step(move |objects: &mut _| part.next(objects)));
                let ids = |fleet: &Fleet, header, found: &Vec<u64>, range: Range<usize>| {
                    PastRows::new(fleet, header, found[range].to_vec(), Vec::new())
                };
                query.answer_rows(self, steps.collect(), ids, deadline)
            }
            Ok(v1::Projection::Count) | Err(_) => {
                let problem = "must be PROJECTION_IDS or PROJECTION_FIXES";
                return Err(ServiceError::field("projection", problem).into());
            }
        };
        Ok(answer?)
    }

    async fn as_of(
        &self,
        request: Request<v1::AsOfRequest>,
    ) -> Result<Response<Self::AsOfStream>, Status> {
        let (deadline, call) = (Deadline::of(request.metadata()), Call::of(request.extensions())?);
        let (v1::AsOfRequest { fleet, filter, time_ms, region, mut objects, names }, _charge) =
            self.message(request).await?;
        let query = PastQuery::new(self, &call, &fleet)?;
        let is_of_all = objects.is_empty() && names.is_empty();
        add_named(query.fleet(), &mut objects, &names)?;
        let filter = PastFilter::new(query.fleet(), filter.as_ref(), region.as_ref())?;
        let objects = Some(objects).filter(|_| !is_of_all);
        let ttl_ms = query.fleet().options().ttl_ms;
        let oldest_ms = ttl_ms.map_or(i64::MIN, |ttl_ms| time_ms.saturating_sub(ttl_ms));
        let mut query = query.within((oldest_ms, time_ms));
        let rows_max = objects.as_ref().map_or(HISTORY_ROWS_MAX, Vec::len);
        let budget = query.budget(AsOf::<PastFilter>::ROW_BYTES, rows_max);
        let threads = query.threads(self, rows_max);
        let (version, moment) = (query.version().clone(), AsOfQuery { time_ms, ttl_ms, objects });
        let mut states = AsOf::new(version, moment, filter, budget).on_threads(threads);
        let steps = vec![query_step(move |rows: &mut _| states.next(rows))];
        Ok(query.answer_rows(self, steps, fixes, deadline)?)
    }

    async fn replay(
        &self,
        request: Request<v1::ReplayRequest>,
    ) -> Result<Response<Self::ReplayStream>, Status> {
        let (deadline, call) = (Deadline::of(request.metadata()), Call::of(request.extensions())?);
        let (v1::ReplayRequest { fleet, filter, region, window, speed }, _charge) =
            self.message(request).await?;
        let query = PastQuery::new(self, &call, &fleet)?;
        let filter = PastFilter::new(query.fleet(), filter.as_ref(), region.as_ref())?;
        let window_ms = window_of(window)?;
        if let Some(speed) = speed_of(speed)? {
            let replay = PacedReplay { checked: query.checked(), filter, window_ms, speed };
            return Ok(replay.answer(self, deadline)?);
        }
        let mut query = query.within(window_ms);
        let version = query.version().clone();
        let rows_max = version.rows_of_fullest(window_ms).min(HISTORY_REPLAY_ROWS_MAX);
        let budget = query.budget(Replay::<PastFilter>::ROW_BYTES, rows_max);
        let mut replay = Replay::new(version, window_ms, filter, budget);
        let steps = vec![query_step(move |rows: &mut _| replay.next(rows))];
        Ok(query.answer_rows(self, steps, fixes, deadline)?)
    }

    async fn density(
        &self,
        request: Request<v1::DensityRequest>,
    ) -> Result<Response<Self::DensityStream>, Status> {
        let (deadline, call) = (Deadline::of(request.metadata()), Call::of(request.extensions())?);
        let (v1::DensityRequest { fleet, filter, region, window, cell, step }, _charge) =
            self.message(request).await?;
        let query = PastQuery::new(self, &call, &fleet)?;
        let space = query.fleet().space();
        let filter = PastFilter::new(query.fleet(), filter.as_ref(), region.as_ref())?;
        let cell_quanta = side(space, cell)?;
        // The last square may end beyond the space.
        let side = space.to_api(cell_quanta as i32, 0).0;
        let step_ms = millis("step", step.as_ref())?;
        if step_ms.is_some_and(|step_ms| step_ms <= 0) {
            return Err(ServiceError::field("step", "must be above 0").into());
        }
        let window_ms = window_of(window)?;
        let mut query = query.within(window_ms);
        let budget = query.budget(Density::<PastFilter>::ROW_BYTES, HISTORY_ROWS_MAX);
        let scan = Scan::new(query.version().clone(), window_ms, filter, budget);
        let grid = DensityGrid { cell_quanta, step_ms };
        let parts = query.parts(self, scan.blocks());
        let parts = Density::split(scan, grid, parts).map_err(ServiceError::from)?.into_iter();
        let steps = parts.map(|mut part| query_step(move |cells: &mut _| part.next(cells)));
        let chunk = move |_: &Fleet, header, cells: &Vec<DensityCell>, range| {
            Chunk::of(&call, squares(side, header, &cells[range]), |squares| squares)
        };
        Ok(query.answer(self, steps.collect(), chunk, deadline)?)
    }

    async fn erase(
        &self,
        request: Request<v1::EraseRequest>,
    ) -> Result<Response<v1::EraseResponse>, Status> {
        let (context, call) = (self.clone(), Call::of(request.extensions())?);
        let (request, _charge) = self.message(request).await?;
        // The task completes even if the client disconnects.
        let erased = tokio::spawn(async move { erase(&context, &call, request).await });
        Ok(Response::new(erased.await.unwrap_or(Err(ServiceError::ShuttingDown.into()))?))
    }
}

/// Removes objects from the fleet durably, and begins to erase them from the history.
async fn erase(
    context: &ServiceContext,
    call: &Call,
    request: v1::EraseRequest,
) -> Result<v1::EraseResponse, Status> {
    let v1::EraseRequest { fleet, mut objects, names } = request;
    let query = PastQuery::new(context, call, &fleet)?;
    if objects.is_empty() && names.is_empty() {
        return Err(ServiceError::field("objects", "none is given").into());
    }
    add_named(query.fleet(), &mut objects, &names)?;
    objects.sort_unstable();
    objects.dedup();
    let room = query.fleet().reserve_erasure(objects.len())?;
    let remove = v1::RemoveRequest { objects: objects.clone(), ..Default::default() };
    let removed = remove_from(query.fleet(), call, remove).await?;
    let v1::RemoveResponse { removed_count, epoch, term, .. } = removed;
    query.fleet().survives(Durability::Logged, epoch).await?;
    if !objects.is_empty() {
        room.erase(objects).await.map_err(ServiceError::from)?;
    }
    Ok(v1::EraseResponse { removed_count, epoch, term })
}

/// Returns the first and the last time of a window, Unix milliseconds.
fn window_of(sent: Option<v1::TimeWindow>) -> Result<(i64, i64), ServiceError> {
    let Some(v1::TimeWindow { from_ms, to_ms }) = sent else {
        return Err(ServiceError::field("window", "it is required"));
    };
    if from_ms > to_ms {
        let problem = format!("from_ms {from_ms} must not exceed to_ms {to_ms}");
        return Err(ServiceError::field("window", problem));
    }
    Ok((from_ms, to_ms))
}

/// Converts the side of a square to quanta.
fn side(space: &Space, cell: f64) -> Result<u32, ServiceError> {
    let quanta = (cell / space.quantum()).round();
    if (1.0..=f64::from(i32::MAX)).contains(&quanta) {
        return Ok(quanta as u32);
    }
    let (least, unit) = (space.quantum(), if space.is_geographic() { "degrees" } else { "metres" });
    let problem = format!("{cell} {unit}: must be {least} to {}", least * f64::from(i32::MAX));
    Err(ServiceError::field("cell", problem))
}

/// Creates a message with squares.
fn squares(
    side: f64,
    header: Option<v1::HistoryHeader>,
    cells: &[DensityCell],
) -> v1::DensityResponse {
    v1::DensityResponse {
        cell: if header.is_some() { side } else { 0.0 },
        header,
        time_ms: cells.iter().map(|cell| cell.time_ms).collect(),
        columns: cells.iter().map(|cell| cell.column).collect(),
        rows: cells.iter().map(|cell| cell.row).collect(),
        fixes: cells.iter().map(|cell| cell.fixes).collect(),
    }
}
