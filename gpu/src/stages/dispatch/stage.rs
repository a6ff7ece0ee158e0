//! Stage dispatch as the driver queues it: validates and finds rows, settles them, and reads their
//! outcomes.
//!
//! Kernels that write records wait for the queries and the update that read them; the others run
//! concurrently with both.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::layout::{
    AdmissionRequest, DictionarySlot, DispatchReport, NEVER_MS, RowOutcomeCounts, Rules,
    TIME_ORIGIN_MS,
};
use shoal_engine::stage::settle;
use shoal_engine::{Clock, EngineError, Refusal, Request, RequestOutcome};

use crate::launch::{
    CycleRows, DeviceBuffer, Failed, InputArgument, Memory, Ordered, PinnedBuffer, RowsArgument,
    Scratch, fault,
};
use crate::stages::context::Context;
use crate::stages::dispatch::staging::{Kind, Staged};
use crate::state::fleet::FleetState;

/// Lists and streams of the stage: all output of dispatch except the records.
#[derive(Debug)]
pub(crate) struct DispatchStage {
    pub(super) context: Arc<Context>,
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) slots: DeviceBuffer<u32>,
    pub(super) refusals: DeviceBuffer<u8>,
    pub(super) entry_slots: DeviceBuffer<DictionarySlot>,
    /// Used in cycles that may exceed the object limit.
    pub(super) admission_requests: DeviceBuffer<AdmissionRequest>,
    pub(super) outcomes: DeviceBuffer<RowOutcomeCounts>,
    pub(crate) report: DeviceBuffer<DispatchReport>,
    ordered: OrderedLists,
    report_host: PinnedBuffer<DispatchReport>,
    outcomes_host: PinnedBuffer<RowOutcomeCounts>,
}

/// Lists of cycles whose requests apply in their order of arrival.
#[derive(Debug)]
struct OrderedLists {
    keys: DeviceBuffer<u32>,
    arrivals: DeviceBuffer<u32>,
    sorted_keys: DeviceBuffer<u32>,
    sorted_arrivals: DeviceBuffer<u32>,
    clear_arrivals: DeviceBuffer<u32>,
    clear_requests: DeviceBuffer<u32>,
    scratch: Scratch,
}

impl OrderedLists {
    fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self {
            keys: DeviceBuffer::new(memory, 1)?,
            arrivals: DeviceBuffer::new(memory, 1)?,
            sorted_keys: DeviceBuffer::new(memory, 1)?,
            sorted_arrivals: DeviceBuffer::new(memory, 1)?,
            clear_arrivals: DeviceBuffer::new(memory, 1)?,
            clear_requests: DeviceBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    fn fit(&mut self, rows: u32, clears: usize) -> Result<(), EngineError> {
        self.keys.fit(rows as usize)?;
        self.arrivals.fit(rows as usize)?;
        self.sorted_keys.fit(rows as usize)?;
        self.sorted_arrivals.fit(rows as usize)?;
        self.clear_arrivals.fit(clears)?;
        self.clear_requests.fit(clears)?;
        self.scratch.fit_pairs(rows, 32)
    }

    fn shrink(&mut self) -> Result<(), EngineError> {
        self.keys.shrink()?;
        self.arrivals.shrink()?;
        self.sorted_keys.shrink()?;
        self.sorted_arrivals.shrink()?;
        self.clear_arrivals.shrink()?;
        self.clear_requests.shrink()
    }
}

impl DispatchStage {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, EngineError> {
        let memory = &context.memory;
        Ok(Self {
            context: context.clone(),
            stream: context.new_stream()?,
            slots: DeviceBuffer::new(memory, 1)?,
            refusals: DeviceBuffer::new(memory, 1)?,
            entry_slots: DeviceBuffer::new(memory, 1)?,
            admission_requests: DeviceBuffer::new(memory, 1)?,
            outcomes: DeviceBuffer::new(memory, 1)?,
            report: DeviceBuffer::new(memory, 1)?,
            ordered: OrderedLists::new(memory)?,
            report_host: PinnedBuffer::new(memory, 1)?,
            outcomes_host: PinnedBuffer::new(memory, 1)?,
        })
    }

