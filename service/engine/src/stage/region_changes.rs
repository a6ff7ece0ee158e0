//! The net effect of the subscription changes of one cycle on each region.
//!
//! Changes act in order; the last one of each region decides. The CPU and CUDA backends reduce them
//! here and transfer the members of a changed region with [`transfer_members`].

use std::collections::{BTreeMap, BTreeSet};

use super::subscription::{CycleTime, MembershipState, Observation, Transition, transfer_member};
use crate::subscription::{EventKind, RegionId, Subscription, SubscriptionChange};

/// The effect of a cycle's changes on one region that exists after them.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionChange<T> {
    /// The region's number before the cycle; `None` for a new region.
    pub old: Option<u32>,
    /// The subscription from this cycle on, with what the backend prepared for it. `None` when only
    /// a snapshot is wanted.
    pub new: Option<(Box<Subscription>, T)>,
    /// Whether a snapshot takes the place of its events.
    pub is_snapshot: bool,
}

impl<T> RegionChange<T> {
    /// Whether the members before the cycle are compared with those after it.
    #[must_use]
    pub fn is_comparison(&self) -> bool {
        self.old.is_some() && self.new.is_some()
    }
}

/// The net effect of a cycle's changes.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionChanges<T> {
    /// Set regions and snapshots, by region.
    pub changes: BTreeMap<RegionId, RegionChange<T>>,
    /// Numbers of the regions that were removed. A region of the same id in `changes` is a new one.
    pub removed: BTreeSet<u32>,
}

impl<T> Default for RegionChanges<T> {
    fn default() -> Self {
        Self { changes: BTreeMap::new(), removed: BTreeSet::new() }
    }
}

impl<T> RegionChanges<T> {
    /// Reduces changes in order; `number_of` gives the number of a region before the cycle. Unknown
    /// regions in snapshots and removals have no effect.
    pub fn reduce(
        changes: impl IntoIterator<Item = (SubscriptionChange, T)>,
        number_of: impl Fn(RegionId) -> Option<u32>,
    ) -> Self {
        let mut reduced = Self::default();
        for (change, prepared) in changes {
            let Self { changes, removed } = &mut reduced;
            let current = |region, removed: &BTreeSet<u32>| {
                number_of(region).filter(|number| !removed.contains(number))
            };
            match change {
                SubscriptionChange::Set { region, subscription, is_snapshot_wanted } => {
                    let change = changes.entry(region).or_insert_with(|| RegionChange {
                        old: current(region, removed),
                        new: None,
                        is_snapshot: false,
                    });
                    change.new = Some((subscription, prepared));
                    change.is_snapshot |= is_snapshot_wanted;
                }
                SubscriptionChange::Snapshot(region) => {
                    if let Some(change) = changes.get_mut(&region) {
                        change.is_snapshot = true;
                    } else if let old @ Some(_) = current(region, removed) {
                        let change = RegionChange { old, new: None, is_snapshot: true };
                        changes.insert(region, change);
                    }
                }
                SubscriptionChange::Remove(region) => {
                    changes.remove(&region);
                    removed.extend(current(region, removed));
                }
            }
        }
        reduced
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.removed.is_empty()
    }

    /// Whether some region compares its members before the cycle with those after it.
    #[must_use]
    pub fn has_comparison(&self) -> bool {
        self.changes.values().any(RegionChange::is_comparison)
    }
}

/// A member of a region before its change. `S` tells where the backend stores the member's record.
#[derive(Clone, Copy, Debug)]
pub struct FormerMember<S> {
    /// Its id.
    pub object: u64,
    /// Where its record is.
    pub source: S,
    /// Where it last was inside.
    pub inside_at: (i32, i32),
    /// The object after the cycle.
    pub observation: Observation,
}

/// The result of a region's change for one object: id, source of the record, state and event.
pub type Transferred<S> = (u64, S, Option<MembershipState>, Option<EventKind>);

/// Compares the members of a changed region before the cycle with the objects that are inside after
/// it; both ascend by object, and so does the result. `position_of` reads where an object is.
pub fn transfer_members<S: Copy>(
    of: &Subscription,
    now: &CycleTime<'_>,
    previous_members: &[FormerMember<S>],
    inside: impl IntoIterator<Item = (u64, S)>,
    position_of: impl Fn(S) -> (i32, i32),
) -> Vec<Transferred<S>> {
    let transferred = |former: &FormerMember<S>| {
        let (state, event): Transition =
            transfer_member(of, now, former.inside_at, &former.observation);
        (former.object, former.source, state, event)
    };
    let mut result = Vec::with_capacity(previous_members.len());
    let mut previous_members = previous_members.iter().peekable();
    for (object, source) in inside {
        while let Some(former) = previous_members.next_if(|former| former.object < object) {
            result.push(transferred(former));
        }
        if previous_members.peek().is_none_or(|former| former.object != object) {
            let state = MembershipState::member(now.clock_ms, position_of(source));
            result.push((object, source, Some(state), Some(EventKind::Enter)));
        }
    }
    result.extend(previous_members.map(transferred));
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;
    use crate::space::Space;

    const ID: RegionId = RegionId(7);

    fn set(is_snapshot_wanted: bool) -> SubscriptionChange {
        let region = Region::rectangle(&Space::geographic(), 0.0, 0.0, 1.0, 1.0).unwrap();
        let subscription = Box::new(Subscription::new(region));
        SubscriptionChange::Set { region: ID, subscription, is_snapshot_wanted }
    }

    #[test]
    fn the_last_change_of_a_region_decides() {
        let (remove, snapshot) =
            (|| SubscriptionChange::Remove(ID), || SubscriptionChange::Snapshot(ID));
        // Exists before; changes; removed; old number, set, snapshot of what is left.
        let cases = [
            (false, vec![set(false)], false, Some((false, true, false))),
            (true, vec![set(true)], false, Some((true, true, true))),
            (true, vec![set(true), set(false)], false, Some((true, true, true))),
            (true, vec![remove(), set(false)], true, Some((false, true, false))),
            (true, vec![set(true), remove()], true, None),
            (true, vec![set(true), remove(), set(false)], true, Some((false, true, false))),
            (true, vec![snapshot()], false, Some((true, false, true))),
            (true, vec![remove(), remove(), snapshot()], true, None),
            (false, vec![snapshot()], false, None),
            (false, vec![snapshot(), set(false), snapshot()], false, Some((false, true, true))),
            (false, vec![remove()], false, None),
        ];
        for (number, (exists, changes, is_removed, expected)) in cases.into_iter().enumerate() {
            let changes = changes.into_iter().map(|change| (change, ()));
            let reduced = RegionChanges::reduce(changes, |_| exists.then_some(3));
            let left = reduced.changes.get(&ID);
            let left = left.map(|it| (it.old.is_some(), it.new.is_some(), it.is_snapshot));
            assert_eq!(left, expected, "case {number}");
            assert_eq!(reduced.removed.contains(&3), is_removed, "case {number}");
        }
    }
}
