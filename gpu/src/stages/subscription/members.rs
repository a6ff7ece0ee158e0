//! The members of regions at an epoch, found with the tables of stage query.
//!
//! Lists members before or after the cycle, and their outcomes. Waits for the device; searches are
//! rare compared with fixes.

use shoal_engine::layout::AnswerRecord;
use shoal_engine::subscription::tick_ms;
use shoal_engine::{EngineError, Filter, Region};

use crate::launch::{DeviceBuffer, fault};
use crate::stages::query::answers::upload;
use crate::stages::query::batch::Sorted;
use crate::stages::query::stage::QueryStage;
use crate::stages::update::stage::UpdateStage;
use crate::state::fleet::FleetState;
use crate::state::shapes::Shapes;

/// The data to return for each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Ids,
    /// Their outcomes in the running cycle.
    Outcomes,
    /// As `Outcomes`, and their records at the epoch.
    Records,
}

/// Members of some regions, region by region, objects ascending.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// By region its first member, and the end.
    bounds: Vec<u64>,
    pub(super) objects: Vec<u64>,
    /// Their outcomes.
    pub(super) outcomes: Vec<AnswerRecord>,
    /// Their records at the epoch.
    pub(super) records: Vec<AnswerRecord>,
}

impl Members {
    pub(super) fn of(&self, region: usize) -> std::ops::Range<usize> {
        self.bounds[region] as usize..self.bounds[region + 1] as usize
    }

    /// Takes the objects of one region; moves those of a single region, copies others.
    pub(super) fn take_objects(&mut self, range: std::ops::Range<usize>) -> Vec<u64> {
        if range.len() == self.objects.len() {
            return std::mem::take(&mut self.objects);
        }
        self.objects[range].to_vec()
    }
}

/// What a search of members reads: the state, whose grid it may have to complete, and the lists of
/// stage query.
pub(crate) struct MemberSearch<'a> {
    pub(crate) state: &'a mut FleetState,
    pub(crate) update: &'a mut UpdateStage,
    pub(crate) query: &'a mut QueryStage,
}

impl MemberSearch<'_> {
    /// The members of regions after cycle `epoch`, the running one or the previous one. `sorted` is
    /// scratch.
    pub(super) fn members(
        &mut self,
        of: &[(&Region, Option<&Filter>)],
        epoch: u64,
        wanted: Wanted,
        sorted: &mut Sorted,
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
        if epoch == self.state.epoch {
            self.update.bring_up(self.state, epoch)?;
        }
        let view = self.state.view(epoch, tick_ms(self.state.clock_ms))?;
        let batch = &mut self.query.batch;
        let stream = batch.stream.clone();
        self.update.updated().map_or(Ok(()), |updated| stream.wait(updated)).map_err(fault)?;
        let uploaded = upload(batch, &parts, of.len(), &shapes)?;
        let input = uploaded.input();
        batch.cut(&view, input)?.synchronize().map_err(fault)?;
        batch.count(&view, input, &mut members.bounds, None)?;
        stream.synchronize().map_err(fault)?;
        let found = members.bounds[of.len()] as usize;
        if found == 0 {
            return Ok(members);
        }
        batch.write(&view, input, found, sorted)?;
        members.objects = batch.take_objects(sorted, found)?;
        if wanted == Wanted::Records {
            members.records = batch.fixes(&view, sorted, found)?;
        }
        if wanted != Wanted::Ids {
            let outcomes = DeviceBuffer::new(batch.memory(), found)?;
            let (kernels, slots) = (&batch.kernels, &sorted.slots);
            kernels.subscription_outcomes(
                &stream,
                &self.state.records.argument(),
                self.state.epoch,
                slots,
                &outcomes,
                found,
            )?;
            members.outcomes = vec![AnswerRecord::default(); found];
            outcomes.download(&stream, 0, &mut members.outcomes)?;
            stream.synchronize().map_err(fault)?;
        }
        Ok(members)
    }
}
