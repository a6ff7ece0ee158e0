//! What happened in regions that judge every fix, or that remember how objects stand to them?
//!
//! Object by object: the regions that may have changed are those it stands to and those whose cells
//! hold one of its positions. Then those that time alone has caught up with. The rules are those of
//! `stage/subscription.rs`.

use shoal_codec::FixRow;

use super::motion::{Event, Motion, MotionFate, Told, What, fix_of};
use super::prefetch;
use super::record::Attributes;
use super::shard::Shard;
use super::standing::{Entry, Position, Role, Standing, Subject};
use crate::stage::region_index::CellRegions;
use crate::stage::subscription::{
    Class, CycleTime, MembershipState, ObjectChange, Observation, Step, apply_step, due_ms, look,
    split_into_steps,
};
use crate::subscription::{EvaluationMode, EventKind};

/// Objects whose lists are asked for ahead; cells twice as far, regions half as far.
const AHEAD: usize = 8;
/// Regions of one cell that are asked for ahead.
const ASKED_AHEAD: usize = 16;

/// What judging the steps of a shard reads.
#[derive(Clone, Copy)]
pub(super) struct Stepping<'a> {
    pub(super) standing: &'a Standing,
    pub(super) now: CycleTime<'a>,
    pub(super) shard: &'a Shard,
    /// Finds the attributes of a row by arrival; `None` when no row of the cycle has any.
    pub(super) attributes: Option<&'a (dyn Fn(u32) -> Attributes + Sync)>,
}

/// Lists that are used again from object to object.
#[derive(Default)]
struct Scratch {
    arrived: Vec<ObjectChange>,
    steps: Vec<Step>,
    regions: Vec<u32>,
}

/// One object while its regions are judged.
struct Object<'a> {
    place: usize,
    motion: &'a Motion,
    before: Option<FixRow>,
    after: Observation,
    steps: &'a [Step],
}

/// Which regions a pass judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// All.
    First,
    /// Again those that remember nothing.
    Again,
}

