//! Which fixes a query of the history takes: those in a region that meet conditions.
//!
//! Either may be absent. No condition depends on a clock.

use shoal_codec::FixColumns;
use shoal_engine::{Filter, QuantaRect, Region, Space};
use shoal_history::{RowFilter, Zone};
use shoal_proto::v1;

use super::filter::filter;
use super::region::region;
use crate::error::ServiceError;

/// See the file's head.
#[derive(Clone)]
pub(super) struct PastFilter {
    region: Option<Region>,
    conditions: Option<Box<Filter>>,
}

impl PastFilter {
    /// The conditions and the region of a request.
    ///
    /// # Errors
    /// [`ServiceError::Field`] in `region` or `filter`.
    pub(super) fn new(
        space: &Space,
        conditions: Option<&v1::Filter>,
        sent: Option<&v1::Region>,
    ) -> Result<Self, ServiceError> {
        let region = sent.map(|sent| region(space, Some(sent))).transpose();
        let region = region.map_err(|error| error.under("region"))?;
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
            && self.conditions.as_ref().is_none_or(|filter| filter.passes(&rows.row(row), 0))
    }
}
