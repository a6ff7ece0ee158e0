//! Stage query as the driver queues it: cut, count, then write or make, with a number read back in
//! between; or, for answers that are expected to be brief, count and write.

use std::sync::Arc;

use cudarc::driver::CudaEvent;
use shoal_engine::{AnswerSet, EngineError};

use super::answers::Maker;
use super::asking::Sorted;
use super::driver::Driver;
use super::results::{Answers, PooledBuffer};
use super::staging::Staged;
use crate::launch::{ViewArgument, fault};

/// What queries of a cycle read and what was counted; none without queries.
pub(super) type Asked = Option<(ViewArgument, Questioning)>;

/// What queries of a running cycle have asked so far.
pub(super) enum Questioning {
    /// Nothing is asked.
    None,
    /// Counted; numbers are on their way.
    Counting { bounds: PooledBuffer, totals: Vec<u64> },
    /// Counted without a cut.
    Brief { bounds: PooledBuffer },
}

impl Driver {
    /// The state after cycle `epoch`, the running one or that before it, which queries read; ages
    /// are judged at `clock_ms`. Not there when its grid had no room.
    pub(super) fn view(&self, epoch: u64, clock_ms: i64) -> Result<ViewArgument, EngineError> {
        let cells = &self.cells[epoch as usize % 2];
        if cells.epoch != Some(epoch) {
            let unknown = || EngineError::Device("a grid was not brought up".to_owned());
            return Err(self.lacking.clone().unwrap_or_else(unknown));
        }
        let of = (&cells.argument(), cells.is_tight);
        Ok(ViewArgument::new(of, self.records.argument(), epoch, clock_ms))
    }

    /// Lets the query stream wait for the questions and for the grid that they read.
    pub(super) fn wait_for_questions(&mut self, staged: &Staged) -> Result<(), EngineError> {
        let stream = &self.asking.stream;
        stream.wait(&staged.copied).map_err(fault)?;
        self.updated.as_ref().map_or(Ok(()), |updated| stream.wait(updated)).map_err(fault)
    }

    /// Queues counting what is asked, if anything is; waits until it is cut into items.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`], here and in [`Driver::answer`]: queries have no answers, and
    /// nothing else has changed.
    pub(super) fn begin_questions(&mut self, staged: &Staged) -> Result<Asked, EngineError> {
        self.answer_clock_ms = self.clock_ms;
        self.objects_before = self.objects;
        if staged.queries.is_empty() {
            return Ok(None);
        }
        let view = self.view(self.epoch - 1, self.clock_ms)?;
        if staged.asked.parts.length == 0 {
            return Ok(Some((view, Questioning::None)));
        }
        if staged.are_plain && self.asking.expects_brief() {
            let mut bounds = self.bounds.lend(staged.queries.len() + 1)?;
            let at = (&staged.arena.device, &staged.asked);
            self.asking.count_briefly(&view, at, bounds.target())?;
            return Ok(Some((view, Questioning::Brief { bounds })));
        }
        let cut = self.asking.cut(&view, (&staged.arena.device, &staged.asked))?;
        let counting = self.count(staged, &view, &cut)?;
        Ok(Some((view, counting)))
    }

    /// Gives the memory of earlier answers back, where it is wanted for something else.
    pub(super) fn forget_answers(&mut self) -> Result<(), EngineError> {
        self.asking.shrink()?;
        self.sorted.iter_mut().try_for_each(Sorted::shrink)
    }

    fn count(
        &mut self,
        staged: &Staged,
        view: &ViewArgument,
        cut: &CudaEvent,
    ) -> Result<Questioning, EngineError> {
        cut.synchronize().map_err(fault)?;
        let queries = staged.queries.len();
        let mut bounds = self.bounds.lend(queries + 1)?;
        let mut totals = vec![0; if staged.are_plain { 0 } else { queries }];
        let at = (&staged.arena.device, &staged.asked);
        let wanted = (!totals.is_empty()).then_some(&mut totals[..]);
        self.asking.count(view, at, bounds.target(), wanted)?;
        Ok(Questioning::Counting { bounds, totals })
    }

    pub(super) fn answer(&mut self, staged: &Staged, asked: Asked) -> Result<Answers, EngineError> {
        let Some((view, questioning)) = asked else {
            return Ok(Answers::Here(AnswerSet::default()));
        };
        let stream = self.asking.stream.clone();
        stream.synchronize().map_err(fault)?;
        let parity = self.epoch as usize % 2;
        if let Some(copied) = &self.copied_out[parity] {
            stream.wait(copied).map_err(fault)?;
        }
        match questioning {
            Questioning::Brief { bounds } => self.write_plain(staged, &view, (bounds, true)),
            Questioning::Counting { bounds, .. } if staged.are_plain => {
                self.write_plain(staged, &view, (bounds, false))
            }
            other => {
                let none;
                let (bounds, totals) = match &other {
                    Questioning::Counting { bounds, totals } => (bounds.as_ref(), &totals[..]),
                    Questioning::None | Questioning::Brief { .. } => {
                        // Without parts nothing was counted: every range is empty.
                        none = vec![0; staged.queries.len() + 1];
                        (&none[..], &none[..])
                    }
                };
                let mut maker = Maker {
                    space: &self.options.space,
                    asking: &mut self.asking,
                    sorted: &mut self.sorted[parity],
                    view,
                    index: (self.records.index(), self.records.key()),
                    clock_ms: self.answer_clock_ms,
                    objects: self.objects_before,
                };
                maker.make(staged, bounds, totals).map(Answers::Here)
            }
        }
    }
    /// Answers of queries that all want ids, on their way out.
    fn write_plain(
        &mut self,
        staged: &Staged,
        view: &ViewArgument,
        (bounds, is_brief): (PooledBuffer, bool),
    ) -> Result<Answers, EngineError> {
        let (stream, parity) = (self.asking.stream.clone(), self.epoch as usize % 2);
        let matches = *bounds.as_ref().last().unwrap_or(&0) as usize;
        let mut objects = self.ids.lend(matches)?;
        if matches > 0 {
            let (at, sorted) = ((&staged.arena.device, &staged.asked), &mut self.sorted[parity]);
            if is_brief {
                self.asking.write_briefly(view, at, matches, sorted)?;
            } else {
                self.asking.write(view, at, matches, sorted)?;
            }
            let written = stream.record_event(None).map_err(fault)?;
            self.copy_out.wait(&written).map_err(fault)?;
            let copying = self.timeline.begin(&self.copy_out)?;
            let out = objects.target();
            self.sorted[parity].objects.download(&self.copy_out, 0, out)?;
            self.timeline.end((self.epoch, "copy out"), copying, &self.copy_out)?;
        }
        let copied = Arc::new(self.copy_out.record_event(None).map_err(fault)?);
        self.copied_out[parity] = Some(copied.clone());
        Ok(Answers::Coming { copied, bounds, objects, limits: staged.limits.clone() })
    }
}
