//! Which regions stand, by number, and what may a position hit?
//!
//! Numbers are dense and used again. What every judgement reads of a region, its place and a few
//! marks, is one cache line; the subscription itself lies apart. Changes of a cycle are planned
//! before its rows are judged and take effect behind them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::limits::REGIONS_MAX;
use crate::query::Filter;
use crate::region::{Circle, Polygon, Region};
use crate::space::{QuantaRect, Space};
use crate::sphere;
use crate::stage::region_index::RegionIndex;
use crate::stage::subscription::Class;
use crate::subscription::{
    EvaluationMode, EventKind, EventKinds, RegionId, Subscription, SubscriptionChange,
};

/// Where a region is, for positions that its cell does not decide.
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
    /// The subscription's region is asked.
    Other,
}

/// Marks the number of a region, as filed, to which a move inside it is nothing to tell.
pub(super) const QUIET: u32 = 1 << 31;

/// Marks one to which every move inside it is an event.
pub(super) const LOUD: u32 = 1 << 30;
/// The number alone.
pub(super) const NUMBER: u32 = LOUD - 1;

const _: () = assert!(REGIONS_MAX <= NUMBER as usize, "numbers leave room for the marks");

/// What a judgement reads of a region first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Subject {
    shape: Shape,
    pub(super) wanted: EventKinds,
    pub(super) has_filter: bool,
    pub(super) class: Class,
    pub(super) judging: EvaluationMode,
    pub(super) role: Role,
}

/// What the running cycle does to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its events are told.
    Told,
    /// Its events happen and are not told.
    Silent,
    /// Its members before the cycle are wanted, nothing else.
    Former,
    /// It ends without a word.
    Ended,
}

/// A position; its unit vector once a circle on the sphere has asked.
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

/// A region by number.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: RegionId,
    pub(super) class: Class,
    pub(super) subscription: Box<Subscription>,
}

/// What the changes of a cycle make of one region.
#[derive(Debug)]
pub(super) struct Change {
    /// Its number before the cycle, if it stands then and is the same region still.
    pub(super) old: Option<u32>,
    /// What holds from now on; nothing for a region that only tells its members.
    pub(super) new: Option<Box<Subscription>>,
    pub(super) is_snapshot: bool,
}

/// What a cycle changes: regions by id, and the numbers that it ends.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: BTreeMap<RegionId, Change>,
    pub(super) ended: BTreeSet<u32>,
}

impl Plan {
    /// Whether some region has a role of its own in the cycle.
    pub(super) fn has_roles(&self) -> bool {
        !self.ended.is_empty() || self.changes.values().any(|change| change.old.is_some())
    }

    /// Whether members before the cycle are compared with those after it.
    pub(super) fn has_comparison(&self) -> bool {
        self.changes.values().any(|change| change.old.is_some() && change.new.is_some())
    }
}

/// All standing regions.
#[derive(Debug)]
pub(super) struct Standing {
    numbers: HashMap<RegionId, u32>,
    entries: Vec<Option<Entry>>,
    subjects: Vec<Subject>,
    free: Vec<u32>,
    /// Regions of [`Class::Plain`], with their mark.
    pub(super) plain: RegionIndex,
    /// All others.
    pub(super) stepped: RegionIndex,
    /// Of those the regions that tell what passes through between fixes.
    pub(super) crossing: RegionIndex,
    /// Regions that judge every fix.
    pub(super) every_fix: usize,
    pub(super) stateful: usize,
    /// Regions with a filter.
    filtered: usize,
    /// Bytes of the subscriptions, estimated.
    subscription_bytes: usize,
}

