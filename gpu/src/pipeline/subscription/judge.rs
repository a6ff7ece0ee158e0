//! What do the objects of a cycle come to in the regions that remember?
//!
//! Every object that the device names is looked at in the regions near it and in those that it
//! stands to; then whoever is due. The engine's state machine decides.

use std::collections::BTreeMap;

use rayon::prelude::*;
use shoal_codec::FixRow;
use shoal_engine::stage::region_index::CellRegions;
use shoal_engine::stage::subscription::{
    CycleTime, MembershipState, ObjectChange, Observation, Step, apply_step, look, split_into_steps,
};
use shoal_engine::{EvaluationMode, EventKind};

use super::stands::Stands;

/// Objects that a thread judges at a time.
const CHUNK: usize = 1 << 10;

/// One object of a cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) object: u64,
    /// Its record before the cycle.
    pub(super) before: Option<FixRow>,
    /// What became of it; nothing where it came and went.
    pub(super) after: Option<Observation>,
    /// Its rows and ends, where they are judged one by one; their order is lost in that.
    pub(super) arrived: Vec<ObjectChange>,
}

impl Seen {
    fn expired(&self) -> Option<FixRow> {
        match self.after {
            Some(Observation::Gone { row, reason: EventKind::Expired }) => Some(row),
            _ => None,
        }
    }

    /// The look where the cycle is judged as a whole; nothing where the record was not touched.
    fn look(&self) -> Option<Observation> {
        self.after.filter(|look| !matches!(look, Observation::Live { is_written: false, .. }))
    }
}

/// What one object came to in one region: how it stands, and what is told.
struct Judged {
    number: u32,
    row: FixRow,
    stand: Option<MembershipState>,
    told: Vec<(EventKind, FixRow)>,
}

/// By the number of a region what happened, in order of judging.
pub(super) type Happenings = BTreeMap<u32, Vec<(EventKind, FixRow)>>;

/// Looks at all objects of a cycle and at who is due. Objects ascend.
pub(super) fn judge(stands: &mut Stands, now: &CycleTime<'_>, seen: &mut [Seen]) -> Happenings {
    let mut happenings = Happenings::new();
    let known = &*stands;
    let chunks = seen.par_chunks_mut(CHUNK).map(|seen| judge_some(known, now, seen));
    let judged: Vec<Vec<Judged>> = chunks.collect();
    for Judged { number, row, stand, mut told } in judged.into_iter().flatten() {
        stands.set(number, &row, stand);
        if !told.is_empty() {
            happenings.entry(number).or_default().append(&mut told);
        }
    }
    for (number, object) in stands.due(now.clock_ms) {
        let Some(kept) = stands.region(number) else { continue };
        let Some(held) = kept.stands.get(&object) else { continue };
        let (row, is_written) = (held.row, false);
        let here = Observation::Live { row, is_written };
        let (stand, event) = look(&kept.subscription, now, Some(held.stand), &here);
        stands.set(number, &row, stand);
        happenings.entry(number).or_default().extend(event.map(|kind| (kind, row)));
    }
    for events in happenings.values_mut() {
        // Stable: those of one object are in order.
        events.sort_by_key(|(_, row)| row.object);
    }
    happenings
}

/// Judges some objects, in their order. What one comes to is no other's business.
fn judge_some(stands: &Stands, now: &CycleTime<'_>, seen: &mut [Seen]) -> Vec<Judged> {
    let mut judged = Vec::new();
    let (mut steps, mut regions) = (Vec::new(), Vec::new());
    for seen in seen {
        steps.clear();
        if stands.has_steps() {
            let expired = seen.expired();
            split_into_steps(seen.before, &mut seen.arrived, expired, &mut steps);
        }
        candidates(stands, now, seen, &steps, &mut regions);
        judged.extend(regions.iter().filter_map(|number| {
            // Mostly an object is near a region and has nothing to do with it.
            judge_one(stands, now, (seen, &steps), *number)
        }));
    }
    judged
}

/// Judges one object in one region; nothing where it has not stood to it and does not.
fn judge_one(
    stands: &Stands,
    now: &CycleTime<'_>,
    (seen, steps): (&Seen, &[Step]),
    number: u32,
) -> Option<Judged> {
    let kept = stands.region(number)?;
    let of = &kept.subscription;
    let mut stand = kept.stands.get(&seen.object).map(|held| held.stand);
    let (stood, mut told) = (stand.is_some(), Vec::new());
    if of.judging == EvaluationMode::Cycle {
        let after = seen.look()?;
        let event;
        (stand, event) = look(of, now, stand, &after);
        told.extend(event.map(|kind| (kind, *after.row())));
    } else {
        for step in steps {
            let event;
            (stand, event) = apply_step(of, now, stand, step);
            told.extend(event.map(|kind| (kind, *step.look.row())));
        }
    }
    // Without a look nobody is left to stand anywhere.
    let gone = FixRow::new(seen.object, 0, 0, 0);
    let row = seen.after.map_or(gone, |after| *after.row());
    let matters = stood || stand.is_some() || !told.is_empty();
    matters.then_some(Judged { number, row, stand, told })
}

/// The regions that may tell something of an object, each once.
fn candidates(
    stands: &Stands,
    now: &CycleTime<'_>,
    seen: &Seen,
    steps: &[Step],
    regions: &mut Vec<u32>,
) {
    regions.clear();
    regions.extend_from_slice(stands.of_object(seen.object));
    let mut add = |cell: CellRegions<'_>| regions.extend_from_slice(cell.all());
    let after = seen.after.as_ref().map(Observation::row);
    for row in seen.before.iter().chain(after) {
        stands.index.at(row.x, row.y, &mut add);
    }
    for step in steps {
        let row = step.look.row();
        stands.index.at(row.x, row.y, &mut add);
    }
    if stands.crossing.levels() > 0 {
        for step in steps {
            if let (Some(before), Observation::Live { row, .. }) = (step.before, step.look) {
                let (before, after) = ((before.x, before.y), (row.x, row.y));
                stands.crossing.between(now.space, before, after, regions);
            }
        }
    }
    regions.sort_unstable();
    regions.dedup();
}
