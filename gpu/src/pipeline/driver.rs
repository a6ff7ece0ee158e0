//! Which work goes to which stream, and when? The thread that takes a fleet's cycles through the
//! stages.
//!
//! Cycle k: dispatch reads and writes the records; queries read the grid and the records as they
//! were after k - 1; update brings the other grid up to k. Copies in, dispatch, update, queries and
//! copies out have a stream each and wait for each other by events; the host waits for numbers only
//! (how much moved, how much was found), while other streams work.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use cudarc::driver::{CudaEvent, CudaStream, sys};
use shoal_engine::layout::{Entry, Fates, Report, Rules, TIME_ORIGIN_MS};
use shoal_engine::{
    AnswerSet, Clock, CycleOutput, EngineError, EngineOptions, Refusal, RequestOutcome, Snapshot,
};

use super::answers::{Maker, are_plain, limits};
use super::asking::{Asking, Sorted};
use super::cells::Cells;
use super::cost::{Cost, Way};
use super::grid::{Chosen, SAMPLE};
use super::records::{Fitted, Records};
use super::results::{Answers, Finished, Pool};
use super::staging::{Arena, Kind, Staged};
use super::tables::Tables;
use crate::device::Gpu;
use crate::launch::{
    CycleRows, DeviceBuffer, InputArgument, Memory, MovedArgument, Ordered, PinnedBuffer,
    RowsArgument, Scratch, ViewArgument, fault,
};

/// What a backend tells its driver.
pub(crate) enum Command {
    /// Run this cycle.
    Cycle(Box<Staged>),
    /// Copy the state out.
    Export(Sender<Result<Snapshot, EngineError>>),
    /// Take this state.
    Import(Snapshot, Sender<Result<(), EngineError>>),
}