    /// Frees the lists of a refused cycle.
    pub(crate) fn shrink(&mut self) -> Result<(), EngineError> {
        self.slots.shrink()?;
        self.refusals.shrink()?;
        self.entry_slots.shrink()?;
        self.admission_requests.shrink()?;
        self.ordered.shrink()
    }

    /// Reserves memory for the lists of a cycle by its numbers of rows and requests: all output of
    /// dispatch except the records.
    pub(crate) fn fit_lists(
        &mut self,
        state: &mut FleetState,
        staged: &Staged,
    ) -> Result<(), EngineError> {
        let rows = staged.rows as usize;
        self.slots.fit(rows)?;
        self.refusals.fit(rows)?;
        self.entry_slots.fit(staged.entries as usize)?;
        if self.may_exceed(state, staged) {
            self.admission_requests.fit(rows)?;
        }
        self.outcomes.fit(staged.kinds.len())?;
        self.outcomes_host.fit(&self.context.memory, staged.kinds.len())?;
        let others = staged.may_end_others(&self.context.options);
        let others = if others { state.records.slots as usize } else { 0 };
        // The list of three cycles ago is unused.
        state.moved_mut(state.epoch + 1).slots.fit(rows + others)?;
        if staged.is_ordered() {
            self.ordered.fit(staged.rows, staged.clears.len())?;
        }
        Ok(())
    }

    pub(crate) fn arguments(&self, state: &FleetState, staged: &Staged) -> CycleRows {
        let bounds = self.context.options.space.bounds();
        // The capacity may be less if memory was reserved only for new objects.
        let slots = (state.records.slots + staged.rows).min(state.records.capacity() as u32);
        let moved = &state.moved(state.epoch).slots;
        let stamps = &state.records.stamps[state.epoch as usize % 2];
        CycleRows {
            input: InputArgument::new(
                &staged.arena.device,
                staged.requests,
                staged.arrivals,
                &self.outcomes,
            ),
            rules: Rules {
                epoch: state.epoch,
                clock_ms: staged.clock_before_ms(state.clock_ms),
                system_ms: staged.system_ms,
                ttl_ms: self.context.options.ttl_ms.unwrap_or(NEVER_MS),
                time_max_ms: staged.time_max_ms.min(shoal_engine::limits::TIME_MAX_MS),
                event_clock_max_ms: staged.event_clock_max_ms.unwrap_or(i64::MAX),
                x_min: bounds.x_min,
                y_min: bounds.y_min,
                x_max: bounds.x_max,
                y_max: bounds.y_max,
                rows: staged.rows,
                requests: staged.kinds.len() as u32,
                clears: staged.clears.len() as u32,
                is_limited: 0,
                event_clock: (self.context.options.clock == Clock::Event).into(),
                is_ordered: staged.is_ordered().into(),
                has_validity: staged.has_validity.into(),
                reserved: 0,
            },
            rows: RowsArgument::new(
                staged.rows,
                &self.slots,
                &self.refusals,
                &self.entry_slots,
                &state.records.best,
                moved,
                stamps,
                &self.report,
            ),
            index: state.records.index(),
            records: state.records.argument(),
            slots,
        }
    }

    /// The number of rows, entries of dictionaries and removals of a cycle whose ids have no slot;
    /// waits for it.
    pub(crate) fn newcomers(
        &mut self,
        state: &FleetState,
        staged: &Staged,
    ) -> Result<usize, EngineError> {
        let (stream, kernels) = (self.stream.clone(), self.context.gpu.kernels.clone());
        stream.wait(&staged.copied).map_err(fault)?;
        // Decodes ids if necessary; dispatch decodes them again.
        self.outcomes.fill(&stream, 0, staged.kinds.len())?;
        let failed = Failed::outcomes(&self.outcomes);
        kernels.codec_decode(&stream, &staged.arena.device, &staged.codec, failed)?;
        // The list of slots is unused until the cycle's rows are looked up.
        let (cycle, counter) = (self.arguments(state, staged), &self.slots);
        counter.fill(&stream, 0, 1)?;
        kernels.dispatch_newcomers(&stream, &cycle, counter)?;
        let mut newcomers = [0];
        counter.download(&stream, 0, &mut newcomers)?;
        stream.synchronize().map_err(fault)?;
        Ok(newcomers[0] as usize)
    }

