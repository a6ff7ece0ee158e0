//! Stage dispatch as the driver queues it: validates and finds rows, settles them, and reads their
//! outcomes.
//!
//! Kernels that write records wait for the queries and the update that read them; the others run
//! concurrently with both.

use shoal_engine::layout::{DispatchReport, RowOutcomeCounts, Rules, TIME_ORIGIN_MS, TTL_NONE_MS};
use shoal_engine::stage::settle;
use shoal_engine::{Clock, EngineError, Refusal, Request, RequestOutcome};

use super::dispatch_staging::{Kind, Staged};
use super::driver::Driver;
use crate::launch::{CycleRows, Failed, InputArgument, Ordered, RowsArgument, fault};

impl Driver {
    /// Lists of a cycle, by its rows and requests: all output of dispatch except the records.
    pub(super) fn fit_lists(&mut self, staged: &Staged) -> Result<(), EngineError> {
        let rows = staged.rows as usize;
        self.slots.fit(rows)?;
        self.refusals.fit(rows)?;
        self.entry_slots.fit(staged.entries as usize)?;
        if self.may_exceed(staged) {
            self.admission_requests.fit(rows)?;
        }
        self.outcomes.fit(staged.kinds.len())?;
        self.outcomes_host.fit(&self.memory, staged.kinds.len())?;
        let others = self.options.ttl_ms.is_some() || !staged.clears.is_empty();
        let others = if others { self.records.slots as usize } else { 0 };
        // The list of three cycles ago is unused.
        self.moved_in(self.epoch + 1).0.fit(rows + others)?;
        if staged.is_ordered() {
            let clears = staged.clears.len();
            let lengths = [rows, rows, rows, rows, clears, clears];
            for (list, length) in self.ordered.iter_mut().zip(lengths) {
                list.fit(length)?;
            }
            self.ordered_scratch.fit_pairs(staged.rows, 32)?;
        }
        Ok(())
    }

    pub(super) fn arguments(&self, staged: &Staged) -> CycleRows {
        let bounds = self.options.space.bounds();
        // Fewer than the rows if memory was reserved for new objects alone.
        let slots = (self.records.slots + staged.rows).min(self.records.capacity() as u32);
        let (moved, _) = &self.moved[self.epoch as usize % 3];
        let stamps = &self.records.stamps[self.epoch as usize % 2];
        CycleRows {
            input: InputArgument::new(
                &staged.arena.device,
                staged.requests,
                staged.arrivals,
                &self.outcomes,
            ),
            rules: Rules {
                epoch: self.epoch,
                clock_ms: staged.clock_before_ms(self.clock_ms),
                system_ms: staged.system_ms,
                ttl_ms: self.options.ttl_ms.unwrap_or(TTL_NONE_MS),
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
                event_clock: (self.options.clock == Clock::Event).into(),
                is_ordered: staged.is_ordered().into(),
            },
            rows: RowsArgument::new(
                staged.rows,
                (&self.slots, &self.refusals),
                &self.entry_slots,
                &self.records.best,
                moved,
                stamps,
                &self.report,
            ),
            index: self.records.index(),
            records: self.records.argument(),
            slots,
        }
    }

    /// Queues the kernels of dispatch that write no record.
    pub(super) fn begin_dispatch(&mut self, staged: &Staged) -> Result<CycleRows, EngineError> {
        let stream = self.dispatch.clone();
        let kernels = self.gpu.kernels.clone();
        self.outcomes.fill(&stream, 0, staged.kinds.len())?;
        let report = DispatchReport {
            time_min: u64::MAX,
            slots: self.records.slots,
            ..DispatchReport::default()
        };
        self.report_host.as_mut_slice()[0] = report;
        self.report.upload(&stream, 0, self.report_host.part(0..1))?;
        let mut cycle = self.arguments(staged);
        let failed = Failed::outcomes(&self.outcomes);
        kernels.codec_decode(&stream, &staged.arena.device, &staged.codec, failed)?;
        if staged.has_raw_blocks {
            kernels.dispatch_verify(&stream, &cycle)?;
        }
        if self.may_exceed(staged) {
            cycle.rules.is_limited = self.admit(staged, &cycle)?.into();
        }
        let objects = &self.records.objects;
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
    /// overwritten moves and stamps. The last update may still run.
    pub(super) fn finish_dispatch(
        &mut self,
        staged: &Staged,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        let stream = self.dispatch.clone();
        let kernels = self.gpu.kernels.clone();
        for event in self.queried.as_deref().into_iter().chain(&self.updated) {
            stream.wait(event).map_err(fault)?;
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
        if self.options.ttl_ms.is_some() {
            kernels.dispatch_expire(&stream, cycle)?;
        }
        self.report.download(&stream, 0, self.report_host.first(1))?;
        self.outcomes.download(&stream, 0, self.outcomes_host.first(staged.kinds.len()))
    }

    pub(super) fn settle_ordered(
        &mut self,
        staged: &Staged,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        let (stream, kernels) = (self.dispatch.clone(), self.gpu.kernels.clone());
        let rows = staged.rows;
        let clears: (Vec<u32>, Vec<u32>) = staged.clears.iter().copied().unzip();
        let [keys, arrivals, sorted_keys, sorted_arrivals, clear_arrivals, clear_requests] =
            &mut self.ordered;
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

    /// Reads the report of dispatch; returns the outcome of every request.
    pub(super) fn read_report(
        &mut self,
        staged: &Staged,
    ) -> Result<(DispatchReport, Vec<RequestOutcome>), EngineError> {
        let report = self.report_host.as_slice()[0];
        self.records.slots = report.slots;
        self.objects = self.objects.wrapping_add(report.objects);
        let now_ms = match self.options.clock {
            Clock::System => Some(staged.system_ms),
            Clock::Event => {
                let newest_ms = report.time_max.checked_sub(1);
                let newest_ms = newest_ms.map(|since| TIME_ORIGIN_MS + since as i64);
                settle::event_clock_ms(newest_ms, staged.event_clock_max_ms)
            }
        };
        let before_ms = staged.clock_before_ms(self.clock_ms);
        self.clock_ms = settle::clock_after_ms(before_ms, now_ms);
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
        let outcomes = self.outcomes_host.as_slice();
        let outcomes = staged.kinds.iter().zip(outcomes).zip(refused);
        let outcomes = outcomes.enumerate().map(|(number, ((kind, outcomes), refused))| {
            let end = staged.first_arrivals.get(number + 1).copied().unwrap_or(staged.rows);
            outcome(kind, *outcomes, refused, u64::from(end - staged.first_arrivals[number]))
        });
        Ok((report, outcomes.collect()))
    }

    /// Refused rows of every request.
    pub(super) fn refused(
        &self,
        staged: &Staged,
        any: bool,
    ) -> Result<Vec<Vec<(u32, Refusal)>>, EngineError> {
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
