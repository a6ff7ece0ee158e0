//! All continuous queries by their number on the device.
//!
//! Numbers are assigned in order and end with their query; a changed query gets a new one. When
//! many have ended, all are renumbered in the order of their ids, so that numbers nearly ascend
//! with ids. Holds the device's record of each query, but makes no calls to a device.

use std::collections::BTreeMap;

use shoal_engine::layout::{
    DeviceQuery, QUERY_ACTIVE, QUERY_CIRCLE, QUERY_FIXES, QUERY_STATEFUL, QUERY_STEPPED,
    SHAPE_RECTANGLE, Shape,
};
use shoal_engine::stage::subscription::Class;
use shoal_engine::{
    EvaluationMode, EventKind, EventKinds, QuantaRect, Region, RegionId, Subscription,
};

use crate::state::shapes::Shapes;

/// All are renumbered if more numbers have ended than this, and more than are in use.
const ENDED_MIN: usize = 1 << 14;

/// A query under its number; it has no subscription if it has ended.
#[derive(Debug)]
struct NumberedQuery {
    id: RegionId,
    subscription: Option<Box<Subscription>>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct QueryTable {
    numbers: BTreeMap<RegionId, u32>,
    regions: Vec<NumberedQuery>,
    /// By number.
    pub(crate) queries: Vec<DeviceQuery>,
    /// By number.
    pub(crate) ids: Vec<u64>,
    /// The shapes of regions other than circles without a filter.
    pub(crate) shapes: Shapes,
}

/// Whether the device evaluates a query alone.
pub(crate) fn is_plain(subscription: &Subscription) -> bool {
    Class::of(subscription) == Class::Plain
}

/// Whether an object that remains inside causes no event.
pub(crate) fn is_quiet(subscription: &Subscription) -> bool {
    is_plain(subscription)
        && subscription.filter.is_none()
        && !subscription.wanted.contains(EventKind::Move)
}

impl QueryTable {
    /// Number of queries.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Numbers assigned so far.
    pub(crate) fn numbers(&self) -> usize {
        self.regions.len()
    }

    pub(crate) fn number(&self, region: RegionId) -> Option<u32> {
        self.numbers.get(&region).copied()
    }

    /// The region of a number.
    pub(crate) fn region(&self, number: u32) -> RegionId {
        self.regions[number as usize].id
    }

    /// The subscription under a number in use.
    pub(crate) fn subscription(&self, number: u32) -> Option<&Subscription> {
        self.regions[number as usize].subscription.as_deref()
    }

    /// The subscription of a region.
    pub(crate) fn find(&self, region: RegionId) -> Option<&Subscription> {
        self.number(region).and_then(|number| self.subscription(number))
    }

    /// All queries, ascending by id, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RegionId, u32)> {
        self.numbers.iter().map(|(region, number)| (*region, *number))
    }

    /// Ends the query under a number.
    pub(crate) fn end(&mut self, number: u32) -> Option<Box<Subscription>> {
        let region = &mut self.regions[number as usize];
        let subscription = region.subscription.take()?;
        if self.numbers.get(&region.id) == Some(&number) {
            self.numbers.remove(&region.id);
        }
        self.queries[number as usize].flags = 0;
        Some(subscription)
    }

    /// Adds a query, whose events are suppressed in cycle `epoch`; returns its number.
    pub(crate) fn add(&mut self, id: RegionId, subscription: Box<Subscription>, epoch: u64) -> u32 {
        let number = self.regions.len() as u32;
        let query = device_query(&subscription, &mut self.shapes);
        self.queries.push(DeviceQuery { suppressed_epoch: epoch as u32, ..query });
        self.ids.push(id.0);
        self.numbers.insert(id, number);
        self.regions.push(NumberedQuery { id, subscription: Some(subscription) });
        number
    }

    /// Whether so many numbers have ended that all should be renumbered.
    pub(crate) fn is_fragmented(&self) -> bool {
        self.regions.len() - self.len() > self.len().max(ENDED_MIN)
    }

    /// The new number of each old one if all queries were renumbered, ascending by id; the greatest
    /// number for those that have ended.
    pub(crate) fn numbering(&self) -> Vec<u32> {
        let mut numbers = vec![u32::MAX; self.regions.len()];
        for (new, old) in (0..).zip(self.numbers.values()) {
            numbers[*old as usize] = new;
        }
        numbers
    }

    /// Renumbers all queries.
    pub(crate) fn renumber(&mut self) {
        let before = std::mem::take(self);
        let mut regions: Vec<_> = before.regions.into_iter().map(Some).collect();
        for (_, number) in before.numbers {
            let old = regions[number as usize].take();
            let Some(NumberedQuery { id, subscription: Some(subscription) }) = old else {
                continue;
            };
            // A query whose events were suppressed in this cycle has events from the next one on.
            let epoch = before.queries[number as usize].suppressed_epoch;
            self.add(id, subscription, epoch.into());
        }
    }
}

/// The device's record of a query.
fn device_query(subscription: &Subscription, shapes: &mut Shapes) -> DeviceQuery {
    let mut flags = QUERY_ACTIVE;
    if subscription.with_fixes {
        flags |= QUERY_FIXES;
    }
    if is_plain(subscription) {
        flags |= u32::from(subscription.wanted.0 & EventKinds::ALL.0);
    } else {
        flags |= QUERY_STATEFUL;
    }
    if subscription.evaluation_mode != EvaluationMode::Cycle {
        flags |= QUERY_STEPPED;
    }
    let filter = subscription.filter.as_deref();
    let query = DeviceQuery { flags, shape: QUERY_CIRCLE, ..DeviceQuery::default() };
    match &subscription.region {
        Region::Circle(circle) if !circle.ranker().is_geographic() && filter.is_none() => {
            let (x, y) = circle.ranker().centre();
            DeviceQuery { rank_max: circle.rank_max(), x, y, ..query }
        }
        region => {
            let mut shape = shapes.shape(region, filter);
            if shape.kind == SHAPE_RECTANGLE {
                boxed(&mut shape, region.cover().as_slice());
            }
            shapes.shapes.push(shape);
            DeviceQuery { shape: shapes.shapes.len() as u32 - 1, ..query }
        }
    }
}

/// Sets the sides of a rectangle: if the antimeridian cuts it, its west is greater than its east;
/// if it has no points, its south is above its north.
fn boxed(shape: &mut Shape, cover: &[QuantaRect]) {
    let (west, east) = match cover {
        [] => {
            (shape.y, shape.y_max) = (1, 0);
            return;
        }
        [only] => (only, only),
        // The western part of a cut rectangle ends at the greatest longitude.
        [a, b, ..] if a.x_min > b.x_min => (a, b),
        [a, b, ..] => (b, a),
    };
    (shape.x, shape.y) = (west.x_min, west.y_min);
    (shape.x_max, shape.y_max) = (east.x_max, west.y_max);
}
