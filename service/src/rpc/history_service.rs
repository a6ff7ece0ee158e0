//! `HistoryService`: Trajectory, Passed and AsOf. Requests become queries of one version of the
//! history; `history_answer` runs them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_engine::{Filter, QuantaRect, Region};
use shoal_history::{AsOf, AsOfQuery, HistoryError, RowFilter, Scan, Trajectory, Zone};
use shoal_proto::v1;
use shoal_proto::v1::history_service_server::HistoryService;
use tonic::{Request, Response, Status};

use super::chunk_stream::ChunkStream;
use super::deadline::Deadline;
use super::duration::millis;
use super::filter::filter;
use super::history_answer::{PastQuery, Step};
use super::position_service::at_most;
use super::region::region;
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::HISTORY_ROWS_MAX;

#[tonic::async_trait]
impl HistoryService for ServiceContext {
    type TrajectoryStream = ChunkStream<v1::TrajectoryResponse>;
    type PassedStream = ChunkStream<v1::PassedResponse>;
    type AsOfStream = ChunkStream<v1::AsOfResponse>;

    async fn trajectory(
        &self,
        request: Request<v1::TrajectoryRequest>,
    ) -> Result<Response<Self::TrajectoryStream>, Status> {
        let deadline = Deadline::of(request.metadata());
        let v1::TrajectoryRequest { fleet, mut objects, window, every } = request.into_inner();
        let query = PastQuery::new(self, &fleet)?;
        at_most("objects", objects.len(), "ids", GET_OBJECTS_MAX)?;
        let mut known = HashSet::new();
        objects.retain(|object| known.insert(*object));
        let window_ms = window_of(window)?;
        let every_ms = millis("every", every.as_ref())?.unwrap_or_default();
        let (version, budget) = (query.version().clone(), query.budget());
        let mut fixes = Trajectory::new(version, &objects, window_ms, every_ms, budget);
        Ok(query.answer(self, Box::new(move |rows| fixes.next(rows)), deadline)?)
    }

    async fn passed(
        &self,
        request: Request<v1::PassedRequest>,
    ) -> Result<Response<Self::PassedStream>, Status> {
        let deadline = Deadline::of(request.metadata());
        let v1::PassedRequest { fleet, filter, region, window, projection } = request.into_inner();
        let mut query = PastQuery::new(self, &fleet)?;
        let filter = PastFilter::new(query.fleet(), filter.as_ref(), region.as_ref(), true)?;
        let window_ms = window_of(window)?;
        let mut scan = Scan::new(query.version().clone(), window_ms, filter, query.budget());
        let step: Step = match v1::Projection::try_from(projection) {
            Ok(v1::Projection::Fixes) => Box::new(move |rows| scan.next(rows)),
            Ok(v1::Projection::Unspecified | v1::Projection::Ids) => {
                query.returns_ids();
                ids(scan)
            }
            Ok(v1::Projection::Count) | Err(_) => {
                let problem = "must be PROJECTION_IDS or PROJECTION_FIXES";
                return Err(ServiceError::field("projection", problem).into());
            }
        };
        Ok(query.answer(self, step, deadline)?)
    }

    async fn as_of(
        &self,
        request: Request<v1::AsOfRequest>,
    ) -> Result<Response<Self::AsOfStream>, Status> {
        let deadline = Deadline::of(request.metadata());
        let v1::AsOfRequest { fleet, filter, time_ms, region, objects } = request.into_inner();
        let query = PastQuery::new(self, &fleet)?;
        at_most("objects", objects.len(), "ids", GET_OBJECTS_MAX)?;
        let filter = PastFilter::new(query.fleet(), filter.as_ref(), region.as_ref(), false)?;
        let objects = Some(objects).filter(|objects| !objects.is_empty());
        let ttl_ms = query.fleet().options().ttl_ms;
        let (version, moment) = (query.version().clone(), AsOfQuery { time_ms, ttl_ms, objects });
        let mut states = AsOf::new(version, moment, filter, query.budget());
        Ok(query.answer(self, Box::new(move |rows| states.next(rows)), deadline)?)
    }
}

/// First and last time.
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

/// The objects of a scan, ascending, as rows without meaning but for the object: all at the end.
fn ids(mut scan: Scan<PastFilter>) -> Step {
    let mut objects = BTreeSet::new();
    Box::new(move |rows: &mut FixColumns| {
        let has_more = scan.next(rows)?;
        objects.extend(rows.object.iter().copied());
        rows.clear();
        if objects.len() > HISTORY_ROWS_MAX {
            return Err(HistoryError::Budget { unit: "objects", limit: HISTORY_ROWS_MAX as u64 });
        }
        if !has_more {
            objects.iter().for_each(|object| rows.push_row(FixRow::new(*object, 0, 0, 0)));
        }
        Ok(has_more)
    })
}

/// A region and conditions, of which each may be absent.
struct PastFilter {
    region: Option<Region>,
    conditions: Option<Box<Filter>>,
}

impl PastFilter {
    fn new(
        fleet: &Arc<Fleet>,
        conditions: Option<&v1::Filter>,
        sent: Option<&v1::Region>,
        is_required: bool,
    ) -> Result<Self, ServiceError> {
        let region = (is_required || sent.is_some()).then(|| region(fleet.space(), sent));
        let region = region.transpose().map_err(|error| error.under("region"))?;
        let conditions = filter(conditions).map_err(|error| error.under("filter"))?;
        if conditions.age_max_ms.is_some() {
            let problem = "is set: the past has no age; the time of the request bounds it";
            return Err(ServiceError::field("filter.age_max", problem));
        }
        Ok(Self { region, conditions: conditions.boxed() })
    }
}

impl RowFilter for PastFilter {
    fn may_match(&self, zone: &Zone) -> bool {
        let Zone { x, y, .. } = *zone;
        let rect = QuantaRect { x_min: x.0, y_min: y.0, x_max: x.1, y_max: y.1 };
        self.region.as_ref().is_none_or(|region| !region.misses(&rect))
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        self.region.as_ref().is_none_or(|region| region.contains(rows.x[row], rows.y[row]))
            // No condition depends on a clock.
            && self.conditions.as_ref().is_none_or(|filter| filter.passes(&rows.row(row), 0))
    }
}
