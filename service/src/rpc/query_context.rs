//! Converts the options and the queries of a request to the engine's types.
//!
//! The context has what all queries of a request share: fleet, token, filter, projection, limit.
//! Errors name the field.

use std::sync::Arc;

use shoal_engine::limits::NEAREST_MAX;
use shoal_engine::{Filter, Projection, Query, QueryKind, Region, RowLimit, Space};
use shoal_proto::v1;

use super::deadline::Deadline;
use super::filter::filter;
use super::name_filter::NameFilter;
use super::object_names::add_named;
use super::region::region;
use super::service_context::ServiceContext;
use crate::access::Call;
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::shares::Requester;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct QueryContext {
    pub(super) call: Call,
    pub(super) client: Requester,
    pub(super) fleet: Arc<Fleet>,
    /// The name under which the request has the fleet; a rename may hide a new one from the caller.
    pub(super) name: FleetName,
    pub(super) epoch_min: u64,
    filter: Option<Box<Filter>>,
    /// The part of the filter that the engine does not know.
    pub(super) names: Option<NameFilter>,
    projection: Projection,
    limit: Option<RowLimit>,
}

/// The region of a whole space.
fn everywhere(space: &Space) -> Result<Region, ServiceError> {
    let bounds = space.bounds();
    let (west, south) = space.to_api(bounds.x_min, bounds.y_min);
    let (east, north) = space.to_api(bounds.x_max, bounds.y_max);
    let region = Region::rectangle(space, west, south, east, north);
    region.map_err(|error| ServiceError::geometry("", &error))
}

impl QueryContext {
    /// Converts options that are at the path `path` of a request.
    ///
    /// # Errors
    /// [`ServiceError::Field`], [`ServiceError::FleetName`], [`ServiceError::FleetUnknown`],
    /// [`ServiceError::Token`], [`ServiceError::TokenTerm`].
    pub(super) fn new(
        context: &ServiceContext,
        call: Call,
        options: &v1::QueryOptions,
        path: &str,
    ) -> Result<Self, ServiceError> {
        let convert = || {
            let name = FleetName::of_request("fleet", &options.fleet)?;
            let fleet = context.named_fleet(&call, &name)?;
            let epoch_min = fleet.epoch_min(&options.min_token)?;
            let projection = match v1::Projection::try_from(options.projection) {
                Ok(v1::Projection::Unspecified | v1::Projection::Ids) => Projection::Ids,
                Ok(v1::Projection::Fixes) => Projection::Fixes,
                Ok(v1::Projection::Count) => Projection::Count,
                Err(_) => {
                    let problem = format!("unknown projection: {}", options.projection);
                    return Err(ServiceError::field("projection", problem));
                }
            };
            let filter = filter(options.filter.as_ref()).map_err(|error| error.under("filter"))?;
            let names = NameFilter::new(&fleet, options.filter.as_ref());
            let names = names.map_err(|error| error.under("filter"))?;
            let filter = Filter { object_after: options.after_object, ..filter }.boxed();
            let limit = Some(options.limit).filter(|&limit| limit > 0).map(RowLimit::First);
            let client = call.client();
            Ok(Self { call, client, fleet, name, epoch_min, filter, names, projection, limit })
        };
        convert().map_err(|error: ServiceError| error.under(path))
    }

    fn query(&self, kind: QueryKind) -> Query {
        Query { kind, filter: self.filter.clone(), projection: self.projection, limit: self.limit }
    }

    /// On a follower, waits until the epoch of the token is applied, if [`QueryContext::get`] looks
    /// names up. Before that, names that the token covers may be unknown.
    ///
    /// # Errors
    /// [`ServiceError::FollowerBehind`], [`ServiceError::Deadline`].
    pub(super) async fn reach_names(
        &self,
        names: &[String],
        deadline: Deadline,
    ) -> Result<(), ServiceError> {
        if names.is_empty() && self.names.is_none() {
            return Ok(());
        }
        deadline.bound(self.fleet.wait_for_epoch(self.epoch_min)).await
    }

    /// A query for the objects with these ids and for those with these names; with neither, but
    /// with a pattern of names, for all objects that match it. The caller awaits
    /// [`QueryContext::reach_names`] before.
    ///
    /// # Errors
    /// [`ServiceError::Field`] for too many objects, and for names in a numeric fleet.
    pub(super) fn get(
        &self,
        mut objects: Vec<u64>,
        names: &[String],
    ) -> Result<Query, ServiceError> {
        if let Some(filter) = &self.names {
            if objects.is_empty() && names.is_empty() {
                return Ok(self.query(QueryKind::Range(everywhere(self.fleet.space())?)));
            }
            add_named(&self.fleet, &mut objects, names)?;
            filter.retain(&mut objects);
        } else {
            add_named(&self.fleet, &mut objects, names)?;
        }
        Ok(self.query(QueryKind::Get(objects)))
    }

    /// A query for all objects in a region, which is at `path` of the request.
    ///
    /// # Errors
    /// [`ServiceError::Field`].
    pub(super) fn range(
        &self,
        path: &str,
        sent: Option<&v1::Region>,
    ) -> Result<Query, ServiceError> {
        let region = region(self.fleet.space(), sent).map_err(|error| error.under(path))?;
        Ok(self.query(QueryKind::Range(region)))
    }

    /// A query for the `k` objects nearest to a point, which is at `path` of the request.
    ///
    /// # Errors
    /// [`ServiceError::Field`].
    pub(super) fn nearest(
        &self,
        path: &str,
        sent: v1::NearestQuery,
    ) -> Result<Query, ServiceError> {
        if self.filter.as_ref().is_some_and(|filter| filter.object_after.is_some()) {
            let problem = "is set: nearest objects are in order of distance, not of object";
            return Err(ServiceError::field("options.after_object", problem));
        }
        let kind = self.nearest_kind(sent).map_err(|error| error.under(path))?;
        Ok(self.query(kind))
    }

    fn nearest_kind(&self, sent: v1::NearestQuery) -> Result<QueryKind, ServiceError> {
        let v1::NearestQuery { x, y, k, distance_max_m } = sent;
        if !(1..=NEAREST_MAX).contains(&(k as usize)) {
            let problem = format!("{k} is outside 1 to {NEAREST_MAX}");
            return Err(ServiceError::field("k", problem));
        }
        let space = self.fleet.space();
        let (x, y) = space.point(x, y).map_err(|error| ServiceError::geometry("", &error))?;
        let rank_max = match distance_max_m {
            None => u64::MAX,
            Some(distance_m) if distance_m >= 0.0 => space.rank_within(distance_m),
            Some(distance_m) => {
                let problem = format!("{distance_m} m must be 0 or greater");
                return Err(ServiceError::field("distance_max_m", problem));
            }
        };
        Ok(QueryKind::Nearest { x, y, k, rank_max })
    }
}
