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
    /// Understands the options; none are the defaults.
    ///
    /// # Errors
    /// [`ServiceError::Field`], [`ServiceError::FleetUnknown`], [`ServiceError::Token`], ...
    pub(super) fn new(
        door: &Door,
        options: Option<v1::QueryOptions>,
    ) -> Result<Self, ServiceError> {
        let options = options.unwrap_or_default();
        let fleet = door.registry.find_requested(&options.fleet)?;
        let epoch_min = fleet.epoch_min(&options.min_token)?;
        let projection = match v1::Projection::try_from(options.projection) {
            Ok(v1::Projection::Unspecified | v1::Projection::Ids) => Projection::Ids,
            Ok(v1::Projection::Fixes) => Projection::Fixes,
            Ok(v1::Projection::Count) => Projection::Count,
            Err(_) => {
                let problem = format!("is {}, which is none", options.projection);
                return Err(ServiceError::field("options.projection", problem));
            }
        };
        let filter = filter(options.filter.as_ref()).map_err(|error| error.under("options"))?;
        let filter = filter.boxed();
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

    /// Everything in a region.
    ///
    /// # Errors
    /// [`ServiceError::Field`].
    pub(super) fn range(&self, sent: Option<&v1::Region>) -> Result<Query, ServiceError> {
        Ok(self.query(QueryKind::Range(region(self.fleet.space(), sent)?)))
    }

    /// The `k` nearest to a point of the space.
    ///
    /// # Errors
    /// [`ServiceError::Field`].
    pub(super) fn nearest(&self, x: f64, y: f64, k: u32) -> Result<Query, ServiceError> {
        if k as usize > NEAREST_MAX {
            let problem = format!("is {k}, the limit is {NEAREST_MAX}");
            return Err(ServiceError::field("k", problem));
        }
        let space = self.fleet.space();
        let (x, y) = space.quantise(x, y).map_err(|_| {
            let problem = format!("({x}, {y}) is not a point of the fleet's space, {space}");
            ServiceError::field("x,y", problem)
        })?;
        Ok(self.query(QueryKind::nearest(x, y, k)))
    }
}