/// What callers ask without waiting for a cycle's answers.
#[derive(Debug, Default)]
pub(crate) struct Status {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Now {
    /// Cycles whose stage dispatch is done.
    dispatched: u64,
    ended: bool,
    objects: u64,
    /// Least event time of any object, with a TTL.
    oldest_ms: Option<i64>,
}

impl Status {
    /// Objects and oldest event time once `cycles` cycles have been dispatched.
    pub(crate) fn after(&self, cycles: u64) -> (u64, Option<i64>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        while now.dispatched < cycles && !now.ended {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        (now.objects, now.oldest_ms)
    }

    fn set(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// See the file's head.
pub(crate) struct Driver {
    gpu: Gpu,
    options: EngineOptions,
    status: Arc<Status>,
    memory: Memory,
    arenas: Sender<Arena>,
    outputs: Sender<Result<Finished, EngineError>>,
    epoch: u64,
    clock_ms: i64,
    answer_clock_ms: i64,
    objects: u64,
    objects_before: u64,
    dispatch: Arc<CudaStream>,
    update: Arc<CudaStream>,
    copy_out: Arc<CudaStream>,
    records: Records,
    slots: DeviceBuffer<u32>,
    refusals: DeviceBuffer<u8>,
    fates: DeviceBuffer<Fates>,
    report: DeviceBuffer<Report>,
    /// Slots that moved, of even and odd cycles, and how many.
    moved: [(DeviceBuffer<u32>, u32); 2],
    ordered: [DeviceBuffer<u32>; 6],
    ordered_scratch: Scratch,
    outgrown_here: PinnedBuffer<u32>,
    squares_here: PinnedBuffer<u64>,
    cells: [Cells; 2],
    tables: Tables,
    chosen: Chosen,
    cost: Cost,
    asking: Asking,
    sorted: [Sorted; 2],
    pool: Pool,
    /// The update that queries of the next cycle must wait for.
    updated: Option<CudaEvent>,
    /// The queries that the next writes of records and cells must wait for.
    asked: Option<CudaEvent>,
    /// To learn its cost from when it is done.
    last_update: Option<Update>,
    /// Copies of answers out of `sorted`, by parity.
    copied_out: [Option<Arc<CudaEvent>>; 2],
}

/// What queries of a running cycle have asked so far.
enum Questioning {
    /// Nothing is asked.
    None,
    /// Counted; numbers are on their way.
    Counting { bounds: super::results::Lent, totals: Vec<u64> },
}

impl Driver {
    pub(crate) fn new(
        gpu: &Gpu,
        options: &EngineOptions,
        memory: &Memory,
        status: Arc<Status>,
        arenas: Sender<Arena>,
        outputs: Sender<Result<Finished, EngineError>>,
    ) -> Result<Self, EngineError> {
        let stream = || gpu.context.new_stream().map_err(fault);
        let (dispatch, update, query) = (stream()?, stream()?, stream()?);
        let records = Records::new(memory, &gpu.kernels, &dispatch, options.term)?;
        let chosen = Chosen::first(&options.space);
        let buffer = || DeviceBuffer::new(memory, 1);
        let mut driver = Self {
            gpu: gpu.clone(),
            options: options.clone(),
            status,
            memory: memory.clone(),
            arenas,
            outputs,
            epoch: 0,
            clock_ms: 0,
            answer_clock_ms: 0,
            objects: 0,
            objects_before: 0,
            copy_out: stream()?,
            records,
            slots: buffer()?,
            refusals: DeviceBuffer::new(memory, 1)?,
            fates: DeviceBuffer::new(memory, 1)?,
            report: DeviceBuffer::new(memory, 1)?,
            moved: [(buffer()?, 0), (buffer()?, 0)],
            ordered: [buffer()?, buffer()?, buffer()?, buffer()?, buffer()?, buffer()?],
            ordered_scratch: Scratch::new(memory)?,
            outgrown_here: PinnedBuffer::new(memory, 1)?,
            squares_here: PinnedBuffer::new(memory, 1)?,
            cells: [Cells::new(memory, &chosen.grid)?, Cells::new(memory, &chosen.grid)?],
            tables: Tables::new(memory)?,
            chosen,
            cost: Cost::new(),
            asking: Asking::new(memory, &gpu.kernels, query)?,
            sorted: [Sorted::new(memory)?, Sorted::new(memory)?],
            pool: Pool::new(memory),
            updated: None,
            asked: None,
            last_update: None,
            copied_out: [None, None],
            dispatch,
            update,
        };
        driver.rebuild(0)?;
        driver.settle()?;
        Ok(driver)
    }

    /// Runs until the backend is gone or the device fails.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        while let Ok(command) = commands.recv() {
            let goes_on = match command {
                Command::Cycle(staged) => {
                    let result = self.cycle(*staged);
                    let failed = result.is_err();
                    self.outputs.send(result).is_ok() && !failed
                }
                Command::Export(reply) => reply.send(self.export()).is_ok(),
                Command::Import(snapshot, reply) => reply.send(self.import(&snapshot)).is_ok(),
            };
            if !goes_on {
                break;
            }
        }
        self.status.set(|now| now.ended = true);
        // What is queued names buffers that are dropped next.
        let _ = self.gpu.context.synchronize();
    }

    /// Waits for everything that was queued.
    fn settle(&mut self) -> Result<(), EngineError> {
        self.gpu.context.synchronize().map_err(fault)
    }

    fn cycle(&mut self, staged: Staged) -> Result<Finished, EngineError> {
        self.gpu.context.bind_to_thread().map_err(fault)?;
        self.make_room(&staged)?;
        self.epoch += 1;
        let lists = self.begin_dispatch(&staged)?;
        let view = self.view();
        let cut = self.begin_questions(&staged, &view)?;
        self.finish_dispatch(&staged, &lists)?;
        let dispatched = self.dispatch.record_event(None).map_err(fault)?;
        let questioning = match cut {
            Some(cut) => self.count(&staged, &view, &cut)?,
            None => Questioning::None,
        };
        dispatched.synchronize().map_err(fault)?;
        let (report, outcomes) = self.read_report(&staged)?;
        let before = self.objects_before;
        let update = self.begin_update(&report)?;
        let answers = self.answer(&staged, view, questioning, before)?;
        let asked = self.asking.stream.record_event(None).map_err(fault)?;
        self.finish_update(update)?;
        let mut arena = staged.arena;
        arena.idle = Some(self.asking.stream.record_event(None).map_err(fault)?);
        self.asked = Some(asked);
        // The backend may be gone.
        let _ = self.arenas.send(arena);
        let output = CycleOutput {
            epoch: self.epoch,
            clock_ms: self.clock_ms,
            requests: outcomes,
            answer_epoch: self.epoch - 1,
            answer_clock_ms: self.answer_clock_ms,
            answers: AnswerSet::default(),
            expired: report.expired,
            objects: self.objects,
        };
        Ok(Finished { output, answers })
    }

    /// Buffers for a cycle; waits for the device only when something must grow.
    fn make_room(&mut self, staged: &Staged) -> Result<(), EngineError> {
        let rows = staged.rows as usize;
        let needs_optional = staged.has_optional && !self.records.has_optional();
        if !self.records.fits(rows) || needs_optional {
            self.settle()?;
            let fitted = self.records.fit(&self.dispatch, rows, self.objects, self.epoch)?;
            if needs_optional {
                self.records.fit_optional(&self.dispatch)?;
            }
            if fitted == Fitted::Packed {
                self.rebuild_after_packing()?;
            }
        }
        self.slots.fit(rows)?;
        self.refusals.fit(rows)?;
        self.fates.fit(staged.kinds.len())?;
        let others = self.options.ttl_ms.is_some() || !staged.clears.is_empty();
        let others = if others { self.records.slots as usize } else { 0 };
        let parity = (self.epoch + 1) as usize % 2;
        // The list of the cycle before last is not needed any more.
        self.moved[parity].0.fit(rows + others)?;
        Ok(())
    }

    /// Slots have new numbers: both grids are built anew, now or when it is their turn.
    fn rebuild_after_packing(&mut self) -> Result<(), EngineError> {
        let parity = self.epoch as usize % 2;
        self.cells[1 - parity].epoch = None;
        self.rebuild(parity)?;
        self.moved[parity].1 = 0;
        self.settle()
    }

    fn arguments(&self, staged: &Staged) -> CycleRows {
        let bounds = self.options.space.bounds();
        let slots = self.records.slots + staged.rows;
        let (moved, _) = &self.moved[self.epoch as usize % 2];
        CycleRows {
            input: InputArgument::new(
                &staged.arena.device,
                staged.requests,
                staged.arrivals,
                &self.fates,
            ),
            rules: Rules {
                epoch: self.epoch,
                clock_ms: self.clock_ms,
                system_ms: staged.system_ms,
                ttl_ms: self.options.ttl_ms.unwrap_or(i64::MAX),
                time_max_ms: staged.time_max_ms.min(shoal_engine::limits::TIME_MAX_MS),
                hash_key: self.records.key(),
                x_min: bounds.x_min,
                y_min: bounds.y_min,
                x_max: bounds.x_max,
                y_max: bounds.y_max,
                rows: staged.rows,
                requests: staged.kinds.len() as u32,
                clears: staged.clears.len() as u32,
                is_full: (self.objects >= self.options.objects_max).into(),
                event_clock: (self.options.clock == Clock::Event).into(),
                reserved: 0,
            },
            rows: RowsArgument::new(
                &self.slots,
                &self.refusals,
                &self.records.best,
                moved,
                &self.records.stamps,
                &self.report,
            ),
            index: self.records.index(),
            records: self.records.argument(),
            slots,
        }
    }

    /// Queues what of dispatch writes no record.
    fn begin_dispatch(&mut self, staged: &Staged) -> Result<CycleRows, EngineError> {
        let stream = self.dispatch.clone();
        let kernels = self.gpu.kernels.clone();
        stream.wait(&staged.copied).map_err(fault)?;
        self.fates.fill(&stream, 0, staged.kinds.len())?;
        let report = Report { time_min: u64::MAX, slots: self.records.slots, ..Report::default() };
        self.report.upload(&stream, 0, &[report])?;
        let cycle = self.arguments(staged);
        if staged.has_blocks() {
            kernels.dispatch_verify(&stream, &cycle)?;
        }
        kernels.dispatch_find(&stream, &cycle, &self.records.objects)?;
        if !staged.is_ordered() {
            kernels.dispatch_order(&stream, &cycle)?;
        }
        Ok(cycle)
    }

    /// Queues what of dispatch writes records: after the queries of the cycle before, which read
    /// the versions that are overwritten, and after the update that reads the positions.
    fn finish_dispatch(&mut self, staged: &Staged, cycle: &CycleRows) -> Result<(), EngineError> {
        let stream = self.dispatch.clone();
        let kernels = self.gpu.kernels.clone();
        for event in [&self.asked, &self.updated].into_iter().flatten() {
            stream.wait(event).map_err(fault)?;
        }
        if staged.is_ordered() {
            self.settle_ordered(staged, cycle)?;
        } else {
            kernels.dispatch_settle(&stream, cycle)?;
        }
        if self.options.ttl_ms.is_some() {
            kernels.dispatch_expire(&stream, cycle)?;
        }
        Ok(())
    }

    fn settle_ordered(&mut self, staged: &Staged, cycle: &CycleRows) -> Result<(), EngineError> {
        let (stream, kernels) = (self.dispatch.clone(), self.gpu.kernels.clone());
        let rows = staged.rows;
        let clears: (Vec<u32>, Vec<u32>) = staged.clears.iter().copied().unzip();
        for (list, length) in self.ordered.iter_mut().zip([rows, rows, rows, rows]) {
            list.fit(length as usize)?;
        }
        let [keys, arrivals, sorted_keys, sorted_arrivals, clear_arrivals, clear_requests] =
            &mut self.ordered;
        clear_arrivals.fit(clears.0.len())?;
        clear_requests.fit(clears.1.len())?;
        clear_arrivals.upload(&stream, 0, &clears.0)?;
        clear_requests.upload(&stream, 0, &clears.1)?;
        kernels.ordered_missing(&stream, cycle)?;
        kernels.ordered_keys(&stream, cycle, keys, arrivals)?;
        let (from, to) = ((&*keys, &*arrivals), (&*sorted_keys, &*sorted_arrivals));
        self.ordered_scratch.sort_pairs(&stream, from, to, rows, 32)?;
        let lists = Ordered {
            keys: sorted_keys,
            arrivals: sorted_arrivals,
            clear_arrivals,
            clear_requests,
        };
        kernels.ordered_settle(&stream, cycle, &lists)?;
        kernels.ordered_clear(&stream, cycle, &lists)
    }

    /// What queries of the running cycle read.
    fn view(&self) -> ViewArgument {
        let cells = &self.cells[(self.epoch - 1) as usize % 2];
        debug_assert_eq!(cells.epoch, Some(self.epoch - 1), "the grid is brought up");
        ViewArgument::new(&cells.argument(), self.records.argument(), self.epoch - 1, self.clock_ms)
    }

    /// Queues cutting parts into items.
    fn begin_questions(
        &mut self,
        staged: &Staged,
        view: &ViewArgument,
    ) -> Result<Option<CudaEvent>, EngineError> {
        let stream = self.asking.stream.clone();
        stream.wait(&staged.copied).map_err(fault)?;
        if let Some(updated) = &self.updated {
            stream.wait(updated).map_err(fault)?;
        }
        self.answer_clock_ms = self.clock_ms;
        self.objects_before = self.objects;
        if staged.asked.parts.length == 0 {
            return Ok(None);
        }
        self.asking.cut(view, (&staged.arena.device, &staged.asked)).map(Some)
    }

    fn count(
        &mut self,
        staged: &Staged,
        view: &ViewArgument,
        cut: &CudaEvent,
    ) -> Result<Questioning, EngineError> {
        cut.synchronize().map_err(fault)?;
        let queries = staged.queries.len();
        let mut bounds = self.pool.lend(queries + 1)?;
        let mut totals = vec![0; if are_plain(&staged.queries) { 0 } else { queries }];
        let at = (&staged.arena.device, &staged.asked);
        let wanted = (!totals.is_empty()).then_some(&mut totals[..]);
        self.asking.count(view, at, bounds.as_mut_slice(), wanted)?;
        Ok(Questioning::Counting { bounds, totals })
    }

    /// Reads what dispatch tells; gives the outcome of every request.
    fn read_report(
        &mut self,
        staged: &Staged,
    ) -> Result<(Report, Vec<RequestOutcome>), EngineError> {
        let mut report = [Report::default()];
        let mut fates = vec![Fates::default(); staged.kinds.len()];
        self.report.download(&self.dispatch, 0, &mut report)?;
        self.fates.download(&self.dispatch, 0, &mut fates)?;
        self.dispatch.synchronize().map_err(fault)?;
        let [report] = report;
        self.records.slots = report.slots;
        self.objects = self.objects.wrapping_add(report.objects);
        let now_ms = match self.options.clock {
            Clock::System => Some(staged.system_ms),
            Clock::Event => {
                report.time_max.checked_sub(1).map(|since| TIME_ORIGIN_MS + since as i64)
            }
        };
        self.clock_ms = now_ms.map_or(self.clock_ms, |now_ms| now_ms.max(self.clock_ms));
        let refused = self.refused(staged, report.refused > 0)?;
        let oldest = (report.time_min != u64::MAX)
            .then(|| TIME_ORIGIN_MS.saturating_add(report.time_min as i64));
        let (epoch, objects) = (self.epoch, self.objects);
        self.status.set(|now| {
            now.dispatched += 1;
            now.objects = objects;
            now.oldest_ms = oldest;
        });
        debug_assert!(epoch > 0, "a cycle is running");
        let outcomes = staged.kinds.iter().zip(fates).zip(refused);
        let outcomes = outcomes.enumerate().map(|(number, ((kind, fates), refused))| {
            let end = staged.first_arrivals.get(number + 1).copied().unwrap_or(staged.rows);
            outcome(kind, fates, refused, u64::from(end - staged.first_arrivals[number]))
        });
        Ok((report, outcomes.collect()))
    }

    /// Refused rows of every request.
    fn refused(&self, staged: &Staged, any: bool) -> Result<Vec<Vec<(u32, Refusal)>>, EngineError> {
        let mut refused = vec![Vec::new(); staged.kinds.len()];
        if !any {
            return Ok(refused);
        }
        let mut reasons = vec![0_u8; staged.rows as usize];
        self.refusals.download(&self.dispatch, 0, &mut reasons)?;
        self.dispatch.synchronize().map_err(fault)?;
        let starts = &staged.first_arrivals;
        for (arrival, reason) in (0_u32..).zip(reasons).filter(|(_, reason)| *reason > 0) {
            let request = starts.partition_point(|start| *start <= arrival) - 1;
            let reason = Refusal::ALL[usize::from(reason) - 1];
            refused[request].push((arrival - starts[request], reason));
        }
        Ok(refused)
    }

    /// Queues bringing the grid of this cycle's parity up, by the cheaper way.
    fn begin_update(&mut self, report: &Report) -> Result<Update, EngineError> {
        let parity = self.epoch as usize % 2;
        self.moved[parity].1 = report.moves;
        if let Some(Update { way, units, begin, end, .. }) = self.last_update.take() {
            // Dispatch waited for it.
            self.cost.learn(way, units, begin.elapsed_ms(&end).map_err(fault)?);
        }
        let stream = self.update.clone();
        let begin = self.timestamp(&stream)?;
        let cells = &self.cells[parity];
        let is_behind = self.epoch >= 2 && cells.epoch == Some(self.epoch - 2);
        let moved = self.moved[1 - parity].1 + report.moves;
        let slots = self.records.slots;
        let is_located = cells.has_places(self.records.capacity());
        let is_chosen = *cells.grid() == self.chosen.grid;
        let way = if is_behind && is_chosen && !self.chosen.is_outgrown(self.objects) {
            self.cost.cheaper(moved, slots, is_located)
        } else {
            Way::Rebuild
        };
        match way {
            Way::Rebuild => self.rebuild(parity)?,
            Way::Apply if moved == 0 => {}
            Way::Apply => self.apply(parity, is_located)?,
        }
        self.cells[parity].epoch = Some(self.epoch);
        let end = self.timestamp(&stream)?;
        let units = if way == Way::Apply { moved } else { slots };
        Ok(Update { way, units, begin, end, checks: way == Way::Apply && moved > 0 })
    }

    fn timestamp(&self, stream: &Arc<CudaStream>) -> Result<CudaEvent, EngineError> {
        stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).map_err(fault)
    }

