//! The continuous queries as the CPU backend evaluates them.
//!
//! The shape and flags of a query, which every evaluation reads, take one cache line; the
//! subscription itself is stored apart. Changes of a cycle are planned before its rows are
//! evaluated and take effect after them.

use std::ops::Deref;

use crate::limits::REGIONS_MAX;
use crate::region::Region;
use crate::space::{QuantaRect, Space};
use crate::sphere;
use crate::stage::region_changes::RegionChanges;
use crate::stage::region_index::RegionIndex;
use crate::stage::registry::ContinuousQueries;
use crate::stage::subscription::Class;
use crate::subscription::{
    EvaluationMode, EventKind, EventKinds, RegionId, Subscription, SubscriptionChange,
};

/// The shape of a region. It decides a position whose cell lies only partly in the region.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Box(QuantaRect),
    Planar {
        x: i32,
        y: i32,
        rank_max: u64,
    },
    Geographic {
        vector: [f64; 3],
        rank_max: u64,
    },
    /// The subscription's region decides.
    Other,
}

/// Flag in an indexed query number: a move inside the region causes no event of the plain query.
pub(super) const QUIET: u32 = 1 << 31;
/// Flag in an indexed query number: the query reports every move inside its region.
pub(super) const LOUD: u32 = 1 << 30;
/// Mask of the number itself.
pub(super) const NUMBER: u32 = LOUD - 1;

const _: () = assert!(REGIONS_MAX <= NUMBER as usize, "numbers leave room for the marks");

/// The part of a query that an evaluation reads first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct QueryHead {
    shape: Shape,
    pub(super) wanted: EventKinds,
    pub(super) has_filter: bool,
    pub(super) class: Class,
    pub(super) mode: EvaluationMode,
    pub(super) role: Role,
}

/// What the running cycle does to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its events are emitted.
    Active,
    /// It is evaluated, but a snapshot takes the place of its events.
    Silent,
    /// It is changed; only its members before the cycle are listed.
    Changed,
    /// It ends without events.
    Removed,
}

/// A position, with its unit vector, which is computed when a geographic circle first needs it.
pub(super) struct Position {
    pub(super) x: i32,
    pub(super) y: i32,
    vector: Option<[f64; 3]>,
}

impl Position {
    pub(super) fn new(x: i32, y: i32) -> Self {
        Self { x, y, vector: None }
    }

    fn vector(&mut self) -> &[f64; 3] {
        let (x, y) = (self.x, self.y);
        self.vector.get_or_insert_with(|| sphere::unit_vector(x, y))
    }
}

/// The changes of a cycle.
pub(super) type Plan = RegionChanges<()>;

/// All continuous queries; dereferences to their registry.
#[derive(Debug)]
pub(super) struct QueryTable {
    queries: ContinuousQueries,
    /// By number.
    heads: Vec<QueryHead>,
    /// Queries of [`Class::Plain`], with their marks.
    pub(super) plain: RegionIndex,
}

impl Deref for QueryTable {
    type Target = ContinuousQueries;

    fn deref(&self) -> &ContinuousQueries {
        &self.queries
    }
}

impl QueryTable {
    pub(super) fn new(space: &Space) -> Self {
        let plain = RegionIndex::new(space.bounds());
        Self { queries: ContinuousQueries::new(space), heads: Vec::new(), plain }
    }

    /// Whether some evaluation needs whole records from before the cycle.
    pub(super) fn needs_records(&self) -> bool {
        self.has_filter() || self.has_every_fix()
    }

    #[inline]
    pub(super) fn head(&self, number: u32) -> &QueryHead {
        &self.heads[number as usize]
    }

    /// Prefetches the head of a query.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        super::prefetch::read(&self.heads, number as usize);
    }

    /// Prefetches the subscription of a query if an evaluation reads it.
    #[inline]
    pub(super) fn prefetch_subscription(&self, number: u32) {
        let head = self.head(number);
        if head.class == Class::Stateful || head.mode == EvaluationMode::Crossing {
            super::prefetch::read(std::slice::from_ref(&*self.get(number).subscription), 0);
        }
    }

    /// Whether a position lies in the region of a query.
    #[inline]
    pub(super) fn contains(&self, number: u32, at: &mut Position) -> bool {
        match &self.head(number).shape {
            Shape::Box(rect) => rect.contains(at.x, at.y),
            Shape::Planar { x, y, rank_max } => {
                let dx = u64::from(x.abs_diff(at.x));
                let dy = u64::from(y.abs_diff(at.y));
                // As `Ranker::rank`; positions lie in the space.
                (dx * dx).saturating_add(dy * dy) <= *rank_max
            }
            Shape::Geographic { vector, rank_max } => {
                sphere::chord_squared(vector, at.vector()).to_bits() <= *rank_max
            }
            Shape::Other => self.get(number).subscription.region.contains(at.x, at.y),
        }
    }

    /// Reduces the changes of a cycle and gives the queries that they name their roles in it.
    pub(super) fn plan(&mut self, changes: Vec<SubscriptionChange>) -> Plan {
        let changes = changes.into_iter().map(|change| (change, ()));
        let plan = Plan::reduce(changes, |region| self.queries.number(region));
        for number in &plan.removed {
            self.heads[*number as usize].role = Role::Removed;
        }
        for change in plan.changes.values() {
            if let Some(number) = change.old {
                let role = if change.new.is_some() { Role::Changed } else { Role::Silent };
                self.heads[number as usize].role = role;
            }
        }
        plan
    }

    /// Ends the role that a query had in the cycle.
    pub(super) fn activate(&mut self, number: u32) {
        self.heads[number as usize].role = Role::Active;
    }

    /// Removes a query; its number may be given to another.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(query) = self.queries.remove(number) else { return };
        if query.class == Class::Plain {
            let Subscription { region, .. } = &*query.subscription;
            self.plain.remove(marked(number, &query.subscription), region);
        }
    }

    /// Adds a query and returns its number.
    pub(super) fn insert(&mut self, id: RegionId, subscription: Box<Subscription>) -> u32 {
        let number = self.queries.insert(id, subscription);
        let query = self.queries.get(number);
        let Subscription { region, filter, evaluation_mode, wanted, .. } = &*query.subscription;
        let head = QueryHead {
            shape: Shape::of(region),
            wanted: *wanted,
            has_filter: filter.is_some(),
            class: query.class,
            mode: *evaluation_mode,
            role: Role::Active,
        };
        if query.class == Class::Plain {
            self.plain.insert(marked(number, &query.subscription), region);
        }
        if number as usize == self.heads.len() {
            self.heads.push(head);
        } else {
            self.heads[number as usize] = head;
        }
        number
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.queries.memory_bytes()
            + self.heads.capacity() * size_of::<QueryHead>()
            + self.plain.memory_bytes()
    }
}

/// The number of a plain query as indexed.
fn marked(number: u32, of: &Subscription) -> u32 {
    match (&of.filter, of.wanted.contains(EventKind::Move)) {
        (Some(_), _) => number,
        (None, true) => number | LOUD,
        (None, false) => number | QUIET,
    }
}

impl Shape {
    fn of(region: &Region) -> Self {
        match (region, region.cover().as_slice()) {
            (Region::Rectangle(_), [rect]) => Self::Box(*rect),
            (Region::Circle(circle), _) => {
                let rank_max = circle.rank_max();
                match circle.ranker().vector() {
                    Some(vector) => Self::Geographic { vector, rank_max },
                    None => {
                        let (x, y) = circle.ranker().centre();
                        Self::Planar { x, y, rank_max }
                    }
                }
            }
            _ => Self::Other,
        }
    }
}
