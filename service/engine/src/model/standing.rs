//! The plain truth of standing regions: every region has a table of its members, and every object
//! of a cycle is looked at in every region.
//!
//! Follows the words of [`crate::Backend`] one by one. A plain region is one whose dwells are zero
//! and that has no hysteresis: it needs no words of its own here.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::FixRow;

use crate::backend::EngineOptions;
use crate::events::{EventSet, EventWriter};
use crate::rank::Ranker;
use crate::space::Space;
use crate::subscription::{
    EvaluationMode, EventKind, RegionId, Subscription, SubscriptionChange, tick_ms,
};

/// What arrived for one object in a cycle and was neither refused nor late.
#[derive(Clone, Copy, Debug)]
pub(super) enum ObjectChange {
    Row(FixRow),
    /// Its life ended, by [`EventKind::Removed`] or [`EventKind::Cleared`].
    End(EventKind),
}

/// What a cycle did to one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    pub(super) before: Option<FixRow>,
    pub(super) after: Option<FixRow>,
    /// A row was applied.
    pub(super) is_written: bool,
    /// In order of arrival.
    pub(super) arrived: Vec<ObjectChange>,
    /// Went by age, and this was its record.
    pub(super) expired: Option<FixRow>,
}

/// How an object stands to a region; outside there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MembershipState {
    Entering { since_ms: i64 },
    Member { leaving_since_ms: Option<i64>, reported_ms: i64, inside_at: (i32, i32) },
}

#[derive(Clone, Debug)]
struct Standing {
    subscription: Box<Subscription>,
    stands: BTreeMap<u64, MembershipState>,
}

/// What is known of an object when it is looked at.
#[derive(Clone, Copy)]
enum Observation {
    /// Its record, and whether it is a new one.
    Live(FixRow, bool),
    /// Its last record, and why it is gone.
    Gone(FixRow, EventKind),
}

/// When a look is taken.
#[derive(Clone, Copy)]
struct Now<'a> {
    space: &'a Space,
    clock_ms: i64,
    tick_ms: i64,
}

/// All standing regions of a fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct StandingRegions {
    regions: BTreeMap<RegionId, Standing>,
}

/// What the changes of a cycle make of one region.
struct Outcome {
    /// Nothing when the region is new.
    old: Option<Standing>,
    is_set: bool,
    is_snapshot: bool,
}

impl StandingRegions {
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    pub(super) fn stands(&self, region: RegionId) -> bool {
        self.regions.contains_key(&region)
    }

    /// Takes the changes of a cycle and tells its events.
    pub(super) fn cycle(
        &mut self,
        options: &EngineOptions,
        clock_ms: i64,
        changes: Vec<SubscriptionChange>,
        changed: &BTreeMap<u64, Changed>,
        records: &BTreeMap<u64, FixRow>,
    ) -> EventSet {
        let now = Now { space: &options.space, clock_ms, tick_ms: tick_ms(clock_ms) };
        let mut outcomes = self.change(changes);
        let mut writer = EventWriter::new(options.events_max);
        for (id, standing) in &mut self.regions {
            let none = Outcome { old: None, is_set: false, is_snapshot: false };
            let outcome = outcomes.remove(id).unwrap_or(none);
            let mut events = match (outcome.is_set, outcome.old) {
                (false, _) => standing.judge(now, changed, records),
                (true, Some(old)) => standing.follow(now, &old, changed, records),
                (true, None) => {
                    standing.fill(now, records);
                    Vec::new()
                }
            };
            let subscription = &standing.subscription;
            events.retain(|(kind, _)| subscription.wanted.reports(*kind));
            let with_fixes = subscription.with_fixes;
            if outcome.is_snapshot {
                events = standing.present(clock_ms, records);
            }
            writer.region(*id, outcome.is_snapshot, with_fixes, &events);
        }
        writer.finish()
    }

