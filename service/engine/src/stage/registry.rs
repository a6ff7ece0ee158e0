//! The continuous queries of a fleet: by id, by number and by place.
//!
//! Numbers are dense and reused. Queries that the records before and after a cycle do not decide
//! ([`Class::Stepped`] and [`Class::Stateful`]) are indexed here for evaluation object by object;
//! a backend finds the queries of [`Class::Plain`] in its own way.

use std::collections::HashMap;

use super::region_index::RegionIndex;
use super::subscription::{Class, Observation, Step};
use crate::query::Filter;
use crate::region::{Circle, Polygon, Region};
use crate::space::Space;
use crate::subscription::{EvaluationMode, RegionId, Subscription, SubscriptionChange};

/// One continuous query.
#[derive(Clone, Debug)]
pub struct ContinuousQuery {
    /// Its region's id.
    pub id: RegionId,
    /// How it is evaluated.
    pub class: Class,
    /// Its subscription.
    pub subscription: Box<Subscription>,
}

/// All continuous queries of a fleet, or those that one part of a backend evaluates.
#[derive(Clone, Debug)]
pub struct ContinuousQueries {
    numbers: HashMap<RegionId, u32>,
    queries: Vec<Option<ContinuousQuery>>,
    free: Vec<u32>,
    /// Queries that are not plain.
    objectwise: RegionIndex,
    /// The queries that report objects passing through between fixes.
    crossing: RegionIndex,
    every_fix: usize,
    stateful: usize,
    filtered: usize,
    /// Bytes of the subscriptions, estimated.
    subscription_bytes: usize,
}

impl ContinuousQueries {
    /// An empty registry for a space.
    #[must_use]
    pub fn new(space: &Space) -> Self {
        Self {
            numbers: HashMap::new(),
            queries: Vec::new(),
            free: Vec::new(),
            objectwise: RegionIndex::new(space.bounds()),
            crossing: RegionIndex::wide(space.bounds()),
            every_fix: 0,
            stateful: 0,
            filtered: 0,
            subscription_bytes: 0,
        }
    }

    /// Number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// True without queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Upper bound of the numbers in use, exclusive.
    #[must_use]
    pub fn numbers_end(&self) -> usize {
        self.queries.len()
    }

    /// The number of a region.
    #[must_use]
    pub fn number(&self, region: RegionId) -> Option<u32> {
        self.numbers.get(&region).copied()
    }

    /// The query with this number; panics if the number is not in use.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u32) -> &ContinuousQuery {
        self.queries[number as usize].as_ref().expect("a number in use has a query")
    }

    /// Changes that set again every query whose subscription depends on the clock.
    #[must_use]
    pub fn begun_anew(&self) -> Vec<SubscriptionChange> {
        let queries = self.numbers.iter().map(|(region, number)| (*region, self.get(*number)));
        let lasting = queries.filter(|(_, query)| query.subscription.depends_on_clock());
        lasting
            .map(|(region, query)| SubscriptionChange::set(region, &query.subscription))
            .collect()
    }

    /// Whether some query evaluates every fix.
    #[inline]
    #[must_use]
    pub fn has_every_fix(&self) -> bool {
        self.every_fix > 0
    }

    /// Whether some query keeps membership states.
    #[inline]
    #[must_use]
    pub fn has_stateful(&self) -> bool {
        self.stateful > 0
    }

    /// Whether some query has a filter.
    #[must_use]
    pub fn has_filter(&self) -> bool {
        self.filtered > 0
    }

    /// Index of the queries that are not plain.
    #[inline]
    #[must_use]
    pub fn objectwise(&self) -> &RegionIndex {
        &self.objectwise
    }

    /// Adds a query and returns its number.
    pub fn insert(&mut self, id: RegionId, subscription: Box<Subscription>) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.queries.push(None);
            self.queries.len() as u32 - 1
        });
        let class = Class::of(&subscription);
        if class != Class::Plain {
            self.objectwise.insert(number, &subscription.region);
        }
        if subscription.evaluation_mode == EvaluationMode::Crossing {
            self.crossing.insert(number, &subscription.region);
        }
        self.stateful += usize::from(class == Class::Stateful);
        self.every_fix += usize::from(subscription.evaluation_mode != EvaluationMode::Cycle);
        self.filtered += usize::from(subscription.filter.is_some());
        self.subscription_bytes += bytes_of(&subscription);
        self.numbers.insert(id, number);
        self.queries[number as usize] = Some(ContinuousQuery { id, class, subscription });
        number
    }

    /// Removes a query; its number may be given to another.
    pub fn remove(&mut self, number: u32) -> Option<ContinuousQuery> {
        let query = self.queries[number as usize].take()?;
        let ContinuousQuery { id, class, subscription } = &query;
        self.numbers.remove(id);
        if *class != Class::Plain {
            self.objectwise.remove(number, &subscription.region);
        }
        if subscription.evaluation_mode == EvaluationMode::Crossing {
            self.crossing.remove(number, &subscription.region);
        }
        self.stateful -= usize::from(*class == Class::Stateful);
        self.every_fix -= usize::from(subscription.evaluation_mode != EvaluationMode::Cycle);
        self.filtered -= usize::from(subscription.filter.is_some());
        self.subscription_bytes -= bytes_of(subscription);
        self.free.push(number);
        Some(query)
    }

    /// Adds to `numbers` the queries in whose cells an object was at one of these positions or
    /// after one of these steps, and the queries that a step may have crossed. Then sorts `numbers`
    /// and removes repetitions.
    pub fn queries_near(
        &self,
        space: &Space,
        positions: impl IntoIterator<Item = (i32, i32)>,
        steps: &[Step],
        numbers: &mut Vec<u32>,
    ) {
        let mut last = None;
        let mut add = |at: (i32, i32)| {
            if last != Some(at) {
                last = Some(at);
                self.objectwise.at(at.0, at.1, |cell| numbers.extend_from_slice(cell.all()));
            }
        };
        for step in steps {
            let Observation::Live { row, .. } = step.observation else { continue };
            add((row.x, row.y));
        }
        positions.into_iter().for_each(add);
        if self.crossing.levels() > 0 {
            for step in steps {
                if let (Some(before), Observation::Live { row, .. }) =
                    (step.before, step.observation)
                {
                    let (before, after) = ((before.x, before.y), (row.x, row.y));
                    self.crossing.between(space, before, after, numbers);
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
    }

    /// Bytes held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<(RegionId, u32)>()
            + self.queries.capacity() * size_of::<Option<ContinuousQuery>>()
            + self.free.capacity() * size_of::<u32>()
            + self.objectwise.memory_bytes()
            + self.crossing.memory_bytes()
            + self.subscription_bytes
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