impl Stepping<'_> {
    /// Judges all objects of a cycle; `tell` takes every event that is wanted, the row among the
    /// told ones where it is no record.
    pub(super) fn run(
        &self,
        told: &mut Told,
        pass: Pass,
        tell: &mut impl FnMut(&mut Told, Event, Class),
    ) {
        let mut scratch = Scratch::default();
        let motions = std::mem::take(&mut told.motions);
        let mut happenings = std::mem::take(&mut told.happenings);
        // Stable: an object's happenings stay in order of arrival.
        happenings.sort_by_key(|happening| happening.place);
        for (place, motion) in motions.iter().enumerate() {
            self.ask_ahead(told, &motions, place);
            let before = told.befores.get(place).copied().filter(|_| motion.had);
            let after = self.shard.look_of(motion);
            scratch.steps.clear();
            if self.standing.every_fix > 0 {
                self.cut(told.places[place], motion, before, &happenings, &mut scratch);
            }
            self.candidates(told, motion, &mut scratch);
            let Scratch { steps, regions, .. } = &scratch;
            let object = Object { place, motion, before, after, steps };
            for region in regions {
                self.region(told, &object, *region, pass, tell);
            }
        }
        (told.motions, told.happenings) = (motions, happenings);
    }

    /// Looks again at those that time alone may have changed.
    pub(super) fn catch_up(&self, told: &mut Told, tell: &mut impl FnMut(&mut Told, Event, Class)) {
        while let Some(place) = told.members.pop_due(self.now.clock_ms) {
            let (region, slot, stand) = told.members.get(place);
            let subject = self.standing.subject(region);
            if matches!(subject.role, Role::Former | Role::Ended) {
                continue;
            }
            let of = &self.standing.entry(region).subscription;
            let row = self.shard.row_in(slot);
            let (after, event) =
                look(of, &self.now, Some(stand), &Observation::Live { row, is_written: false });
            self.keep(told, (slot, region), Some(place), after, &row);
            let is_told = subject.role == Role::Told;
            if let Some(kind) = event.filter(|kind| is_told && subject.wanted.contains(*kind)) {
                tell(told, Event::of_slot(region, row.object, kind, slot), Class::Stateful);
            }
        }
    }

    /// Asks the cache for the cells of objects to come, then for their lists.
    fn ask_ahead(&self, told: &Told, motions: &[Motion], place: usize) {
        let index = &self.standing.stepped;
        if self.standing.stateful > 0 {
            let slot = |ahead: usize| motions.get(place + ahead).map(|motion| motion.slot);
            told.members.ask_ahead(slot(AHEAD), slot(2 * AHEAD));
            slot(AHEAD / 2).into_iter().for_each(|slot| told.members.ask_further(slot));
        }
        for level in 0..index.levels() {
            let cell = |(x, y): (i32, i32)| index.cell(level, x, y);
            if let Some(motion) = motions.get(place + 2 * AHEAD) {
                for key in [cell(motion.from), cell(motion.to)] {
                    prefetch::read(std::slice::from_ref(index.first_look(level, key)), 0);
                }
            }
            if let Some(motion) = motions.get(place + AHEAD) {
                prefetch::read(index.regions(level, cell(motion.to)).all(), 0);
            }
            if let Some(motion) = motions.get(place + AHEAD / 2) {
                let regions = index.regions(level, cell(motion.to)).all();
                for region in &regions[..regions.len().min(ASKED_AHEAD)] {
                    self.standing.prefetch(*region);
                }
            }
            if let Some(motion) = motions.get(place + 2) {
                let regions = index.regions(level, cell(motion.to)).all();
                for region in &regions[..regions.len().min(ASKED_AHEAD)] {
                    self.standing.prefetch_subscription(*region);
                }
            }
        }
    }

    /// Cuts what happened to an object into steps.
    fn cut(
        &self,
        touched: u32,
        motion: &Motion,
        before: Option<FixRow>,
        happenings: &[super::motion::Happening],
        scratch: &mut Scratch,
    ) {
        let first = happenings.partition_point(|happening| happening.place < touched);
        let own = happenings[first..].iter().take_while(|happening| happening.place == touched);
        scratch.arrived.clear();
        scratch.arrived.extend(own.map(|happening| match happening.what {
            What::End(reason) => ObjectChange::End(reason),
            What::Row(row) => {
                let attributes = self.attributes.map_or(Attributes::UNKNOWN, |of| of(row.arrival));
                ObjectChange::Row(fix_of(&row, attributes))
            }
        }));
        let is_expired = motion.fate == MotionFate::Gone(EventKind::Expired);
        let expired = is_expired.then(|| self.shard.row_of(motion));
        split_into_steps(before, &mut scratch.arrived, expired, &mut scratch.steps);
    }

    /// The regions that may have changed, each once.
    fn candidates(&self, told: &Told, motion: &Motion, scratch: &mut Scratch) {
        let Scratch { steps, regions, .. } = scratch;
        regions.clear();
        regions.extend(told.members.of_object(motion.slot).map(|(region, ..)| region));
        let mut add = |cell: CellRegions<'_>| {
            regions.extend_from_slice(cell.all());
        };
        let index = &self.standing.stepped;
        if motion.had {
            index.at(motion.from.0, motion.from.1, &mut add);
        }
        index.at(motion.to.0, motion.to.1, &mut add);
        for step in steps.iter() {
            let Observation::Live { row, .. } = step.look else { continue };
            if (row.x, row.y) != motion.to {
                index.at(row.x, row.y, &mut add);
            }
        }
        if self.standing.crossing.levels() > 0 {
            for step in steps.iter() {
                if let (Some(before), Observation::Live { row, .. }) = (step.before, step.look) {
                    let (before, after) = ((before.x, before.y), (row.x, row.y));
                    self.standing.crossing.between(self.now.space, before, after, regions);
                }
            }
        }
        regions.sort_unstable();
        regions.dedup();
    }

    /// Judges one region for one object.
    fn region(
        &self,
        told: &mut Told,
        object: &Object<'_>,
        region: u32,
        pass: Pass,
        tell: &mut impl FnMut(&mut Told, Event, Class),
    ) {
        let Subject { role, class, judging, has_filter, .. } = *self.standing.subject(region);
        let (is_kept, slot) = (class == Class::Stateful, object.motion.slot);
        if role == Role::Ended || (is_kept && pass == Pass::Again) {
            return;
        }
        let held = told.members.of_object(slot).find(|(held, ..)| is_kept && *held == region);
        if held.is_none() && judging != EvaluationMode::Crossing && !self.touches(region, object) {
            return;
        }
        if class == Class::Stepped && judging == EvaluationMode::EveryFix && !has_filter {
            return self.positions(told, object, region, role, pass, tell);
        }
        let entry = self.standing.entry(region);
        let of = &entry.subscription;
        let mut stand = match (is_kept, object.before) {
            (true, _) => held.map(|(_, _, stand)| stand),
            (false, before) => before
                .filter(|row| of.holds(row, self.now.tick_ms))
                .map(|row| MembershipState::member(self.now.clock_ms, (row.x, row.y))),
        };
        if role == Role::Former {
            let is_listed = stand.is_some_and(|stand| stand.is_member())
                && object.motion.fate != MotionFate::Still
                && (!is_kept || matches!(object.motion.fate, MotionFate::Gone(_)));
            if is_listed && pass == Pass::First {
                told.former.push((region, object.place as u32));
            }
            return;
        }
        if judging == EvaluationMode::Cycle {
            if object.motion.fate == MotionFate::Still {
                return;
            }
            let event;
            (stand, event) = look(of, &self.now, stand, &object.after);
            let told_of = Event::of_slot;
            self.tell(
                told,
                entry,
                region,
                event.map(|kind| told_of(region, object.motion.object, kind, slot)),
                tell,
            );
        } else {
            stand = self.steps(told, entry, region, object, stand, tell);
        }
        if is_kept {
            let (place, row) = (held.map(|(_, place, _)| place), object.after.row());
            self.keep(told, (slot, region), place, stand, row);
        }
    }

    /// Whether some position of an object lies in a region.
    fn touches(&self, region: u32, object: &Object<'_>) -> bool {
        let contains =
            |(x, y): (i32, i32)| self.standing.contains(region, &mut Position::new(x, y));
        let Motion { from, to, .. } = *object.motion;
        let others = object.steps.iter().filter_map(|step| match &step.look {
            Observation::Live { row, .. } => Some((row.x, row.y)),
            Observation::Gone { .. } => None,
        });
        contains(to) || contains(from) || others.filter(|at| *at != to).any(contains)
    }

    /// Judges every step by position alone, without a look at the subscription.
    fn positions(
        &self,
        told: &mut Told,
        object: &Object<'_>,
        region: u32,
        role: Role,
        pass: Pass,
        tell: &mut impl FnMut(&mut Told, Event, Class),
    ) {
        let contains =
            |row: &FixRow| self.standing.contains(region, &mut Position::new(row.x, row.y));
        let mut was = object.before.as_ref().is_some_and(contains);
        if role == Role::Former && was && pass == Pass::First {
            if object.motion.fate != MotionFate::Still {
                told.former.push((region, object.place as u32));
            }
        } else if role == Role::Told {
            for step in object.steps {
                let is = matches!(&step.look, Observation::Live { row, .. } if contains(row));
                let (kind, row) = match (was, is, step.look) {
                    (true, true, Observation::Live { row, .. }) => (Some(EventKind::Move), row),
                    (false, true, Observation::Live { row, .. }) => (Some(EventKind::Enter), row),
                    (true, false, Observation::Live { row, .. }) => (Some(EventKind::Left), row),
                    (true, false, Observation::Gone { row, reason }) => (Some(reason), row),
                    (_, _, look) => (None, *look.row()),
                };
                was = is;
                let is_written = !matches!(step.look, Observation::Live { is_written: false, .. });
                let wanted = self.standing.subject(region).wanted;
                if let Some(kind) = kind.filter(|kind| is_written && wanted.contains(*kind)) {
                    told.rows.push(row);
                    let event = Event::of_row(region, row.object, kind, told.rows.len() - 1);
                    tell(told, event, Class::Stepped);
                }
            }
        }
    }

    /// Judges every step; the stand after the last.
    fn steps(
        &self,
        told: &mut Told,
        entry: &Entry,
        region: u32,
        object: &Object<'_>,
        mut stand: Option<MembershipState>,
        tell: &mut impl FnMut(&mut Told, Event, Class),
    ) -> Option<MembershipState> {
        for step in object.steps {
            let event;
            (stand, event) = apply_step(&entry.subscription, &self.now, stand, step);
            let subject = self.standing.subject(region);
            let is_told = |kind: &EventKind| subject.wanted.contains(*kind);
            if let Some(kind) = event.filter(is_told).filter(|_| subject.role == Role::Told) {
                let (row, place) = (*step.look.row(), told.rows.len());
                told.rows.push(row);
                tell(told, Event::of_row(region, row.object, kind, place), entry.class);
            }
        }
        stand
    }

    fn tell(
        &self,
        told: &mut Told,
        entry: &Entry,
        region: u32,
        event: Option<Event>,
        tell: &mut impl FnMut(&mut Told, Event, Class),
    ) {
        let subject = self.standing.subject(region);
        let Some(event) = event.filter(|_| subject.role == Role::Told) else { return };
        let kind = EventKind::of(event.kind());
        if kind.is_some_and(|kind| subject.wanted.contains(kind)) {
            tell(told, event, entry.class);
        }
    }

    /// Files what an object's stand has become.
    fn keep(
        &self,
        told: &mut Told,
        (slot, region): (u32, u32),
        held: Option<u32>,
        stand: Option<MembershipState>,
        row: &FixRow,
    ) {
        let members = &mut told.members;
        let place = match (held, stand) {
            (Some(place), Some(stand)) => {
                members.set(place, stand);
                place
            }
            (None, Some(stand)) => members.insert(slot, region, stand),
            (Some(place), None) => return members.remove(place),
            (None, None) => return,
        };
        let of = &self.standing.entry(region).subscription;
        if let Some(stand) = stand {
            members.queue(place, due_ms(of, &stand, row));
        }
    }
}
