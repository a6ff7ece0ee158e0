//! The events of queries that are new, change or request a snapshot.
//! The objects inside become members of a new query; a changed one compares the members before the
//! cycle with the state after it, by the engine's rules. A snapshot only reports all members.

use shoal_codec::FixRow;
use shoal_engine::stage::region_changes::{FormerMember, transfer_members};
use shoal_engine::stage::subscription::{CycleTime, MembershipState, Observation};
use shoal_engine::{EngineError, EventKind, RegionId, Subscription};

use super::events::HostEvents;
use super::host_evaluation::ObservedObject;
use super::host_queries::HostQueries;
use super::members::{MemberSearch, Members, Wanted};
use super::modified_objects::observation_of;
use super::stage::SubscriptionStage;
use crate::state::record::row;

/// The query before a change.
#[derive(Debug)]
pub(super) enum Former {
    /// The device finds its members.
    Plain(Box<Subscription>),
    /// Its memberships, with the records of their objects.
    Memberships(Vec<(FixRow, MembershipState)>),
}

/// The query of a change, if the query exists after the cycle.
#[derive(Debug)]
pub(super) struct ChangedQuery {
    pub(super) region: RegionId,
    /// The new subscription, if it was set.
    pub(super) set: Option<Box<Subscription>>,
    /// The query before, if it was changed.
    pub(super) former: Option<Former>,
    pub(super) is_snapshot: bool,
    /// Whether the device evaluates it alone.
    pub(super) is_plain: bool,
}

impl ChangedQuery {
    /// True for a changed query that is compared with its former members. False if a snapshot
    /// reports all members and memberships are not stored.
    fn is_comparison(&self) -> bool {
        self.former.is_some() && !(self.is_plain && self.is_snapshot)
    }

    /// Whether it needs the objects that are inside after the cycle.
    fn needs_inside(&self) -> bool {
        match (&self.set, self.is_plain) {
            (Some(_), true) => self.is_snapshot || self.former.is_some(),
            (Some(_), false) => true,
            (None, is_plain) => is_plain && self.is_snapshot,
        }
    }
}

impl SubscriptionStage {
    /// The events of changed queries; those of the host are added to `queries`.
    pub(super) fn change_queries(
        &mut self,
        search: &mut MemberSearch<'_>,
        changed: Vec<ChangedQuery>,
        objects: &[ObservedObject],
        queries: &mut HostQueries,
    ) -> Result<Vec<HostEvents>, EngineError> {
        let mut result = Vec::new();
        if changed.is_empty() {
            return Ok(result);
        }
        let space = self.context.options.space;
        let now = CycleTime::new(&space, search.state.clock_ms);
        let before = self.plain_previous_members(search, &changed)?;
        let mut inside = self.inside(search, &changed)?;
        let (mut next_before, mut next_inside) = (0, 0);
        for change in changed {
            let previous_members = match &change.former {
                Some(Former::Plain(_)) if change.is_comparison() => {
                    next_before += 1;
                    previous_members_of(&before, next_before - 1)
                }
                Some(Former::Memberships(held)) if change.is_comparison() => {
                    held_previous_members(held, objects)
                }
                _ => Vec::new(),
            };
            let mut events = HostEvents { region: change.region, ..HostEvents::default() };
            let mut range = 0..0;
            if change.needs_inside() {
                next_inside += 1;
                range = inside.of(next_inside - 1);
            }
            if change.is_plain && change.is_snapshot {
                events.is_snapshot = true;
                events.kinds = vec![EventKind::Present as u8; range.len()];
                events.objects = inside.take_objects(range.clone());
                let query = search.state.queries.table.find(change.region);
                if query.is_some_and(|query| query.with_fixes) {
                    events.fixes = inside.outcomes[range].iter().map(row).collect();
                }
                result.push(events);
                continue;
            }
            if let Some(set) = &change.set {
                let rows = inside.outcomes.get(range).unwrap_or(&[]).iter().map(row);
                let rows = rows.map(|row| (row.object, row));
                let position_of = |row: FixRow| (row.x, row.y);
                let transferred = transfer_members(set, &now, &previous_members, rows, position_of);
                let number = (!change.is_plain).then(|| queries.insert(change.region, set.clone()));
                for (_, row, state, event) in transferred {
                    if let Some(number) = number {
                        queries.update(number, None, &row, state);
                    }
                    // A new query has no events.
                    let event = event.filter(|_| change.former.is_some());
                    if let Some(kind) = event.filter(|kind| set.wanted.reports(*kind)) {
                        events.push(kind, row, set.with_fixes);
                    }
                }
            }
            if change.is_snapshot {
                events = snapshot(queries, &now, change.region);
            }
            if events.is_snapshot || !events.objects.is_empty() {
                result.push(events);
            }
        }
        Ok(result)
    }