    /// Puts the changes in place; what became of the regions that they name and that stand.
    fn change(&mut self, changes: Vec<SubscriptionChange>) -> BTreeMap<RegionId, Outcome> {
        let mut outcomes: BTreeMap<RegionId, Outcome> = BTreeMap::new();
        for change in changes {
            match change {
                SubscriptionChange::Set { region, subscription, is_snapshot_wanted } => {
                    let fresh = Standing { subscription, stands: BTreeMap::new() };
                    let before = self.regions.insert(region, fresh);
                    let none = || Outcome { old: None, is_set: false, is_snapshot: false };
                    let outcome = outcomes.entry(region).or_insert_with(none);
                    if !outcome.is_set {
                        outcome.old = before;
                    }
                    outcome.is_set = true;
                    outcome.is_snapshot |= is_snapshot_wanted;
                }
                SubscriptionChange::Snapshot(region) if self.stands(region) => {
                    let none = || Outcome { old: None, is_set: false, is_snapshot: false };
                    outcomes.entry(region).or_insert_with(none).is_snapshot = true;
                }
                SubscriptionChange::Snapshot(_) => {}
                SubscriptionChange::Remove(region) => {
                    self.regions.remove(&region);
                    outcomes.remove(&region);
                }
            }
        }
        outcomes
    }

    /// The earliest clock at which an event may happen though nothing arrives.
    pub(super) fn due_ms(&self, records: &BTreeMap<u64, FixRow>) -> Option<i64> {
        let due = |standing: &Standing| {
            let subscription = standing.subscription.clone();
            let dues = standing.stands.iter().filter_map(move |(object, stand)| match stand {
                MembershipState::Entering { since_ms } => {
                    Some(since_ms.saturating_add(subscription.enter_dwell_ms.into()))
                }
                MembershipState::Member { leaving_since_ms: Some(since_ms), .. } => {
                    Some(since_ms.saturating_add(subscription.leave_dwell_ms.into()))
                }
                MembershipState::Member { .. } => {
                    let row = records.get(object)?;
                    lapse_ms(row, subscription.age_max_ms()?)
                }
            });
            dues.min()
        };
        self.regions.values().filter_map(due).min()
    }
}

/// The first tick at which a record is older than allowed.
fn lapse_ms(row: &FixRow, age_max_ms: i64) -> Option<i64> {
    let last_ms = row.time_ms.checked_add(age_max_ms)?;
    tick_ms(last_ms).checked_add(1_000)
}

impl Standing {
    /// Judges a region that was not changed.
    fn judge(
        &mut self,
        now: Now<'_>,
        changed: &BTreeMap<u64, Changed>,
        records: &BTreeMap<u64, FixRow>,
    ) -> Vec<(EventKind, FixRow)> {
        let mut events = Vec::new();
        let objects: BTreeSet<u64> = changed.keys().chain(self.stands.keys()).copied().collect();
        for object in objects {
            match changed.get(&object) {
                Some(changed) if self.subscription.judging == EvaluationMode::Cycle => {
                    if let Some(look) = last_look(changed) {
                        self.look(now, object, look, &mut events);
                    }
                }
                Some(changed) => self.steps(now, object, changed, &mut events),
                None => {
                    self.look(now, object, Observation::Live(records[&object], false), &mut events)
                }
            }
        }
        events
    }

    /// Judges every row of one object.
    fn steps(
        &mut self,
        now: Now<'_>,
        object: u64,
        changed: &Changed,
        events: &mut Vec<(EventKind, FixRow)>,
    ) {
        let mut record = changed.before;
        let mut rows = Vec::new();
        let mut is_looked_at = false;
        let end = changed.arrived.iter().copied().map(Some).chain([None]);
        for arrived in end {
            if let Some(ObjectChange::Row(row)) = arrived {
                rows.push(row);
                continue;
            }
            // Stable: at equal time the later arrival is the later one.
            rows.sort_by_key(|row| row.time_ms);
            for row in rows.drain(..) {
                if record != Some(row) {
                    self.step(now, object, record, row, events);
                    is_looked_at = true;
                }
                record = Some(row);
            }
            if let (Some(ObjectChange::End(reason)), Some(last)) = (arrived, record) {
                self.look(now, object, Observation::Gone(last, reason), events);
                record = None;
            }
        }
        match (changed.expired, record) {
            (Some(last), _) => {
                self.look(now, object, Observation::Gone(last, EventKind::Expired), events);
            }
            (None, Some(record)) if !is_looked_at => {
                self.look(now, object, Observation::Live(record, false), events);
            }
            _ => {}
        }
    }