    fn apply(&mut self, parity: usize, is_located: bool) -> Result<(), EngineError> {
        let (stream, kernels) = (self.update.clone(), self.gpu.kernels.clone());
        if !is_located {
            self.cells[parity].locate(&kernels, &stream, self.records.capacity())?;
        }
        let list = |which: usize| (&self.moved[which].0, self.moved[which].1);
        let moved =
            MovedArgument::new(list(1 - parity), list(parity), &self.records.stamps, self.epoch);
        let (tables, current) = (&mut self.tables, &self.records.current);
        self.cells[parity].apply(&kernels, &stream, tables, current, &moved)?;
        self.tables.outgrown.download(&stream, 0, &mut self.outgrown_here.as_mut_slice()[..1])
    }

    /// Builds a grid anew from the newest positions, over a new choice of cells if it is time.
    fn rebuild(&mut self, parity: usize) -> Result<(), EngineError> {
        let (stream, kernels) = (self.update.clone(), self.gpu.kernels.clone());
        let slots = self.records.slots;
        let is_uneven = {
            let squares = self.squares_here.as_slice()[0];
            squares > 0 && self.chosen.refine(squares)
        };
        if self.chosen.is_outgrown(self.objects) || is_uneven {
            let mut sample = vec![Entry::default(); SAMPLE];
            let on_device = DeviceBuffer::new(&self.memory, SAMPLE)?;
            let step = (slots / SAMPLE as u32).max(1);
            kernels.update_sample(&stream, &self.records.current, slots, step, &on_device)?;
            on_device.download(&stream, 0, &mut sample)?;
            stream.synchronize().map_err(fault)?;
            self.chosen.choose(&self.options.space, &sample, self.objects);
        }
        let (tables, current) = (&mut self.tables, &self.records.current);
        let of = (slots, self.objects);
        self.cells[parity].rebuild(&kernels, &stream, tables, &self.chosen.grid, current, of)?;
        self.cells[parity].epoch = Some(self.epoch);
        self.squares_here.as_mut_slice()[0] = 0;
        self.tables.squares.download(&stream, 0, &mut self.squares_here.as_mut_slice()[..1])
    }

