//! Random continuous queries with random requests.
//!
//! [`continuous_queries`] has few objects and few regions, so that they interact; its clocks
//! advance by milliseconds and by seconds. [`crowded_queries`] has many of both. Regions are of
//! every kind and mode, and some seeds have a low event limit. Every event is compared with the
//! model's. If a region wants all events and has no dwell times and no hysteresis, the members that
//! result from its events are compared with a range query.

use std::collections::{BTreeMap, BTreeSet};

use super::builders::START_MS;
use super::generate::Generator;
use super::trial::{Make, Trial};
use crate::backend::{Clock, EngineOptions};
use crate::events::EventSet;
use crate::query::{Filter, Projection, Query, QueryKind};
use crate::rank::Ranker;
use crate::space::Space;
use crate::subscription::{
    EvaluationMode, EventKind, EventKinds, RegionId, Subscription, SubscriptionChange, tick_ms,
};

/// Runs `operations` random operations on a few objects and regions.
pub fn continuous_queries(make: Make, seed: u64, operations: u64) {
    let space = match seed % 4 {
        0 | 2 => Space::geographic(),
        1 => Space::planar(30.0, 20.0, 1.0).expect("the plane exists"),
        _ => Space::planar(100_000.0, 60_000.0, 0.01).expect("the plane exists"),
    };
    let options = EngineOptions {
        clock: if seed % 3 == 2 { Clock::System } else { Clock::Event },
        ttl_ms: (seed % 5 > 1).then_some(20_000),
        // Of sixty ids.
        objects_max: match seed % 4 {
            1 => 50,
            3 => 30,
            _ => 1 << 20,
        },
        events_max: if seed % 4 == 1 { 40 } else { 1 << 20 },
        term: seed,
        ..EngineOptions::new(space)
    };
    let mut trial = Trial::new(make, options.clone(), &format!("continuous queries, seed {seed}"));
    let mut generator = Generator::new(seed, space, 60, START_MS);
    let mut followers = Followers::default();
    let mut met = BTreeSet::new();
    let mut done = 0;
    while done < operations {
        if generator.random.once_in(40) {
            generator.next_phase();
        }
        generator.now_ms += *generator.random.pick(&[0, 1, 300, 500, 5_000]);
        let step_back_ms = *generator.random.pick(&[0, 0, 0, 10_000]);
        trial.system_ms = generator.now_ms - step_back_ms;
        trial.time_max_ms = generator.now_ms + 60_000;
        let bound_ms = *generator.random.pick(&[-20_000, 0, 400]);
        let is_bounded = generator.random.once_in(2);
        trial.event_clock_max_ms = is_bounded.then_some(generator.now_ms + bound_ms);
        // Followers apply changes at once, so no cycle may be in flight.
        let changes = if trial.in_flight() == 0 { generator.random.below(4) } else { 0 };
        for _ in 0..changes {
            let change = generator.change(&trial);
            followers.change(&change);
            trial.change(change);
        }
        let mut requests = Vec::new();
        for _ in 0..generator.random.below(4) {
            let (request, count) = generator.request(trial.model(), 25);
            done += count;
            requests.push(request);
        }
        done += 1;
        trial.submit(requests, Vec::new());
        if trial.in_flight() < 2 && generator.random.once_in(4) {
            continue;
        }
        while trial.in_flight() > 0 {
            let output = trial.wait(0);
            met.extend(output.events.iter().flat_map(|of| of.kinds.iter()));
            followers.apply(output.epoch, &output.events);
        }
        followers.check(&trial);
        if generator.random.once_in(200) {
            trial.migrate(options.clone());
            followers = Followers::default();
        }
    }
    while trial.in_flight() > 0 {
        trial.wait(0);
    }
    let is_long = operations >= 50_000;
    assert!(!is_long || met.len() > EventKind::ALL.len() - 2, "seed {seed} met only {met:?}");
}

/// Runs a few cycles of thousands of objects among many regions, so that all cores work and lists
/// are long.
pub fn crowded_queries(make: Make, seed: u64, operations: u64) {
    let space = if seed.is_multiple_of(2) {
        Space::geographic()
    } else {
        Space::planar(20_000.0, 20_000.0, 0.01).expect("the plane exists")
    };
    let options = EngineOptions {
        ttl_ms: (seed % 3 == 2).then_some(15_000),
        objects_max: if seed % 5 == 3 { 4_000 } else { 1 << 20 },
        events_max: if seed % 4 == 1 { 20_000 } else { 1 << 24 },
        term: seed,
        ..EngineOptions::new(space)
    };
    let mut trial = Trial::new(make, options, &format!("crowded queries, seed {seed}"));
    let mut generator = Generator::new(seed, space, 12_000, START_MS);
    let mut followers = Followers::default();
    let mut done = 0;
    while done < operations.min(60_000) {
        generator.next_phase();
        generator.now_ms += 5_000;
        trial.time_max_ms = generator.now_ms + 60_000;
        for number in 0..if done == 0 { 60 } else { 12 } {
            let mut change = generator.change(&trial);
            if let SubscriptionChange::Set { region, .. } = &mut change {
                *region = RegionId(region.0 ^ (number % 7) << 8);
            }
            followers.change(&change);
            trial.change(change);
        }
        let mut requests = Vec::new();
        for _ in 0..4 {
            let (request, count) = generator.request(trial.model(), 6_000);
            done += count + 1;
            requests.push(request);
        }
        trial.submit(requests, Vec::new());
        let output = trial.wait(0);
        followers.apply(output.epoch, &output.events);
        followers.check(&trial);
    }
}

