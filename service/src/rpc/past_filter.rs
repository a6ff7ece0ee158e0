//! Which fixes a query of the history takes: those in a region that meet conditions.
//!
//! Either may be absent. No condition depends on a clock.

use shoal_codec::{Column, ColumnSet, FixColumns, FixRow};
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
        self.region.as_ref().is_none_or(|region| !region.misses(&rect(zone)))
    }

    fn bounds(&self) -> Zone {
        let Some(region) = &self.region else { return Zone::EVERYTHING };
        let cover = region.cover();
        let parts = cover.as_slice().iter();
        let join = |all: Zone, part: &QuantaRect| Zone {
            x: (all.x.0.min(part.x_min), all.x.1.max(part.x_max)),
            y: (all.y.0.min(part.y_min), all.y.1.max(part.y_max)),
            ..all
        };
        let everything = Zone::EVERYTHING;
        parts.fold(Zone { x: Zone::EMPTY.x, y: Zone::EMPTY.y, ..everything }, join)
    }

    fn covers(&self, zone: &Zone) -> bool {
        let is_covered = |region: &Region| region.covers(&rect(zone));
        self.conditions.is_none() && self.region.as_ref().is_none_or(is_covered)
    }

    fn columns(&self) -> ColumnSet {
        let place = ColumnSet::NONE.with(Column::X).with(Column::Y);
        let region = if self.region.is_some() { place } else { ColumnSet::NONE };
        region.union(self.conditions.as_deref().map_or(ColumnSet::NONE, columns_of))
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        self.region.as_ref().is_none_or(|region| region.contains(rows.x[row], rows.y[row]))
            && self.conditions.as_ref().is_none_or(|filter| filter.passes(&rows.row(row), 0))
    }

    fn select(&self, rows: &FixColumns, flags: &mut [bool]) {
        if let Some(region) = &self.region {
            for ((flag, x), y) in flags.iter_mut().zip(&rows.x).zip(&rows.y) {
                *flag = *flag && region.contains(*x, *y);
            }
        }
        if let Some(filter) = &self.conditions {
            for (row, flag) in flags.iter_mut().enumerate().filter(|(_, flag)| **flag) {
                *flag = filter.passes(&decoded(rows, row), 0);
            }
        }
    }
}

macro_rules! conditions {
    ($($column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident
        $rest:tt;)+) => {
        /// The columns that conditions read.
        fn columns_of(filter: &Filter) -> ColumnSet {
            let conditions = [
                (Column::State, (filter.state_mask, filter.state_value) != (0, 0)),
                (Column::Object, filter.object_after.is_some()),
                $((Column::$column, filter.$field.is_some()),)+
            ];
            let read = conditions.into_iter().filter(|(_, is_read)| *is_read);
            read.fold(ColumnSet::NONE, |columns, (column, _)| columns.with(column))
        }

        /// A row of which only such columns may be decoded.
        fn decoded(rows: &FixColumns, row: usize) -> FixRow {
            let object = rows.object.get(row).copied().unwrap_or_default();
            let mut decoded = FixRow::new(object, 0, 0, 0);
            if let Some(state) = rows.state.as_ref().and_then(|states| states.get(row)) {
                decoded.state = *state;
            }
            $(if let Some(value) = rows.$field.as_ref().and_then(|values| values.get(row)) {
                decoded.$field = *value;
            })+
            decoded
        }
    };
}

shoal_codec::measures!(conditions);

fn rect(zone: &Zone) -> QuantaRect {
    let Zone { x, y, .. } = *zone;
    QuantaRect { x_min: x.0, y_min: y.0, x_max: x.1, y_max: y.1 }
}