    /// Makes sure that the grid was brought up and learns what it cost.
    fn finish_update(&mut self, update: Update) -> Result<(), EngineError> {
        let parity = self.epoch as usize % 2;
        if update.checks {
            update.end.synchronize().map_err(fault)?;
            if self.outgrown_here.as_slice()[0] > 0 {
                self.rebuild(parity)?;
            }
        }
        let updated = self.update.record_event(None).map_err(fault)?;
        self.updated = Some(updated);
        self.last_update = Some(update);
        Ok(())
    }

    fn answer(
        &mut self,
        staged: &Staged,
        view: ViewArgument,
        questioning: Questioning,
        objects: u64,
    ) -> Result<Answers, EngineError> {
        if staged.queries.is_empty() {
            return Ok(Answers::Here(AnswerSet::default()));
        }
        let stream = self.asking.stream.clone();
        let counted = stream.record_event(None).map_err(fault)?;
        counted.synchronize().map_err(fault)?;
        let parity = self.epoch as usize % 2;
        if let Some(copied) = &self.copied_out[parity] {
            stream.wait(copied).map_err(fault)?;
        }
        let plain = are_plain(&staged.queries);
        match questioning {
            Questioning::Counting { bounds, .. } if plain => {
                let matches = *bounds.as_ref().last().unwrap_or(&0) as usize;
                let mut objects = self.pool.lend(matches)?;
                if matches > 0 {
                    let at = (&staged.arena.device, &staged.asked);
                    self.asking.write(&view, at, matches, &mut self.sorted[parity])?;
                    let written = stream.record_event(None).map_err(fault)?;
                    self.copy_out.wait(&written).map_err(fault)?;
                    let out = objects.as_mut_slice();
                    self.sorted[parity].objects.download(&self.copy_out, 0, out)?;
                }
                let copied = self.copy_out.record_event(None).map_err(fault)?;
                self.copied_out[parity] =
                    Some(Arc::new(self.copy_out.record_event(None).map_err(fault)?));
                let limits = limits(&staged.queries);
                Ok(Answers::Coming { copied, bounds, objects, limits })
            }
            other => {
                let (bounds, totals) = match &other {
                    Questioning::Counting { bounds, totals } => (bounds.as_ref(), &totals[..]),
                    Questioning::None => (&[][..], &[][..]),
                };
                let mut none = Vec::new();
                let (bounds, totals) = if bounds.is_empty() {
                    none.resize(staged.queries.len() + 1, 0);
                    (&none[..], &none[..])
                } else {
                    (bounds, totals)
                };
                let mut maker = Maker {
                    space: &self.options.space,
                    asking: &mut self.asking,
                    sorted: &mut self.sorted[parity],
                    view,
                    index: (self.records.index(), self.records.key()),
                    clock_ms: self.answer_clock_ms,
                    objects,
                };
                maker.make(staged, bounds, totals).map(Answers::Here)
            }
        }
    }

