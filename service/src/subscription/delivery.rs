//! Which messages does one cycle make for one session?
//!
//! In this order: that regions lagged, members of regions, events. Regions whose members are
//! awaited are told nothing else. What an engine could not tell and what there was no room for is
//! asked for again, the second time after a while.

use shoal_engine::{RegionEvents, RegionId};
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;

use super::large::LargeSnapshot;
use super::message::{Body, BodyWriter, body, row_bytes};
use super::outbox::Outgoing;
use super::session::{Delivered, Delivering, State};
use crate::limits::SNAPSHOT_SHARE;

/// That messages of these regions were lost; of all, if none is named.
pub(super) fn lagged(region_ids: Vec<u64>) -> Body {
    body(Kind::Lagged(v1::Lagged { region_ids }))
}

/// Messages to be numbered, the last of which completes the epoch.
pub(super) fn outgoing(
    state: &mut State,
    of: &Delivering<'_>,
    places: &[(usize, u64)],
    delivered: &mut Delivered,
) -> Vec<Outgoing> {
    let space = &of.tools.space;
    let mut events = BodyWriter::events(space, of.told);
    let mut members = BodyWriter::snapshots(space, of.told);
    let mut large = Vec::new();
    let mut lost = Vec::new();
    let mut told = 0;
    for &(place, region_id) in places {
        let found = of.set.get(place);
        if found.is_lagged {
            lost.push(region_id);
            ask_again(state, region_id, found.region, delivered);
        } else if found.is_snapshot {
            told += found.objects.len() as u64;
            if found.objects.len() * row_bytes(&found) <= of.tools.bytes_max / SNAPSHOT_SHARE {
                state.awaiting.remove(&found.region);
                members.add_members(region_id, &found);
            } else {
                large.extend(hold(state, of, (place, region_id), &found));
            }
        } else if !state.awaiting.contains(&found.region) {
            told += found.objects.len() as u64;
            events.add_events(region_id, &found);
        }
    }
    of.tools.metrics.count_events(told);
    if !lost.is_empty() {
        of.tools.metrics.count_lagged();
    }
    let lost = (!lost.is_empty()).then(|| Outgoing::Other(lagged(lost)));
    let members = members.finish().into_iter().map(Outgoing::Other);
    let large = large.into_iter().map(Outgoing::Large);
    let events = events.finish().into_iter().map(Outgoing::Events);
    lost.into_iter().chain(members).chain(large).chain(events).collect()
}

/// A large snapshot, if there is room for it now.
fn hold(
    state: &mut State,
    of: &Delivering<'_>,
    place: (usize, u64),
    found: &RegionEvents<'_>,
) -> Option<LargeSnapshot> {
    let answers = &of.tools.answers;
    let held = LargeSnapshot::hold(answers, of.set, place, of.tools.space, of.told);
    if held.is_some() {
        state.awaiting.remove(&found.region);
    } else {
        state.awaiting.insert(found.region);
        state.deferred.insert(found.region);
    }
    held
}

fn ask_again(state: &mut State, region_id: u64, region: RegionId, delivered: &mut Delivered) {
    let standing = state.regions.get(&region_id).filter(|of| of.region == region);
    if !standing.is_some_and(|of| of.snapshot) {
        return;
    }
    if state.awaiting.insert(region) {
        delivered.snapshots.push(region);
    } else {
        state.deferred.insert(region);
    }
}
