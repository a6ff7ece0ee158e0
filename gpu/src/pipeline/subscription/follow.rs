//! What are regions told that come new, change or want a snapshot?
//!
//! A new region has what is inside as members; a changed one compares the members before the cycle
//! with the state after it, by the engine's state machine. Snapshots tell all members and nothing
//! else.

use std::collections::BTreeMap;

use shoal_codec::FixRow;
use shoal_engine::stage::subscription::{CycleTime, MembershipState, Observation, transfer_member};
use shoal_engine::{EngineError, EventKind, RegionId, Subscription};

use super::judge::Seen;
use super::members::{Members, Wanted};
use super::stands::{Kept, Stands};
use super::told::HostMade;
use super::touched::look_of;
use crate::pipeline::driver::Driver;
use crate::pipeline::query_answers::row;

/// What stood before a change.
#[derive(Debug)]
pub(super) enum Former {
    /// Its members are asked for.
    Plain(Box<Subscription>),
    /// Its members are known.
    Kept(Kept),
}

/// A region that a change names and that stands after the cycle.
#[derive(Debug)]
pub(super) struct Follow {
    pub(super) region: RegionId,
    /// What holds from now on, where it was set.
    pub(super) set: Option<Box<Subscription>>,
    /// What stood before, when that was changed.
    pub(super) former: Option<Former>,
    pub(super) is_snapshot: bool,
    /// What holds is without memory.
    pub(super) is_plain: bool,
}

/// A member of a region before its change: where it last was inside, and what became of it.
type Was = ((i32, i32), Observation);

impl Driver {
    /// The events of regions that come new, change or tell all; regions that remember are handed
    /// to `stands`.
    pub(super) fn follow(
        &mut self,
        follows: Vec<Follow>,
        seen: &[Seen],
        stands: &mut Stands,
    ) -> Result<Vec<HostMade>, EngineError> {
        let mut made = Vec::new();
        if follows.is_empty() {
            return Ok(made);
        }
        let space = self.options.space;
        let now = CycleTime::new(&space, self.clock_ms);
        let left = self.left(&follows)?;
        let mut here = self.here(&follows)?;
        let (mut next_left, mut next_here) = (0, 0);
        for follow in follows {
            let was = match &follow.former {
                _ if !compares(&follow) => BTreeMap::new(),
                Some(Former::Plain(_)) => {
                    next_left += 1;
                    were(&left, next_left - 1)
                }
                Some(Former::Kept(kept)) => kept_were(kept, seen),
                None => BTreeMap::new(),
            };
            let mut told = HostMade { region: follow.region, ..HostMade::default() };
            let range = if asks(&follow) {
                next_here += 1;
                here.of(next_here - 1)
            } else {
                0..0
            };
            if follow.is_plain && follow.is_snapshot {
                told.is_snapshot = true;
                told.kinds = vec![EventKind::Present as u8; range.len()];
                told.objects = here.take_objects(range.clone());
                if with_fixes(&follow, self) {
                    told.fixes = here.stands[range].iter().map(row).collect();
                }
                made.push(told);
                continue;
            }
            if let Some(set) = &follow.set {
                let is = here.stands.get(range).unwrap_or(&[]);
                let is: Vec<FixRow> = is.iter().map(row).collect();
                let turns = turns(set, &now, (follow.former.is_some(), was), &is);
                let number = (!follow.is_plain).then(|| stands.add(follow.region, set.clone()));
                for (row, stand, event) in turns {
                    if let Some(number) = number {
                        stands.set(number, &row, stand);
                    }
                    if let Some(kind) = event.filter(|kind| set.wanted.tells(*kind)) {
                        told.push(kind as u8, row, set.with_fixes);
                    }
                }
            }
            if follow.is_snapshot {
                told = present(stands, &now, follow.region);
            }
            if told.is_snapshot || !told.objects.is_empty() {
                made.push(told);
            }
        }
        Ok(made)
    }

    /// The members before the cycle of regions that had no memory.
    fn left(&mut self, follows: &[Follow]) -> Result<Members, EngineError> {
        let mut of = Vec::new();
        let mut wanted = Wanted::Stands;
        for follow in follows.iter().filter(|follow| compares(follow)) {
            if let (Some(Former::Plain(old)), Some(set)) = (&follow.former, &follow.set) {
                of.push((&old.region, old.filter.as_deref()));
                if set.hysteresis_rank_max.is_some() {
                    wanted = Wanted::Records;
                }
            }
        }
        self.members(&of, self.epoch - 1, wanted)
    }