    fn export(&mut self) -> Result<Snapshot, EngineError> {
        self.settle()?;
        let mut rows = self.records.export(&self.dispatch, self.epoch)?;
        rows.sort_unstable_by_key(|row| row.object);
        let batches = rows.chunks(shoal_engine::limits::SNAPSHOT_BATCH_ROWS).map(|chunk| {
            let mut columns = shoal_codec::FixColumns::with_capacity(chunk.len());
            chunk.iter().for_each(|answered| columns.push_row(super::answers::row(answered)));
            columns
        });
        Ok(Snapshot {
            term: self.options.term,
            epoch: self.epoch,
            clock_ms: self.clock_ms,
            batches: batches.collect(),
        })
    }

    fn import(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        snapshot.check(&self.options, self.epoch)?;
        self.settle()?;
        let answered = |row: shoal_codec::FixRow| shoal_engine::layout::Answered {
            object: row.object,
            time_ms: row.time_ms,
            x: row.x,
            y: row.y,
            speed_mm_s: row.speed_mm_s,
            altitude_mm: row.altitude_mm,
            heading_cdeg: row.heading_cdeg.into(),
            state: row.state,
            found: 1,
            reserved: 0,
        };
        let batches = snapshot.batches.iter();
        let rows: Vec<_> = batches
            .flat_map(|batch| (0..batch.len()).map(|row| answered(batch.row(row))))
            .collect();
        self.records.replace(&self.dispatch, &rows)?;
        self.objects = rows.len() as u64;
        self.epoch = snapshot.epoch;
        self.clock_ms = snapshot.clock_ms;
        self.cells[1 - self.epoch as usize % 2].epoch = None;
        self.rebuild(self.epoch as usize % 2)?;
        self.settle()?;
        let oldest_ms = rows.iter().map(|row| row.time_ms).min();
        let objects = self.objects;
        self.status.set(|now| {
            now.objects = objects;
            now.oldest_ms = oldest_ms;
        });
        Ok(())
    }
}

/// An update that was queued.
struct Update {
    way: Way,
    units: u32,
    begin: CudaEvent,
    end: CudaEvent,
    /// Whether it may not have been applied.
    checks: bool,
}

/// What became of a request.
fn outcome(kind: &Kind, fates: Fates, refused: Vec<(u32, Refusal)>, rows: u64) -> RequestOutcome {
    if fates.failed != 0
        && let Kind::Block(block) = kind
    {
        // The device only tells that a row is wrong; the codec says which and why.
        return RequestOutcome { block_error: block.decode().err(), ..RequestOutcome::default() };
    }
    let (duplicate, superseded) = (u64::from(fates.duplicate), u64::from(fates.superseded));
    let late = u64::from(fates.late);
    let others = duplicate + superseded + late + refused.len() as u64;
    let has_rows = matches!(kind, Kind::Fixes | Kind::Block(_));
    RequestOutcome {
        applied: if has_rows { rows.saturating_sub(others) } else { 0 },
        duplicate,
        superseded,
        late,
        refused,
        removed: fates.removed.into(),
        missing: fates.missing.into(),
        block_error: None,
    }
}