    /// Judges one row after the record before it.
    fn step(
        &mut self,
        now: Now<'_>,
        object: u64,
        before: Option<FixRow>,
        row: FixRow,
        events: &mut Vec<(EventKind, FixRow)>,
    ) {
        let was_member = self.is_member(object);
        self.look(now, object, Observation::Live(row, true), events);
        let Subscription { region, judging, .. } = &*self.subscription;
        if let Some(before) = before
            && *judging == EvaluationMode::Crossing
            && !was_member
            && !self.is_member(object)
            && !region.contains(before.x, before.y)
            && !region.contains(row.x, row.y)
            && region.is_cut(now.space, (before.x, before.y), (row.x, row.y))
            && self.subscription.passes(&row, now.tick_ms)
        {
            events.push((EventKind::Cross, row));
        }
    }

    fn is_member(&self, object: u64) -> bool {
        matches!(self.stands.get(&object), Some(MembershipState::Member { .. }))
    }

    /// Looks at one object and tells what happened.
    fn look(
        &mut self,
        now: Now<'_>,
        object: u64,
        look: Observation,
        events: &mut Vec<(EventKind, FixRow)>,
    ) {
        let before = self.stands.get(&object).copied();
        let (stand, event) = match look {
            Observation::Gone(row, reason) => {
                let was_member = matches!(before, Some(MembershipState::Member { .. }));
                (None, was_member.then_some((reason, row)))
            }
            Observation::Live(row, is_written) => {
                let (stand, event) = match before {
                    Some(stand @ MembershipState::Member { .. }) => {
                        self.remain(now, stand, &row, is_written)
                    }
                    Some(MembershipState::Entering { since_ms }) => {
                        self.enter(now, Some(since_ms), &row)
                    }
                    None => self.enter(now, None, &row),
                };
                (stand, event.map(|kind| (kind, row)))
            }
        };
        match stand {
            Some(stand) => self.stands.insert(object, stand),
            None => self.stands.remove(&object),
        };
        events.extend(event);
    }

    /// What becomes of an object that is no member, inside since then without a break.
    fn enter(
        &self,
        now: Now<'_>,
        since_ms: Option<i64>,
        row: &FixRow,
    ) -> (Option<MembershipState>, Option<EventKind>) {
        if !self.subscription.holds(row, now.tick_ms) {
            return (None, None);
        }
        let since_ms = since_ms.unwrap_or(now.clock_ms);
        if now.clock_ms - since_ms >= i64::from(self.subscription.enter_dwell_ms) {
            (Some(member(now, row)), Some(EventKind::Enter))
        } else {
            (Some(MembershipState::Entering { since_ms }), None)
        }
    }

    /// What becomes of a member.
    fn remain(
        &self,
        now: Now<'_>,
        stand: MembershipState,
        row: &FixRow,
        is_written: bool,
    ) -> (Option<MembershipState>, Option<EventKind>) {
        let MembershipState::Member { leaving_since_ms, reported_ms, inside_at } = stand else {
            unreachable!("a member remains");
        };
        let subscription = &self.subscription;
        let mut leaving = None;
        if !self.keeps(now, inside_at, row) {
            let since_ms = leaving_since_ms.unwrap_or(now.clock_ms);
            if now.clock_ms - since_ms >= i64::from(subscription.leave_dwell_ms) {
                let is_outside = !subscription.region.contains(row.x, row.y);
                let kind = if is_outside { EventKind::Left } else { EventKind::Filtered };
                return (None, Some(kind));
            }
            leaving = Some(since_ms);
        }
        let is_inside = subscription.holds(row, now.tick_ms);
        let inside_at = if is_inside { (row.x, row.y) } else { inside_at };
        let is_due = now.clock_ms - reported_ms >= i64::from(subscription.move_interval_ms);
        let is_told = is_written && is_due;
        let reported_ms = if is_told { now.clock_ms } else { reported_ms };
        let stand = MembershipState::Member { leaving_since_ms: leaving, reported_ms, inside_at };
        (Some(stand), is_told.then_some(EventKind::Move))
    }