/// The members that result from the events, for the regions that want all events.
#[derive(Default)]
struct Followers {
    subscriptions: BTreeMap<RegionId, Box<Subscription>>,
    held: BTreeMap<RegionId, BTreeSet<u64>>,
}

impl Followers {
    fn change(&mut self, change: &SubscriptionChange) {
        match change {
            SubscriptionChange::Set { region, subscription, is_snapshot_wanted } => {
                let is_new = self.subscriptions.insert(*region, subscription.clone()).is_none();
                let is_unseen = is_new && !is_snapshot_wanted;
                if is_unseen || subscription.wanted != EventKinds::ALL {
                    self.held.remove(region);
                }
            }
            SubscriptionChange::Snapshot(_) => {}
            SubscriptionChange::Remove(region) => {
                self.subscriptions.remove(region);
                self.held.remove(region);
            }
        }
    }

    /// Regions are followed from their snapshot on, until they lag.
    fn apply(&mut self, epoch: u64, events: &EventSet) {
        for of_region in events.iter() {
            if of_region.is_lagged {
                self.held.remove(&of_region.region);
            } else if of_region.is_snapshot {
                let of = self.subscriptions.get(&of_region.region);
                if of.is_none_or(|of| of.wanted != EventKinds::ALL) {
                    continue;
                }
                self.held.insert(of_region.region, of_region.objects.iter().copied().collect());
            } else if let Some(held) = self.held.get_mut(&of_region.region) {
                for (object, kind, _) in of_region.iter() {
                    let is_right = match kind {
                        EventKind::Present => false,
                        EventKind::Enter => held.insert(object),
                        EventKind::Move => held.contains(&object),
                        EventKind::Cross => !held.contains(&object),
                        _ => held.remove(&object),
                    };
                    let region = of_region.region.0;
                    assert!(is_right, "epoch {epoch} region {region}: {kind:?} of {object}");
                }
            }
        }
    }

    fn check(&self, trial: &Trial) {
        for (region, held) in &self.held {
            let Some(subscription) = self.subscriptions.get(region) else { continue };
            let is_exact = subscription.enter_dwell_ms == 0
                && subscription.leave_dwell_ms == 0
                && subscription.hysteresis_rank_max.is_none();
            if !is_exact {
                continue;
            }
            let query = Query {
                kind: QueryKind::Range(subscription.region.clone()),
                filter: subscription.filter.clone(),
                projection: Projection::Ids,
                limit: None,
            };
            let model = trial.model();
            let answers = model.answer([&query], tick_ms(model.clock_ms()));
            let epoch = model.epoch();
            assert!(
                answers.get(0).objects.iter().eq(held),
                "epoch {epoch}: region {} holds {held:?}",
                region.0
            );
        }
    }
}

impl Generator {
    /// A change of some region.
    fn change(&mut self, trial: &Trial) -> SubscriptionChange {
        let number = self.random.below(14_u64);
        let region =
            RegionId(if number.is_multiple_of(3) { number << 60 | number } else { number });
        match self.random.below(9) {
            0 => SubscriptionChange::Remove(region),
            1 => SubscriptionChange::Snapshot(region),
            _ => SubscriptionChange::Set {
                region,
                subscription: Box::new(self.subscription(trial)),
                is_snapshot_wanted: self.random.once_in(2),
            },
        }
    }

    fn subscription(&mut self, trial: &Trial) -> Subscription {
        let mut subscription = Subscription::new(self.region(trial.model()));
        subscription.with_fixes = self.random.once_in(2);
        if self.random.once_in(3) {
            subscription.wanted = EventKinds(self.random.below(1 << 10) as u16);
        }
        if self.random.once_in(3) {
            let filter = self.filter();
            let age_max_ms = filter.age_max_ms.map(|age_ms| age_ms / 4);
            subscription.filter = Filter { age_max_ms, ..filter }.boxed();
        }
        subscription.evaluation_mode = *self.random.pick(&[
            EvaluationMode::Cycle,
            EvaluationMode::EveryFix,
            EvaluationMode::Crossing,
        ]);
        if self.random.once_in(2) {
            subscription.move_interval_ms = *self.random.pick(&[0, 1, 700, 6_000]);
            subscription.enter_dwell_ms = *self.random.pick(&[0, 1, 800, 4_000]);
            subscription.leave_dwell_ms = *self.random.pick(&[0, 1, 800, 4_000]);
            if self.random.once_in(2) {
                let (a, b) =
                    (self.point_of_interest(trial.model()), self.point_of_interest(trial.model()));
                let rank = Ranker::new(&trial.space(), a.0, a.1).rank(b.0, b.1);
                subscription.hysteresis_rank_max = Some(rank);
            }
        }
        subscription
    }
}