impl Standing {
    pub(super) fn new(space: &Space) -> Self {
        Self {
            numbers: HashMap::new(),
            entries: Vec::new(),
            subjects: Vec::new(),
            free: Vec::new(),
            plain: RegionIndex::new(space.bounds()),
            stepped: RegionIndex::new(space.bounds()),
            crossing: RegionIndex::wide(space.bounds()),
            every_fix: 0,
            stateful: 0,
            filtered: 0,
            subscription_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn stands(&self, region: RegionId) -> bool {
        self.numbers.contains_key(&region)
    }

    /// Numbers are below this.
    pub(super) fn numbers_end(&self) -> usize {
        self.entries.len()
    }

    /// Whether some region's judgement needs whole records from before the cycle.
    pub(super) fn needs_records(&self) -> bool {
        self.filtered > 0 || self.every_fix > 0
    }

    /// Whether some region is not plain.
    pub(super) fn has_stepped(&self) -> bool {
        self.stateful + self.every_fix > 0
    }

    #[inline]
    pub(super) fn subject(&self, number: u32) -> &Subject {
        &self.subjects[number as usize]
    }

    /// Asks the cache for what is read of a region first.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        super::prefetch::read(&self.subjects, number as usize);
    }

    /// Asks the cache for a region's subscription.
    #[inline]
    pub(super) fn prefetch_subscription(&self, number: u32) {
        let subject = self.subject(number);
        if subject.class == Class::Stateful || subject.judging == EvaluationMode::Crossing {
            super::prefetch::read(std::slice::from_ref(&*self.entry(number).subscription), 0);
        }
    }

    /// A region that stands.
    #[inline]
    pub(super) fn entry(&self, number: u32) -> &Entry {
        self.entries[number as usize].as_ref().expect("a number in use has an entry")
    }

    /// Whether a position lies in a region's place.
    #[inline]
    pub(super) fn contains(&self, number: u32, at: &mut Position) -> bool {
        match &self.subject(number).shape {
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
            Shape::Other => self.entry(number).subscription.region.contains(at.x, at.y),
        }
    }

    /// What the changes of a cycle come to; gives the regions that they name their roles in it.
    pub(super) fn plan(&mut self, changes: Vec<SubscriptionChange>) -> Plan {
        let mut plan = Plan::default();
        for change in changes {
            match change {
                SubscriptionChange::Set { region, subscription, is_snapshot_wanted } => {
                    let old = self.number_under(&plan, region);
                    let fresh = Change { old, new: None, is_snapshot: false };
                    let planned = plan.changes.entry(region).or_insert(fresh);
                    planned.new = Some(subscription);
                    planned.is_snapshot |= is_snapshot_wanted;
                }
                SubscriptionChange::Snapshot(region) => {
                    if let Some(planned) = plan.changes.get_mut(&region) {
                        planned.is_snapshot = true;
                    } else if let Some(old) = self.number_under(&plan, region) {
                        let change = Change { old: Some(old), new: None, is_snapshot: true };
                        plan.changes.insert(region, change);
                    }
                }
                SubscriptionChange::Remove(region) => {
                    plan.changes.remove(&region);
                    plan.ended.extend(self.numbers.get(&region));
                }
            }
        }
        for number in &plan.ended {
            self.subjects[*number as usize].role = Role::Ended;
        }
        for change in plan.changes.values() {
            if let Some(number) = change.old {
                let role = if change.new.is_some() { Role::Former } else { Role::Silent };
                self.subjects[number as usize].role = role;
            }
        }
        plan
    }

    /// The number of a region that stands and that no change so far has ended.
    fn number_under(&self, plan: &Plan, region: RegionId) -> Option<u32> {
        self.numbers.get(&region).copied().filter(|number| !plan.ended.contains(number))
    }

    /// Takes a region out; its number may be given to another.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(entry) = self.entries[number as usize].take() else { return };
        self.numbers.remove(&entry.id);
        let Subscription { region, filter, judging, .. } = &*entry.subscription;
        match entry.class {
            Class::Plain => self.plain.remove(marked(number, &entry.subscription), region),
            Class::Stepped | Class::Stateful => self.stepped.remove(number, region),
        }
        self.stateful -= usize::from(entry.class == Class::Stateful);
        self.every_fix -= usize::from(*judging != EvaluationMode::Cycle);
        self.filtered -= usize::from(filter.is_some());
        self.subscription_bytes -= bytes_of(&entry.subscription);
        if *judging == EvaluationMode::Crossing {
            self.crossing.remove(number, region);
        }
        self.free.push(number);
    }

    /// Adds a region under a number of its own, which it returns.
    pub(super) fn add(&mut self, id: RegionId, subscription: Box<Subscription>) -> u32 {
        let number = self.free.pop().unwrap_or(self.entries.len() as u32);
        let class = Class::of(&subscription);
        let Subscription { region, filter, judging, wanted, .. } = &*subscription;
        let subject = Subject {
            shape: Shape::of(region),
            wanted: *wanted,
            has_filter: filter.is_some(),
            class,
            judging: *judging,
            role: Role::Told,
        };
        match class {
            Class::Plain => self.plain.insert(marked(number, &subscription), region),
            Class::Stepped | Class::Stateful => self.stepped.insert(number, region),
        }
        self.stateful += usize::from(class == Class::Stateful);
        self.every_fix += usize::from(*judging != EvaluationMode::Cycle);
        self.filtered += usize::from(filter.is_some());
        self.subscription_bytes += bytes_of(&subscription);
        if *judging == EvaluationMode::Crossing {
            self.crossing.insert(number, region);
        }
        let entry = Some(Entry { id, class, subscription });
        if number as usize == self.entries.len() {
            self.entries.push(entry);
            self.subjects.push(subject);
        } else {
            self.entries[number as usize] = entry;
            self.subjects[number as usize] = subject;
        }
        self.numbers.insert(id, number);
        number
    }

    /// Ends the role that a region had in the cycle.
    pub(super) fn tell_again(&mut self, number: u32) {
        self.subjects[number as usize].role = Role::Told;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<(RegionId, u32)>()
            + self.entries.capacity() * size_of::<Option<Entry>>()
            + self.subjects.capacity() * size_of::<Subject>()
            + self.free.capacity() * size_of::<u32>()
            + self.crossing.memory_bytes()
            + self.plain.memory_bytes()
            + self.stepped.memory_bytes()
            + self.subscription_bytes
    }
}

/// A region's number as it is filed among the plain ones.
fn marked(number: u32, of: &Subscription) -> u32 {
    match (&of.filter, of.wanted.contains(EventKind::Move)) {
        (Some(_), _) => number,
        (None, true) => number | LOUD,
        (None, false) => number | QUIET,
    }
}

/// Bytes of a subscription on the heap.
fn bytes_of(subscription: &Subscription) -> usize {
    let region = match &subscription.region {
        Region::Rectangle(_) => 0,
        Region::Circle(_) => size_of::<Circle>(),
        Region::Polygon(polygon) => {
            let slabs = polygon.slabs();
            size_of::<Polygon>() + size_of_val(slabs.starts) + size_of_val(slabs.edges)
        }
    };
    let filter = if subscription.filter.is_some() { size_of::<Filter>() } else { 0 };
    size_of::<Subscription>() + region + filter
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