    /// Queues the kernels of dispatch that write no record.
    pub(crate) fn begin(
        &mut self,
        state: &FleetState,
        staged: &Staged,
    ) -> Result<CycleRows, EngineError> {
        let stream = self.stream.clone();
        let kernels = self.context.gpu.kernels.clone();
        self.outcomes.fill(&stream, 0, staged.kinds.len())?;
        let report = DispatchReport {
            deadline: u64::MAX,
            slots: state.records.slots,
            ..DispatchReport::default()
        };
        self.report_host.as_mut_slice()[0] = report;
        self.report.upload(&stream, 0, self.report_host.part(0..1))?;
        let mut cycle = self.arguments(state, staged);
        let failed = Failed::outcomes(&self.outcomes);
        kernels.codec_decode(&stream, &staged.arena.device, &staged.codec, failed)?;
        if staged.has_raw_blocks {
            kernels.dispatch_verify(&stream, &cycle)?;
        }
        if self.may_exceed(state, staged) {
            cycle.rules.is_limited = self.admit(state, staged, &cycle)?.into();
        }
        let objects = &state.records.objects;
        if staged.entries > 0 {
            kernels.dispatch_dictionaries(&stream, &cycle, objects, staged.entries)?;
        }
        if staged.has_ids {
            kernels.dispatch_find(&stream, &cycle, objects)?;
            if !staged.is_ordered() {
                kernels.dispatch_order(&stream, &cycle)?;
            }
        }
        Ok(cycle)
    }

    /// Queues the kernels of dispatch that write records: after the queries of the previous cycle,
    /// which read the overwritten versions, and after the update before last, which reads the
    /// overwritten moves and stamps. The last update may still run. `readers` are the events after
    /// those queries and that update.
    pub(crate) fn finish<'a>(
        &mut self,
        staged: &Staged,
        cycle: &CycleRows,
        readers: impl Iterator<Item = &'a CudaEvent>,
    ) -> Result<(), EngineError> {
        let stream = self.stream.clone();
        let kernels = self.context.gpu.kernels.clone();
        for reader in readers {
            stream.wait(reader).map_err(fault)?;
        }
        if staged.is_ordered() {
            self.settle_ordered(staged, cycle)?;
        } else {
            if staged.entries > 0 {
                kernels.dispatch_settle_entries(&stream, cycle, staged.entries)?;
            }
            if staged.has_ids {
                kernels.dispatch_settle(&stream, cycle)?;
            }
        }
        if staged.may_expire(&self.context.options) {
            kernels.dispatch_expire(&stream, cycle)?;
        }
        self.report.download(&stream, 0, self.report_host.first(1))?;
        self.outcomes.download(&stream, 0, self.outcomes_host.first(staged.kinds.len()))
    }

    fn settle_ordered(&mut self, staged: &Staged, cycle: &CycleRows) -> Result<(), EngineError> {
        let (stream, kernels) = (self.stream.clone(), self.context.gpu.kernels.clone());
        let rows = staged.rows;
        let clears: (Vec<u32>, Vec<u32>) = staged.clears.iter().copied().unzip();
        let OrderedLists {
            keys,
            arrivals,
            sorted_keys,
            sorted_arrivals,
            clear_arrivals,
            clear_requests,
            scratch,
        } = &mut self.ordered;
        clear_arrivals.upload(&stream, 0, &clears.0)?;
        clear_requests.upload(&stream, 0, &clears.1)?;
        kernels.ordered_missing(&stream, cycle)?;
        kernels.ordered_keys(&stream, cycle, keys, arrivals)?;
        let (from, to) = ((&*keys, &*arrivals), (&*sorted_keys, &*sorted_arrivals));
        scratch.sort_pairs(&stream, from, to, rows, 32)?;
        let lists = Ordered {
            keys: sorted_keys,
            arrivals: sorted_arrivals,
            clear_arrivals,
            clear_requests,
        };
        kernels.ordered_settle(&stream, cycle, &lists)?;
        kernels.ordered_clear(&stream, cycle, &lists)
    }