    /// Whether a member that was last inside there holds its place.
    fn keeps(&self, now: Now<'_>, inside_at: (i32, i32), row: &FixRow) -> bool {
        let subscription = &self.subscription;
        let is_near = |rank_max: u64| {
            Ranker::new(now.space, inside_at.0, inside_at.1).rank(row.x, row.y) <= rank_max
        };
        subscription.holds(row, now.tick_ms)
            || (subscription.hysteresis_rank_max.is_some_and(is_near)
                && subscription.passes(row, now.tick_ms))
    }

    /// Takes over from the region of this id as it was before the cycle.
    fn follow(
        &mut self,
        now: Now<'_>,
        old: &Self,
        changed: &BTreeMap<u64, Changed>,
        records: &BTreeMap<u64, FixRow>,
    ) -> Vec<(EventKind, FixRow)> {
        let mut events = Vec::new();
        let objects: BTreeSet<u64> = records.keys().chain(old.stands.keys()).copied().collect();
        for object in objects {
            let change = changed.get(&object);
            let look = match change {
                Some(change) => last_look(change),
                None => Some(Observation::Live(records[&object], false)),
            };
            let inside_at = match old.stands.get(&object) {
                Some(MembershipState::Member { inside_at, .. }) => Some(*inside_at),
                _ => None,
            };
            match (look, inside_at) {
                (Some(Observation::Gone(row, reason)), Some(_)) => events.push((reason, row)),
                (Some(Observation::Live(row, is_written)), Some(inside_at)) => {
                    let is_inside = self.subscription.holds(&row, now.tick_ms);
                    if !self.keeps(now, inside_at, &row) {
                        events.push((EventKind::RegionChanged, row));
                        continue;
                    }
                    let inside_at = if is_inside { (row.x, row.y) } else { inside_at };
                    let reported_ms = now.clock_ms;
                    let stand =
                        MembershipState::Member { leaving_since_ms: None, reported_ms, inside_at };
                    self.stands.insert(object, stand);
                    events.extend(is_written.then_some((EventKind::Move, row)));
                }
                (Some(Observation::Live(row, _)), None)
                    if self.subscription.holds(&row, now.tick_ms) =>
                {
                    self.stands.insert(object, member(now, &row));
                    events.push((EventKind::Enter, row));
                }
                _ => {}
            }
        }
        events
    }

    /// Makes everything inside a member, silently.
    fn fill(&mut self, now: Now<'_>, records: &BTreeMap<u64, FixRow>) {
        let inside = records.iter().filter(|(_, row)| self.subscription.holds(row, now.tick_ms));
        self.stands = inside.map(|(object, row)| (*object, member(now, row))).collect();
    }

    /// Tells all members.
    fn present(
        &mut self,
        clock_ms: i64,
        records: &BTreeMap<u64, FixRow>,
    ) -> Vec<(EventKind, FixRow)> {
        let mut events = Vec::new();
        for (object, stand) in &mut self.stands {
            if let MembershipState::Member { reported_ms, .. } = stand {
                *reported_ms = clock_ms;
                events.push((EventKind::Present, records[object]));
            }
        }
        events
    }
}

fn member(now: Now<'_>, row: &FixRow) -> MembershipState {
    let inside_at = (row.x, row.y);
    MembershipState::Member { leaving_since_ms: None, reported_ms: now.clock_ms, inside_at }
}

/// How an object looks after the cycle; nothing for one that came and went.
fn last_look(changed: &Changed) -> Option<Observation> {
    if let Some(row) = changed.after {
        return Some(Observation::Live(row, changed.is_written));
    }
    if let Some(row) = changed.expired {
        return Some(Observation::Gone(row, EventKind::Expired));
    }
    let mut ends = changed.arrived.iter().filter_map(|arrived| match arrived {
        ObjectChange::End(reason) => Some(*reason),
        ObjectChange::Row(_) => None,
    });
    Some(Observation::Gone(changed.before?, ends.next_back()?))
}
