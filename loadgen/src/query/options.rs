//! The conditions of a message of queries: projection, filter and limit.
//!
//! They vary for verification, not for measurement. Wire form and engine form are built from the
//! same integers.

use shoal_client::duration;
use shoal_engine::{Filter, Projection, RowLimit};
use shoal_proto::v1::{self as proto, Interval, QueryOptions};

use super::chooser::QueryRandom;
use crate::args::Wanted;

/// Conditions in both forms.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Wire form, without fleet and token.
    pub options: QueryOptions,
    /// For the oracle.
    pub filter: Filter,
    /// For the oracle.
    pub projection: Projection,
    /// For the oracle.
    pub limit: Option<RowLimit>,
}

impl Conditions {
    /// The conditions of the next message. `age_ms` is a typical age of a record.
    pub fn draw(wanted: Wanted, age_ms: i64, random: &mut QueryRandom) -> Self {
        let mut conditions = Self::without(wanted);
        if wanted == Wanted::Mixed {
            conditions.projection = match random.below(8) {
                0 => Projection::Count,
                1..=4 => Projection::Fixes,
                _ => Projection::Ids,
            };
            conditions.options.projection = projection(conditions.projection).into();
            if random.below(4) == 0 {
                conditions.restrict(age_ms, random);
            }
            if random.below(8) == 0 {
                // Ids of generated workloads start at 0.
                let after_object = random.below(100_000);
                conditions.filter.object_after = Some(after_object);
                conditions.options.after_object = Some(after_object);
            }
            if random.below(8) == 0 {
                let limit = 1 + random.below(20);
                conditions.limit = Some(RowLimit::First(limit));
                conditions.options.limit = limit;
            }
        }
        conditions
    }

    /// No filter, no limit.
    fn without(wanted: Wanted) -> Self {
        let engine = match wanted {
            Wanted::Ids | Wanted::Mixed => Projection::Ids,
            Wanted::Fixes => Projection::Fixes,
            Wanted::Count => Projection::Count,
        };
        let options =
            QueryOptions { projection: projection(engine).into(), ..QueryOptions::default() };
        Self { options, filter: Filter::default(), projection: engine, limit: None }
    }

    /// Adds one condition on the record.
    fn restrict(&mut self, age_ms: i64, random: &mut QueryRandom) {
        let mut filter = proto::Filter::default();
        match random.below(4) {
            0 => {
                let age_max_ms = random.below(2 * age_ms.unsigned_abs() + 1) as i64;
                self.filter.age_max_ms = Some(age_max_ms);
                filter.age_max = Some(duration::from_millis(age_max_ms.unsigned_abs()));
            }
            1 => {
                let (from, to) = (random.below(500) as u32, 500 + random.below(500) as u32);
                self.filter.speed_mm_s = Some((from * 1_000, to * 1_000));
                filter.speed_mps = Some(Interval { min: from.into(), max: to.into() });
            }
            2 => {
                // `from` may exceed `to`; such a range includes north.
                let (from, to) = (random.below(360) as u16, random.below(360) as u16);
                self.filter.heading_cdeg = Some((from * 100, to * 100));
                filter.heading_deg = Some(Interval { min: from.into(), max: to.into() });
            }
            _ => {
                // Workloads set no state bits: value 0 matches all, value 1 none. Value 1 is rare,
                // because nearest then scans every object.
                let value = u32::from(random.below(32) == 0);
                (self.filter.state_mask, self.filter.state_value) = (1, value);
                (filter.state_mask, filter.state_value) = (1, value);
            }
        }
        self.options.filter = Some(filter);
    }
}

/// A projection on the wire.
fn projection(projection: Projection) -> proto::Projection {
    match projection {
        Projection::Ids => proto::Projection::Ids,
        Projection::Fixes => proto::Projection::Fixes,
        Projection::Count => proto::Projection::Count,
    }
}