    /// Reads the report of dispatch; returns the outcome of every request.
    pub(crate) fn read_report(
        &mut self,
        state: &mut FleetState,
        staged: &Staged,
    ) -> Result<(DispatchReport, Vec<RequestOutcome>), EngineError> {
        let report = self.report_host.as_slice()[0];
        state.records.slots = report.slots;
        state.objects = state.objects.wrapping_add(report.objects);
        let now_ms = match self.context.options.clock {
            Clock::System => Some(staged.system_ms),
            Clock::Event => {
                let newest_ms = report.time_max.checked_sub(1);
                let newest_ms = newest_ms.map(|since| TIME_ORIGIN_MS + since as i64);
                settle::event_clock_ms(newest_ms, staged.event_clock_max_ms)
            }
        };
        let before_ms = staged.clock_before_ms(state.clock_ms);
        state.clock_ms = settle::clock_after_ms(before_ms, now_ms);
        let refused = self.refused(staged, report.refused > 0)?;
        let deadline_ms = (report.deadline != u64::MAX)
            .then(|| TIME_ORIGIN_MS.saturating_add(report.deadline as i64));
        let (epoch, objects) = (state.epoch, state.objects);
        self.context.status.set(|now| {
            now.dispatched += 1;
            now.objects = objects;
            now.deadline_ms = deadline_ms;
        });
        debug_assert!(epoch > 0, "a cycle is running");
        let outcomes = self.outcomes_host.as_slice();
        let outcomes = staged.kinds.iter().zip(outcomes).zip(refused);
        let outcomes = outcomes.enumerate().map(|(number, ((kind, outcomes), refused))| {
            let end = staged.first_arrivals.get(number + 1).copied().unwrap_or(staged.rows);
            outcome(kind, *outcomes, refused, u64::from(end - staged.first_arrivals[number]))
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
        self.refusals.download(&self.stream, 0, &mut reasons)?;
        self.stream.synchronize().map_err(fault)?;
        let starts = &staged.first_arrivals;
        for (arrival, reason) in (0_u32..).zip(reasons).filter(|(_, reason)| *reason > 0) {
            let request = starts.partition_point(|start| *start <= arrival) - 1;
            let reason = Refusal::ALL[usize::from(reason) - 1];
            refused[request].push((arrival - starts[request], reason));
        }
        Ok(refused)
    }
}

/// The outcome of a request.
fn outcome(
    kind: &Kind,
    outcomes: RowOutcomeCounts,
    refused: Vec<(u32, Refusal)>,
    rows: u64,
) -> RequestOutcome {
    if outcomes.failed != 0
        && let Kind::Block(requests, number) = kind
        && let Request::Block(block) = &requests[*number]
    {
        // The device only reports that a row is wrong; the codec finds the row and the reason.
        return RequestOutcome { block_error: block.decode().err(), ..RequestOutcome::default() };
    }
    let (duplicate, superseded) = (u64::from(outcomes.duplicate), u64::from(outcomes.superseded));
    let (late, expired) = (u64::from(outcomes.late), u64::from(outcomes.expired));
    let others = duplicate + superseded + late + expired + refused.len() as u64;
    let has_rows = matches!(kind, Kind::Fixes | Kind::Block(..));
    RequestOutcome {
        applied: if has_rows { rows.saturating_sub(others) } else { 0 },
        duplicate,
        superseded,
        late,
        expired,
        refused,
        removed: outcomes.removed.into(),
        missing: outcomes.missing.into(),
        ahead: outcomes.ahead.into(),
        block_error: None,
    }
}
