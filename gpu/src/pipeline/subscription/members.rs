//! Who is in a region at an epoch, asked through the tables of stage query?
//!
//! For regions that come new, change or are asked to tell all: their members before the cycle or
//! after it, and what became of those in it. Waits for the device; rare beside fixes.

use shoal_engine::layout::Answered;
use shoal_engine::{EngineError, EventKind, Filter, Region, RegionId, Subscription};

use super::told::HostMade;
use crate::launch::{DeviceBuffer, fault};
use crate::pipeline::answers::{row, upload};
use crate::pipeline::driver::Driver;
use crate::pipeline::questions::Shapes;

/// A region that the device finds no events of in this cycle.
#[derive(Debug)]
pub(super) struct Follow {
    pub(super) region: RegionId,
    /// Its number now.
    pub(super) number: u32,
    /// What stood before, when that was changed.
    pub(super) old: Option<Box<Subscription>>,
    pub(super) is_snapshot: bool,
}

/// Members of some regions, region by region, objects ascending.
#[derive(Debug, Default)]
struct Members {
    /// By region its first member, and the end.
    bounds: Vec<u64>,
    objects: Vec<u64>,
    /// What became of them in the cycle; empty when only ids were wanted.
    stands: Vec<Answered>,
}

impl Members {
    fn of(&self, region: usize) -> std::ops::Range<usize> {
        self.bounds[region] as usize..self.bounds[region + 1] as usize
    }
}

impl Driver {
    /// The events of regions that come new, change or tell all.
    pub(super) fn follow(&mut self, follows: &[Follow]) -> Result<Vec<HostMade>, EngineError> {
        let told = |follow: &&Follow| follow.is_snapshot || follow.old.is_some();
        let follows: Vec<&Follow> = follows.iter().filter(told).collect();
        if follows.is_empty() {
            return Ok(Vec::new());
        }
        let table = self.subscriptions.take_table();
        let made = self.follow_in(&table, &follows);
        self.subscriptions.put_table(table);
        made
    }

    fn follow_in(
        &mut self,
        table: &super::table::Table,
        follows: &[&Follow],
    ) -> Result<Vec<HostMade>, EngineError> {
        let now = |follow: &&Follow| table.subscription(follow.number);
        let (mut after, mut before) = (Vec::new(), Vec::new());
        let mut with_records = false;
        for follow in follows {
            let Some(now) = now(follow) else { continue };
            after.push((&now.region, now.filter.as_deref()));
            with_records |= now.with_fixes || !follow.is_snapshot;
            if let (Some(old), false) = (&follow.old, follow.is_snapshot) {
                before.push((&old.region, old.filter.as_deref()));
            }
        }
        let left = self.members(&before, self.epoch - 1, true)?;
        let here = self.members(&after, self.epoch, with_records)?;
        let mut made = Vec::with_capacity(follows.len());
        let mut next_left = 0;
        for (at, follow) in follows.iter().enumerate() {
            let Some(now) = now(follow) else { continue };
            let mut told = HostMade { region: follow.region, ..HostMade::default() };
            if follow.is_snapshot {
                told.is_snapshot = true;
                let range = here.of(at);
                told.kinds = vec![EventKind::Present as u8; range.len()];
                told.objects = here.objects[range.clone()].to_vec();
                if now.with_fixes {
                    told.fixes = here.stands[range].iter().map(row).collect();
                }
            } else {
                let (was, is) = (&left.stands[left.of(next_left)], &here.stands[here.of(at)]);
                next_left += 1;
                changed(now, was, is, &mut told);
            }
            if told.is_snapshot || !told.objects.is_empty() {
                made.push(told);
            }
        }
        Ok(made)
    }

    /// The members of regions after cycle `epoch`, the running one or that before it.
    fn members(
        &mut self,
        of: &[(&Region, Option<&Filter>)],
        epoch: u64,
        with_records: bool,
    ) -> Result<Members, EngineError> {
        let mut members = Members { bounds: vec![0; of.len() + 1], ..Members::default() };
        let (mut parts, mut shapes) = (Vec::new(), Shapes::default());
        for ((region, filter), number) in of.iter().zip(0..) {
            parts.extend(shapes.parts_of(number, region, *filter, false));
        }
        if parts.is_empty() {
            return Ok(members);
        }
        shapes.shapes.insert(0, Default::default());
        if epoch == self.epoch {
            self.bring_up_now()?;
        }
        let view = self.view(epoch)?;
        let stream = self.asking.stream.clone();
        self.updated.as_ref().map_or(Ok(()), |updated| stream.wait(updated)).map_err(fault)?;
        let (input, at) = upload(&self.asking, (&parts, of.len()), &shapes)?;
        let at = (&input, &at);
        self.asking.cut(&view, at)?.synchronize().map_err(fault)?;
        self.asking.count(&view, at, &mut members.bounds, None)?;
        stream.synchronize().map_err(fault)?;
        let found = members.bounds[of.len()] as usize;
        if found == 0 {
            return Ok(members);
        }
        let sorted = self.subscriptions.members();
        self.asking.write(&view, at, found, sorted)?;
        members.objects = self.asking.take_objects(sorted, found)?;
        if with_records {
            let stands = DeviceBuffer::new(&self.memory, found)?;
            let records = (&self.records.argument(), self.epoch);
            let (kernels, slots) = (&self.gpu.kernels, &sorted.slots);
            kernels.subscription_stands(&stream, records, slots, (&stands, found))?;
            members.stands = vec![Answered::default(); found];
            stands.download(&stream, 0, &mut members.stands)?;
            stream.synchronize().map_err(fault)?;
        }
        Ok(members)
    }
}

/// The events of a changed region: who was a member of the old one before the cycle against who is
/// one of the new after it.
fn changed(now: &Subscription, was: &[Answered], is: &[Answered], told: &mut HostMade) {
    let (mut was, mut is) = (was.iter().peekable(), is.iter().peekable());
    loop {
        let next = [was.peek(), is.peek()].into_iter().flatten().map(|stand| stand.object).min();
        let Some(object) = next else { return };
        let before = was.next_if(|stand| stand.object == object);
        let after = is.next_if(|stand| stand.object == object);
        let (kind, stand) = match (before, after) {
            (Some(_), Some(stand)) if stand.reserved != 0 => (EventKind::Move, stand),
            (None, Some(stand)) => (EventKind::Enter, stand),
            (Some(stand), None) if stand.found != 0 => (EventKind::RegionChanged, stand),
            (Some(stand), None) => {
                let ended = EventKind::of(stand.reserved as u8);
                (ended.unwrap_or(EventKind::Removed), stand)
            }
            _ => continue,
        };
        if now.wanted.tells(kind) {
            told.push(kind as u8, row(stand), now.with_fixes);
        }
    }
}
