//! What do a cycle's changes of the standing regions come to?
//!
//! Changes act in order; what counts is how a region stood before the cycle and how it stands after
//! it. In which cells a region lies is found out by the caller's thread, on all cores.

use std::collections::BTreeMap;

use rayon::prelude::*;
use shoal_engine::{RegionId, Space, Subscription, SubscriptionChange};

use super::cells;
use super::table::{Table, is_plain, is_quiet};

/// The cells of one added region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filing {
    /// Numbers of cells, and flags of the references.
    pub(super) cells: Vec<(u64, u32)>,
    /// The level, by bit.
    pub(super) levels: u32,
}

/// Changes, and beside each the cells of what it adds.
pub(crate) type Changes = Vec<(SubscriptionChange, Filing)>;

/// Files what changes add.
pub(crate) fn file(space: &Space, changes: Vec<SubscriptionChange>) -> Changes {
    let filed = |change: SubscriptionChange| {
        let mut filing = Filing::default();
        if let SubscriptionChange::Set { subscription, .. } = &change {
            let quiet = is_quiet(subscription);
            let level = cells::file(space, &subscription.region, quiet, &mut filing.cells);
            filing.levels = level.map_or(0, |level| 1 << level);
        }
        (change, filing)
    };
    changes.into_par_iter().map(filed).collect()
}

/// Whether changes add a region that remembers.
pub(super) fn remembers(changes: &Changes) -> bool {
    changes.iter().any(|(change, _)| match change {
        SubscriptionChange::Set { subscription, .. } => !is_plain(subscription),
        SubscriptionChange::Snapshot(_) | SubscriptionChange::Remove(_) => false,
    })
}

/// What a cycle makes of one region.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The region that stood before the cycle ends.
    pub(super) is_ended: bool,
    /// What stands now in its place, or anew.
    pub(super) set: Option<(Box<Subscription>, Filing)>,
    pub(super) is_snapshot: bool,
    /// What stands now follows what stood before.
    pub(super) is_changed: bool,
}

/// What the changes come to, ascending by region; unknown ones that end are nothing.
pub(super) fn outcomes(table: &Table, changes: Changes) -> BTreeMap<RegionId, Outcome> {
    let mut outcomes: BTreeMap<RegionId, Outcome> = BTreeMap::new();
    for (change, filing) in changes {
        match change {
            SubscriptionChange::Set { region, subscription, is_snapshot_wanted } => {
                let stood = table.number(region).is_some();
                let outcome = outcomes.entry(region).or_default();
                if outcome.set.is_none() {
                    outcome.is_changed = stood && !outcome.is_ended;
                    outcome.is_ended = stood;
                }
                outcome.set = Some((subscription, filing));
                outcome.is_snapshot |= is_snapshot_wanted;
            }
            SubscriptionChange::Snapshot(region) => {
                let stands = table.number(region).is_some();
                let before = outcomes.get(&region);
                if before.map_or(stands, |it| it.set.is_some() || (stands && !it.is_ended)) {
                    outcomes.entry(region).or_default().is_snapshot = true;
                }
            }
            SubscriptionChange::Remove(region) => {
                let is_ended = table.number(region).is_some();
                outcomes.insert(region, Outcome { is_ended, ..Outcome::default() });
            }
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use shoal_engine::Region;

    use super::*;

    const ID: RegionId = RegionId(7);

    fn set(is_snapshot_wanted: bool) -> SubscriptionChange {
        let region = Region::rectangle(&Space::geographic(), 0.0, 0.0, 1.0, 1.0).unwrap();
        let subscription = Box::new(Subscription::new(region));
        SubscriptionChange::Set { region: ID, subscription, is_snapshot_wanted }
    }

    /// Ended, set, snapshot, changed.
    fn told(stands: bool, changes: Vec<SubscriptionChange>) -> Option<(bool, bool, bool, bool)> {
        let mut table = Table::default();
        if let (true, SubscriptionChange::Set { subscription, .. }) = (stands, set(false)) {
            table.add(ID, subscription, 1);
        }
        let mut outcomes = outcomes(&table, file(&Space::geographic(), changes));
        let outcome = outcomes.remove(&ID)?;
        Some((outcome.is_ended, outcome.set.is_some(), outcome.is_snapshot, outcome.is_changed))
    }

    #[test]
    fn changes_come_to_what_stands_after_them() {
        let (remove, snapshot) =
            (|| SubscriptionChange::Remove(ID), || SubscriptionChange::Snapshot(ID));
        assert_eq!(told(false, vec![set(false)]), Some((false, true, false, false)));
        assert_eq!(told(true, vec![set(true)]), Some((true, true, true, true)));
        assert_eq!(told(true, vec![set(true), set(false)]), Some((true, true, true, true)));
        assert_eq!(told(true, vec![remove(), set(false)]), Some((true, true, false, false)));
        assert_eq!(told(true, vec![set(true), remove()]), Some((true, false, false, false)));
        let again = vec![set(true), remove(), set(false)];
        assert_eq!(told(true, again), Some((true, true, false, false)));
        assert_eq!(told(true, vec![snapshot()]), Some((false, false, true, false)));
        assert_eq!(told(false, vec![snapshot()]), None);
        let after = vec![remove(), snapshot()];
        assert_eq!(told(true, after), Some((true, false, false, false)));
        let behind = vec![snapshot(), set(false), snapshot()];
        assert_eq!(told(false, behind), Some((false, true, true, false)));
        assert_eq!(told(false, vec![remove()]), Some((false, false, false, false)));
    }
}