    /// The members before the cycle of queries that the device evaluated.
    fn plain_previous_members(
        &mut self,
        search: &mut MemberSearch<'_>,
        changed: &[ChangedQuery],
    ) -> Result<Members, EngineError> {
        let mut of = Vec::new();
        let mut wanted = Wanted::Outcomes;
        for change in changed.iter().filter(|change| change.is_comparison()) {
            if let (Some(Former::Plain(old)), Some(set)) = (&change.former, &change.set) {
                of.push((&old.region, old.filter.as_deref()));
                if set.hysteresis_rank_max.is_some() {
                    wanted = Wanted::Records;
                }
            }
        }
        search.members(&of, search.state.epoch - 1, wanted, &mut self.members)
    }

    /// The objects that are inside after the cycle.
    fn inside(
        &mut self,
        search: &mut MemberSearch<'_>,
        changed: &[ChangedQuery],
    ) -> Result<Members, EngineError> {
        let (mut of, mut wanted) = (Vec::new(), Wanted::Ids);
        let table = std::mem::take(&mut search.state.queries.table);
        for change in changed.iter().filter(|change| change.needs_inside()) {
            let Some(query) = table.find(change.region) else { continue };
            of.push((&query.region, query.filter.as_deref()));
            if query.with_fixes || !(change.is_plain && change.is_snapshot) {
                wanted = Wanted::Outcomes;
            }
        }
        let members = search.members(&of, search.state.epoch, wanted, &mut self.members);
        drop(of);
        search.state.queries.table = table;
        members
    }
}

/// Members of a plain query before the cycle, ascending.
fn previous_members_of(before: &Members, query: usize) -> Vec<FormerMember<FixRow>> {
    let former = |at: usize| {
        let observation = observation_of(before.outcomes.get(at)?)?;
        let inside_at = before.records.get(at).map_or((0, 0), |record| (record.x, record.y));
        let (object, source) = (before.objects[at], *observation.row());
        Some(FormerMember { object, source, inside_at, observation })
    };
    before.of(query).filter_map(former).collect()
}

/// Members among the memberships before the cycle, ascending.
fn held_previous_members(
    held: &[(FixRow, MembershipState)],
    objects: &[ObservedObject],
) -> Vec<FormerMember<FixRow>> {
    let former = |(row, state): &(FixRow, MembershipState)| {
        let MembershipState::Member { inside_at, .. } = *state else { return None };
        let found = objects.binary_search_by_key(&row.object, |object| object.object).ok();
        let unchanged = Observation::Live { row: *row, is_written: false };
        let observation = found.and_then(|at| objects[at].after).unwrap_or(unchanged);
        let (object, source) = (row.object, *observation.row());
        Some(FormerMember { object, source, inside_at, observation })
    };
    let mut previous_members: Vec<_> = held.iter().filter_map(former).collect();
    previous_members.sort_unstable_by_key(|former| former.object);
    previous_members
}

/// All members of a host's query.
fn snapshot(queries: &mut HostQueries, now: &CycleTime<'_>, region: RegionId) -> HostEvents {
    let mut events = HostEvents { region, is_snapshot: true, ..HostEvents::default() };
    let Some(number) = queries.number(region) else { return events };
    let rows = queries.report_members(number, now.clock_ms);
    let with_fixes = queries.get(number).subscription.with_fixes;
    rows.into_iter().for_each(|row| events.push(EventKind::Present, row, with_fixes));
    events
}
