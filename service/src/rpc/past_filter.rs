//! Selects the fixes of a history query: those in a region that also meet conditions.
//!
//! The region and the conditions are optional. No condition depends on a clock.

use std::sync::Arc;

use shoal_codec::{Column, ColumnSet, FixColumns, MEASURES};
use shoal_engine::{Filter, QuantaRect, Region};
use shoal_history::{RowFilter, Zone};
use shoal_proto::v1;

use super::filter::filter;
use super::name_filter::NameFilter;
use super::region::region;
use crate::error::ServiceError;
use crate::fleet::Fleet;

/// See the file's head.
#[derive(Clone)]
pub(super) struct PastFilter {
    region: Option<Region>,
    conditions: Option<Box<Filter>>,
    names: Option<NameFilter>,
}

impl PastFilter {
    /// Converts the conditions and the region of a request.
    ///
    /// # Errors
    /// [`ServiceError::Field`] in `region` or `filter`.
    pub(super) fn new(
        fleet: &Arc<Fleet>,
        conditions: Option<&v1::Filter>,
        sent: Option<&v1::Region>,
    ) -> Result<Self, ServiceError> {
        let space = fleet.space();
        let names = NameFilter::new(fleet, conditions).map_err(|error| error.under("filter"))?;
        let region = sent.map(|sent| region(space, Some(sent))).transpose();
        let region = region.map_err(|error| error.under("region"))?;
        let conditions = filter(conditions).map_err(|error| error.under("filter"))?;
        if conditions.age_max_ms.is_some() {
            let problem = "is set: the past has no age; the time of the request bounds it";
            return Err(ServiceError::field("filter.age_max", problem));
        }
        Ok(Self { region, conditions: conditions.boxed(), names })
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
        self.conditions.is_none()
            && self.names.is_none()
            && self.region.as_ref().is_none_or(is_covered)
    }

    fn columns(&self) -> ColumnSet {
        let place = ColumnSet::NONE.with(Column::X).with(Column::Y);
        let region = if self.region.is_some() { place } else { ColumnSet::NONE };
        let object = ColumnSet::NONE.with(Column::Object);
        let names = if self.names.is_some() { object } else { ColumnSet::NONE };
        let conditions = self.conditions.as_deref().map_or(ColumnSet::NONE, columns_of);
        region.union(names).union(conditions)
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        self.region.as_ref().is_none_or(|region| region.contains(rows.x[row], rows.y[row]))
            && self.conditions.as_ref().is_none_or(|filter| filter.passes(&rows.row(row), 0))
            && self.names.as_ref().is_none_or(|names| names.matches(rows.object[row]))
    }

    fn select(&self, rows: &FixColumns, flags: &mut [bool]) {
        if let Some(region) = &self.region {
            for ((flag, x), y) in flags.iter_mut().zip(&rows.x).zip(&rows.y) {
                *flag = *flag && region.contains(*x, *y);
            }
        }
        if let Some(filter) = &self.conditions {
            select(filter, rows, flags);
        }
        if let Some(names) = &self.names {
            names.select(&rows.object, flags);
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
                $((Column::$column, filter.$field.is_some()),)+
            ];
            let read = conditions.into_iter().filter(|(_, is_read)| *is_read);
            read.fold(ColumnSet::NONE, |columns, (column, _)| columns.with(column))
        }

        /// Clears the flags of rows that fail a condition. Reads only the columns that conditions
        /// read. In a missing column every value is unknown, and every state is 0.
        fn select(filter: &Filter, rows: &FixColumns, flags: &mut [bool]) {
            let (mask, value) = (filter.state_mask, filter.state_value);
            match &rows.state {
                Some(states) => {
                    let states = flags.iter_mut().zip(states);
                    states.for_each(|(flag, state)| *flag &= state & mask == value);
                }
                None if value != 0 => flags.fill(false),
                None => {}
            }
            $(if let Some(range) = filter.$field {
                match &rows.$field {
                    Some(values) => MEASURES.$field.select(values, range, flags),
                    None => flags.fill(false),
                }
            })+
        }
    };
}

shoal_codec::measures!(conditions);

fn rect(zone: &Zone) -> QuantaRect {
    let Zone { x, y, .. } = *zone;
    QuantaRect { x_min: x.0, y_min: y.0, x_max: x.1, y_max: y.1 }
}

#[cfg(test)]
mod tests {
    use shoal_codec::FixRow;
    use shoal_testkit::Random;

    use super::*;

    /// Rows with few different values, some of them unknown; sometimes a whole column is unknown.
    fn rows(random: &mut Random) -> FixColumns {
        let mut rows = FixColumns::new();
        let has = [(); 5].map(|()| random.below(4) > 0);
        for object in 0..100 {
            let mut row = FixRow::new(object, 0, random.below(9), random.below(9));
            let mut may_have = |is_known: bool| is_known && random.below(5) > 0;
            let known = has.map(&mut may_have);
            let mut value = || random.below(9_u32) as u16;
            let values = [value(), value() * 4_000, value(), value(), value()];
            if known[0] {
                row.speed_mm_s = values[0].into();
            }
            if known[1] {
                row.heading_cdeg = values[1];
            }
            if known[2] {
                row.altitude_mm = values[2].into();
            }
            if known[3] {
                row.state = values[3].into();
            }
            if known[4] {
                row.valid_ms = values[4].into();
            }
            rows.push_row(row);
        }
        rows
    }

    fn conditions(random: &mut Random) -> Filter {
        let mut filter = Filter::default();
        let mut range = |is_ordered: bool| {
            let ends = (random.below(9_u32) as u16, random.below(9_u32) as u16);
            let ends = if is_ordered { (ends.0.min(ends.1), ends.0.max(ends.1)) } else { ends };
            (random.below(2) == 0).then_some(ends)
        };
        filter.speed_mm_s = range(true).map(|(from, to)| (from.into(), to.into()));
        filter.heading_cdeg = range(false).map(|(from, to)| (from * 4_000, to * 4_000));
        filter.altitude_mm = range(true).map(|(from, to)| (from.into(), to.into()));
        filter.valid_ms = range(true).map(|(from, to)| (from.into(), to.into()));
        if random.below(2) == 0 {
            filter.state_mask = random.below(16);
            filter.state_value = random.word() as u32 & filter.state_mask;
        }
        filter
    }

    #[test]
    fn columns_select_the_rows_that_pass() {
        let (mut random, mut selected) = (Random::new(1), 0);
        for _ in 0..2_000 {
            let (rows, conditions) = (rows(&mut random), conditions(&mut random).boxed());
            let filter = PastFilter { region: None, conditions, names: None };
            // Some flags are already cleared, as if by other conditions.
            let mut flags: Vec<bool> = (0..rows.len()).map(|_| random.below(9) > 0).collect();
            let expected = flags.iter().enumerate();
            let expected = expected.map(|(row, flag)| *flag && filter.matches(&rows, row));
            let expected: Vec<bool> = expected.collect();
            filter.select(&rows, &mut flags);
            assert_eq!(flags, expected, "{:?}", filter.conditions);
            selected += flags.into_iter().filter(|flag| *flag).count();
        }
        assert!((20_000..180_000).contains(&selected), "{selected}");
    }
}