    /// Who is inside after the cycle.
    fn here(&mut self, follows: &[Follow]) -> Result<Members, EngineError> {
        let (mut of, mut wanted) = (Vec::new(), Wanted::Ids);
        let table = self.subscriptions.take_table();
        for follow in follows.iter().filter(|follow| asks(follow)) {
            let standing = table.number(follow.region).and_then(|it| table.subscription(it));
            let Some(standing) = standing else { continue };
            of.push((&standing.region, standing.filter.as_deref()));
            if standing.with_fixes || !(follow.is_plain && follow.is_snapshot) {
                wanted = Wanted::Stands;
            }
        }
        let members = self.members(&of, self.epoch, wanted);
        drop(of);
        self.subscriptions.put_table(table);
        members
    }
}

fn with_fixes(follow: &Follow, driver: &Driver) -> bool {
    driver.subscriptions.standing_at(follow.region).is_some_and(|standing| standing.with_fixes)
}

/// Whether who was a member matters: not where all members are told and nothing is remembered.
fn compares(follow: &Follow) -> bool {
    follow.former.is_some() && !(follow.is_plain && follow.is_snapshot)
}

/// Whether who is inside is asked.
fn asks(follow: &Follow) -> bool {
    match (&follow.set, follow.is_plain) {
        (Some(_), true) => follow.is_snapshot || follow.former.is_some(),
        (Some(_), false) => true,
        (None, is_plain) => is_plain && follow.is_snapshot,
    }
}

/// Members of a region without memory before the cycle.
fn were(left: &Members, region: usize) -> BTreeMap<u64, Was> {
    let range = left.of(region);
    let known = range.filter_map(|at| {
        let look = look_of(left.stands.get(at)?)?;
        let inside_at = left.records.get(at).map_or((0, 0), |record| (record.x, record.y));
        Some((left.objects[at], (inside_at, look)))
    });
    known.collect()
}

/// Members of a region with memory before the cycle.
fn kept_were(kept: &Kept, seen: &[Seen]) -> BTreeMap<u64, Was> {
    let member = |(object, held): (&u64, &super::stands::Held)| {
        let MembershipState::Member { inside_at, .. } = held.stand else { return None };
        let found = seen.binary_search_by_key(object, |seen| seen.object).ok();
        let still = Observation::Live { row: held.row, is_written: false };
        let look = found.and_then(|at| seen[at].after).unwrap_or(still);
        Some((*object, (inside_at, look)))
    };
    kept.stands.iter().filter_map(member).collect()
}

/// What becomes of the members of a region that was set, and of who is inside; ascending.
fn turns(
    set: &Subscription,
    now: &CycleTime<'_>,
    (is_changed, mut was): (bool, BTreeMap<u64, Was>),
    is: &[FixRow],
) -> Vec<(FixRow, Option<MembershipState>, Option<EventKind>)> {
    let mut turns = Vec::with_capacity(was.len() + is.len());
    for row in is.iter().filter(|row| !was.contains_key(&row.object)) {
        let stand = MembershipState::member(now.clock_ms, (row.x, row.y));
        turns.push((*row, Some(stand), is_changed.then_some(EventKind::Enter)));
    }
    while let Some((_, (inside_at, look))) = was.pop_first() {
        let (stand, event) = transfer_member(set, now, inside_at, &look);
        turns.push((*look.row(), stand, event));
    }
    turns.sort_unstable_by_key(|(row, ..)| row.object);
    turns
}

/// All members of a region that remembers.
fn present(stands: &mut Stands, now: &CycleTime<'_>, region: RegionId) -> HostMade {
    let mut told = HostMade { region, is_snapshot: true, ..HostMade::default() };
    let Some(number) = stands.number(region) else { return told };
    stands.present(number, now);
    if let Some(kept) = stands.region(number) {
        for held in kept.stands.values().filter(|held| held.stand.is_member()) {
            told.push(EventKind::Present as u8, held.row, kept.subscription.with_fixes);
        }
    }
    told
}
