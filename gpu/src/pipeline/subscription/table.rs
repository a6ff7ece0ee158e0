//! Which regions stand, under which numbers?
//!
//! Numbers are given in order and end with their region; a changed region gets a new one. When
//! many have ended, all are numbered anew in the order of their ids, so that numbers nearly ascend
//! with ids. Knows what the device is told of each region, but not the device.

use std::collections::BTreeMap;

use shoal_engine::layout::{
    SHAPE_RECTANGLE, STANDING_ALIVE, STANDING_CIRCLE, STANDING_FIXES, STANDING_STATEFUL,
    STANDING_STEPPED, Shape, Standing,
};
use shoal_engine::{
    EvaluationMode, EventKind, EventKinds, QuantaRect, Region, RegionId, Subscription,
};

use crate::pipeline::query_parts::Shapes;

/// Numbers that have ended, beside as many as stand, before all are numbered anew.
const ENDED_MIN: usize = 1 << 14;

/// A region under its number; without a subscription when it has ended.
#[derive(Debug)]
struct Numbered {
    id: RegionId,
    subscription: Option<Box<Subscription>>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Table {
    numbers: BTreeMap<RegionId, u32>,
    regions: Vec<Numbered>,
    /// By number.
    pub(super) standing: Vec<Standing>,
    /// By number.
    pub(super) ids: Vec<u64>,
    /// What regions that are no plain circles are tested against.
    pub(super) shapes: Shapes,
}

/// Whether events follow from the records before and after a cycle alone, and change with a record
/// only: then the device finds them.
pub(super) fn is_plain(subscription: &Subscription) -> bool {
    let tells_moves = subscription.wanted.contains(EventKind::Move);
    subscription.judging == EvaluationMode::Cycle
        && subscription.enter_dwell_ms == 0
        && subscription.leave_dwell_ms == 0
        && subscription.hysteresis_rank_max.is_none()
        && subscription.age_max_ms().is_none()
        && (subscription.move_interval_ms == 0 || !tells_moves)
}

/// Whether nothing happens while an object stays inside.
pub(super) fn is_quiet(subscription: &Subscription) -> bool {
    is_plain(subscription)
        && subscription.filter.is_none()
        && !subscription.wanted.contains(EventKind::Move)
}

impl Table {
    /// Regions that stand.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Numbers given so far.
    pub(super) fn numbers(&self) -> usize {
        self.regions.len()
    }

    pub(super) fn number(&self, region: RegionId) -> Option<u32> {
        self.numbers.get(&region).copied()
    }

    /// What stands under a number.
    pub(super) fn subscription(&self, number: u32) -> Option<&Subscription> {
        self.regions[number as usize].subscription.as_deref()
    }

    /// All that stand, ascending by id, and their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RegionId, u32)> {
        self.numbers.iter().map(|(region, number)| (*region, *number))
    }

    /// Ends what stands under a number.
    pub(super) fn end(&mut self, number: u32) -> Option<Box<Subscription>> {
        let region = &mut self.regions[number as usize];
        let subscription = region.subscription.take()?;
        if self.numbers.get(&region.id) == Some(&number) {
            self.numbers.remove(&region.id);
        }
        self.standing[number as usize].flags = 0;
        Some(subscription)
    }

    /// Adds a region; gives its number. Silent in cycle `epoch`.
    pub(super) fn add(&mut self, id: RegionId, subscription: Box<Subscription>, epoch: u64) -> u32 {
        let number = self.regions.len() as u32;
        let standing = standing_of(&subscription, &mut self.shapes);
        self.standing.push(Standing { silent: epoch as u32, ..standing });
        self.ids.push(id.0);
        self.numbers.insert(id, number);
        self.regions.push(Numbered { id, subscription: Some(subscription) });
        number
    }

    /// Whether so many numbers have ended that all are to be given anew.
    pub(super) fn is_worn(&self) -> bool {
        self.regions.len() - self.len() > self.len().max(ENDED_MIN)
    }

    /// The new number of each old one if all regions were numbered anew, ascending by id; the
    /// greatest number for those that have ended.
    pub(super) fn numbering(&self) -> Vec<u32> {
        let mut numbers = vec![u32::MAX; self.regions.len()];
        for (new, old) in (0..).zip(self.numbers.values()) {
            numbers[*old as usize] = new;
        }
        numbers
    }

    /// Numbers all regions so.
    pub(super) fn renumber(&mut self) {
        let before = std::mem::take(self);
        let mut regions: Vec<_> = before.regions.into_iter().map(Some).collect();
        for (_, number) in before.numbers {
            let old = regions[number as usize].take();
            let Some(Numbered { id, subscription: Some(subscription) }) = old else { continue };
            // It tells events from the next cycle on, if it was silent in this one.
            let silent = before.standing[number as usize].silent;
            self.add(id, subscription, silent.into());
        }
    }
}

/// What the device is told of a region.
fn standing_of(subscription: &Subscription, shapes: &mut Shapes) -> Standing {
    let mut flags = STANDING_ALIVE;
    if subscription.with_fixes {
        flags |= STANDING_FIXES;
    }
    if is_plain(subscription) {
        flags |= u32::from(subscription.wanted.0 & EventKinds::ALL.0);
    } else {
        flags |= STANDING_STATEFUL;
    }
    if subscription.judging != EvaluationMode::Cycle {
        flags |= STANDING_STEPPED;
    }
    let filter = subscription.filter.as_deref();
    let standing = Standing { flags, shape: STANDING_CIRCLE, ..Standing::default() };
    match &subscription.region {
        Region::Circle(circle) if !circle.ranker().is_geographic() && filter.is_none() => {
            let (x, y) = circle.ranker().centre();
            Standing { rank_max: circle.rank_max(), x, y, ..standing }
        }
        region => {
            let mut shape = shapes.shape(region, filter);
            if shape.kind == SHAPE_RECTANGLE {
                boxed(&mut shape, region.cover().as_slice());
            }
            shapes.shapes.push(shape);
            Standing { shape: shapes.shapes.len() as u32 - 1, ..standing }
        }
    }
}

/// Gives a rectangle its sides: one that the antimeridian cuts has its west beyond its east. One
/// without points is upside down.
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
