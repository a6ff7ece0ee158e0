//! What do the options of a request ask for, and what may each query bring?
//!
//! Turns the parts of the wire that all queries share into the engine's words: fleet, token,
//! filter, projection, limit. Errors name the field.

use std::sync::Arc;

use shoal_engine::limits::{GET_OBJECTS_MAX, NEAREST_MAX};
use shoal_engine::{Filter, Projection, Query, QueryKind};
use shoal_proto::v1;

use super::door::Door;
use super::filter::filter;
use super::region::region;
use super::remove::at_most;
use crate::error::ServiceError;
use crate::fleet::Fleet;

/// The options of one request, understood.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) fleet: Arc<Fleet>,
    pub(super) epoch_min: u64,
    filter: Option<Box<Filter>>,
    pub(super) projection: Projection,
    limit: Option<u64>,
}

impl Asking {
    /// Understands the options of a request; none are the defaults.
    ///
    /// # Errors
    /// [`ServiceError::Field`], [`ServiceError::FleetUnknown`], [`ServiceError::Token`], ...
    pub(super) fn new(
        door: &Door,
        options: Option<v1::QueryOptions>,
    ) -> Result<Self, ServiceError> {
        Self::with_options_at(door, &options.unwrap_or_default(), "options")
    }

    /// Understands options whose fields are at a path of the request.
    ///
    /// # Errors
    /// As [`Asking::new`].
    pub(super) fn with_options_at(
        door: &Door,
        options: &v1::QueryOptions,
        path: &str,
    ) -> Result<Self, ServiceError> {
        let fleet_path = if path.is_empty() { "fleet" } else { "options.fleet" };
        let fleet = door.registry.find_requested(fleet_path, &options.fleet)?;
        let epoch_min = fleet.epoch_min(&options.min_token)?;
        let projection = match v1::Projection::try_from(options.projection) {
            Ok(v1::Projection::Unspecified | v1::Projection::Ids) => Projection::Ids,
            Ok(v1::Projection::Fixes) => Projection::Fixes,
            Ok(v1::Projection::Count) => Projection::Count,
            Err(_) => {
                let problem = format!("unknown projection: {}", options.projection);
                return Err(ServiceError::field("projection", problem).under(path));
            }
        };
        let filter =
            filter(options.filter.as_ref()).map_err(|error| error.under("filter").under(path))?;
        let filter = Filter { object_after: options.after_object, ..filter }.boxed();
        let limit = Some(options.limit).filter(|&limit| limit > 0);
        Ok(Self { fleet, epoch_min, filter, projection, limit })
    }

    fn query(&self, kind: QueryKind) -> Query {
        Query { kind, filter: self.filter.clone(), projection: self.projection, limit: self.limit }
    }

    /// These objects.
    ///
    /// # Errors
    /// [`ServiceError::Field`] for too many.
    pub(super) fn get(&self, objects: Vec<u64>) -> Result<Query, ServiceError> {
        at_most("objects", objects.len(), "ids", GET_OBJECTS_MAX)?;
        Ok(self.query(QueryKind::Get(objects)))
    }

    /// Everything in a region, which is at a path of the request.
    ///
    /// # Errors
    /// [`ServiceError::Field`].
    pub(super) fn range_at(
        &self,
        path: &str,
        sent: Option<&v1::Region>,
    ) -> Result<Query, ServiceError> {
        let region = region(self.fleet.space(), sent).map_err(|error| error.under(path))?;
        Ok(self.query(QueryKind::Range(region)))
    }

    /// Confirms that the options are fit for nearest queries.
    ///
    /// # Errors
    /// [`ServiceError::Field`].
    pub(super) fn check_nearest(&self) -> Result<(), ServiceError> {
        if self.filter.as_ref().is_some_and(|filter| filter.object_after.is_some()) {
            let problem = "is set: nearest objects are in order of distance, not of object";
            return Err(ServiceError::field("options.after_object", problem));
        }
        Ok(())
    }

    /// The `k` nearest to a point of the space.
    ///
    /// # Errors
    /// [`ServiceError::Field`].
    pub(super) fn nearest(&self, sent: v1::NearestQuery) -> Result<Query, ServiceError> {
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
        Ok(self.query(QueryKind::Nearest { x, y, k, rank_max }))
    }
}
