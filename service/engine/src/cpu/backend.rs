//! The CPU backend as a whole: holds the state of one fleet and runs the stages of each cycle.
//!
//! `submit` completes the cycle; `wait` returns its output. Answers hold on the cycle's own epoch.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;

use shoal_codec::FixColumns;

use super::admission::admission_requests;
use super::band::Band;
use super::dispatch::{Dispatch, Router};
use super::export::Export;
use super::grid::Grid;
use super::index::ObjectHash;
use super::motion::{AttributesOf, EventContext};
use super::parallel;
use super::query_table::{Plan, QueryTable};
use super::record::RowOutcome;
use super::regrid::{self, Chosen};
use super::scan::Cells;
use super::shard::{SHARDS, Shard, ShardCycle};
use super::subscription;
use super::view::View;
use crate::backend::{Backend, Clock, EngineOptions, GridUpdates};
use crate::cycle::{
    CycleInput, CycleOutput, ExportHeader, Request, RequestOutcome, Snapshot, Ticket,
};
use crate::error::EngineError;
use crate::events::EventSet;
use crate::limits;
use crate::stage::admission;
use crate::stage::dispatch::RowValidator;
use crate::stage::settle;

/// Lanes whose buffers are kept between cycles.
const LANES_KEPT: usize = 32;

/// One fleet on the CPU.
#[derive(Debug)]
pub struct CpuBackend {
    pub(super) options: EngineOptions,
    pub(super) hash: ObjectHash,
    pub(super) epoch: u64,
    pub(super) clock_ms: i64,
    pub(super) shards: Vec<Shard>,
    pub(super) grid: Grid,
    pub(super) bands: Vec<Band>,
    pub(super) chosen: Chosen,
    dispatch: Dispatch,
    queries: QueryTable,
    outputs: VecDeque<(Ticket, CycleOutput)>,
    next_ticket: u64,
    grid_updates: GridUpdates,
    export: Option<Export>,
}

impl CpuBackend {
    /// An engine without objects.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        let mut shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::new()).collect();
        let (grid, bands, _) = regrid::rebuild(&options.space, &mut shards);
        Self {
            hash: ObjectHash::new(options.hash_key),
            queries: QueryTable::new(&options.space),
            options,
            epoch: 0,
            clock_ms: 0,
            shards,
            grid,
            bands,
            chosen: Chosen::new(),
            dispatch: Dispatch::default(),
            outputs: VecDeque::new(),
            next_ticket: 1,
            grid_updates: GridUpdates::default(),
            export: None,
        }
    }

    fn cycle(&mut self, mut input: CycleInput) -> CycleOutput {
        let router = Router {
            validator: RowValidator::new(&self.options.space, input.time_max_ms),
            hash: self.hash,
        };
        self.dispatch.route(&router, &input.requests);
        self.admit();
        self.settle_clock(&input);
        let mut changes = if input.rewinds() { self.queries.begun_anew() } else { Vec::new() };
        changes.append(&mut input.subscriptions);
        let plan = self.queries.plan(changes);
        let listed = AtomicU64::new(0);
        let cleared = self.settle_shards(input.requests.len(), &plan, &listed);
        self.update();
        self.epoch += 1;
        let events = self.collect_events(plan, &listed);
        let mut answered = self.view().answer(&input);
        let output = CycleOutput {
            epoch: self.epoch,
            clock_ms: self.clock_ms,
            requests: self.outcomes(&input.requests, &cleared),
            answer_epoch: self.epoch,
            answer_clock_ms: self.clock_ms,
            unanswered: None,
            unfinished: std::mem::take(&mut answered.unfinished),
            query_work: std::mem::take(&mut answered.work),
            answers: answered.into_set(),
            queries: input.queries,
            events,
            expired: self.shards.iter().map(|shard| shard.expired).sum(),
            objects: self.objects(),
        };
        self.dispatch.shrink(LANES_KEPT);
        output
    }

    /// A view of the current state.
    pub(super) fn view(&self) -> View<'_> {
        View {
            space: &self.options.space,
            hash: self.hash,
            shards: &self.shards,
            cells: Cells { grid: &self.grid, bands: &self.bands },
            clock_ms: self.clock_ms,
        }
    }

    /// Refuses the rows that would exceed the object limit.
    fn admit(&mut self) {
        let (rows, objects, objects_max) =
            (self.dispatch.rows(), self.objects(), self.options.objects_max);
        if admission::may_exceed(objects, rows as u64, objects_max) {
            let lanes = self.dispatch.lanes();
            let admission_requests = admission_requests(&self.shards, lanes, rows);
            let cleared = lanes.iter().filter(|lane| lane.clear.is_some());
            let clears: Vec<u32> = cleared.map(|lane| lane.first_arrival).collect();
            let refused = admission::refused(objects, objects_max, &clears, &admission_requests);
            self.dispatch.refuse(&refused);
        }
    }

    fn settle_clock(&mut self, input: &CycleInput) {
        let now_ms = match self.options.clock {
            Clock::System => Some(input.system_ms),
            Clock::Event => {
                settle::event_clock_ms(self.dispatch.time_max_ms(), input.event_clock_max_ms)
            }
        };
        self.clock_ms = settle::clock_after_ms(input.clock_before_ms(self.clock_ms), now_ms);
    }

    /// Hands the lanes to the shards; returns the number of objects that each `Clear` removed, by
    /// request.
    fn settle_shards(
        &mut self,
        requests: usize,
        plan: &Plan,
        listed: &AtomicU64,
    ) -> Vec<(usize, u64)> {
        let dispatch = &self.dispatch;
        let find = |arrival: u32| dispatch.attributes(arrival);
        let attributes: AttributesOf<'_> =
            if dispatch.has_attributes() { Some(&find) } else { None };
        let cycle = ShardCycle {
            hash: self.hash,
            grid: &self.grid,
            clock_ms: self.clock_ms,
            ttl_ms: self.options.ttl_ms,
            attributes,
            events: (!self.queries.is_empty()).then(|| {
                EventContext::new(
                    &self.queries,
                    plan,
                    &self.options,
                    self.clock_ms,
                    listed,
                    attributes,
                )
            }),
        };
        let lanes = dispatch.lanes();
        let clears = lanes.iter().filter_map(|lane| lane.clear);
        let mut cleared: Vec<(usize, u64)> = clears.map(|request| (request, 0)).collect();
        debug_assert!(cleared.len() <= requests, "a lane has one clear");
        let size = dispatch.rows() + cleared.len() * limits::CYCLE_FIXES_MAX;
        let mut removed = vec![vec![0_u64; cleared.len()]; SHARDS];
        let mut work: Vec<_> = self.shards.iter_mut().zip(&mut removed).collect();
        parallel::for_each_mut(&mut work, size, |number, (shard, removed)| {
            shard.notes.clear();
            shard.events.begin();
            let mut removed = removed.iter_mut();
            for lane in lanes {
                if lane.clear.is_some()
                    && let Some(count) = removed.next()
                {
                    *count = shard.clear(&cycle);
                }
                shard.take(&cycle, &lane.routed[number]);
            }
            shard.settle(&cycle, number);
        });
        for (at, (_, total)) in cleared.iter_mut().enumerate() {
            *total = removed.iter().map(|counts| counts[at]).sum();
        }
        cleared
    }

    fn update(&mut self) {
        let (grid, shards) = (&self.grid, &self.shards);
        let size = shards.iter().flat_map(|shard| &shard.operations).map(Vec::len).sum();
        if size > 0 {
            parallel::for_each_mut(&mut self.bands, size, |number, band| {
                band.update(grid, shards, number);
            });
        }
        if self.chosen.is_outgrown(self.objects(), &self.bands) {
            self.bands = Vec::new();
            (self.grid, self.bands, self.chosen) =
                regrid::rebuild(&self.options.space, &mut self.shards);
            self.grid_updates.rebuilt += 1;
        } else {
            self.grid_updates.applied += 1;
        }
    }

    /// The events of the continuous queries; applies their changes.
    fn collect_events(&mut self, plan: Plan, listed: &AtomicU64) -> EventSet {
        if self.queries.is_empty() && plan.changes.is_empty() {
            return EventSet::default();
        }
        let (dispatch, clock_ms) = (&self.dispatch, self.clock_ms);
        let find = |arrival: u32| dispatch.attributes(arrival);
        let attributes: AttributesOf<'_> =
            if dispatch.has_attributes() { Some(&find) } else { None };
        let context =
            EventContext::new(&self.queries, &plan, &self.options, clock_ms, listed, attributes);
        let blind = View {
            space: &self.options.space,
            hash: self.hash,
            shards: &[],
            cells: Cells { grid: &self.grid, bands: &self.bands },
            clock_ms,
        };
        let (events, outcomes) =
            subscription::collect_events(&context, &plan, &mut self.shards, blind);
        subscription::apply_changes(&mut self.queries, plan, outcomes, clock_ms, &mut self.shards);
        events
    }

    /// Sums lanes and notes up per request.
    fn outcomes(&self, requests: &[Request], cleared: &[(usize, u64)]) -> Vec<RequestOutcome> {
        let mut starts = Vec::with_capacity(requests.len());
        let mut arrival = 0_u32;
        for request in requests {
            starts.push(arrival);
            arrival += request.rows() as u32;
        }
        // A request without rows has the same start as the next one. Of requests with equal starts
        // the last one owns the rows.
        let owner = |arrival: u32| starts.partition_point(|start| *start <= arrival) - 1;
        let mut outcomes = vec![RequestOutcome::default(); requests.len()];
        for (arrival, reason) in self.dispatch.lanes().iter().flat_map(|lane| &lane.refused) {
            let request = owner(*arrival);
            outcomes[request].refused.push((arrival - starts[request], *reason));
        }
        for note in self.shards.iter().flat_map(|shard| &shard.notes) {
            let request = owner(note.arrival);
            let outcome = &mut outcomes[request];
            match note.outcome {
                RowOutcome::Duplicate => outcome.duplicate += 1,
                RowOutcome::Superseded => outcome.superseded += 1,
                RowOutcome::Late => outcome.late += 1,
                RowOutcome::Expired => outcome.expired += 1,
                RowOutcome::Removed => outcome.removed += 1,
                RowOutcome::Missing => outcome.missing += 1,
            }
        }
        if self.options.clock == Clock::Event {
            let ahead = self.dispatch.arrivals_after(self.clock_ms);
            ahead.for_each(|arrival| outcomes[owner(arrival)].ahead += 1);
        }
        for (outcome, request) in outcomes.iter_mut().zip(requests) {
            if matches!(request, Request::Fixes(_) | Request::Block(_)) {
                let others =
                    outcome.duplicate + outcome.superseded + outcome.late + outcome.expired;
                let refused = outcome.refused.len() as u64;
                outcome.applied = (request.rows() as u64).saturating_sub(others + refused);
            }
        }
        for (request, removed) in cleared {
            outcomes[*request].removed = *removed;
        }
        for (request, error) in &self.dispatch.failed {
            outcomes[*request] =
                RequestOutcome { block_error: Some(error.clone()), ..RequestOutcome::default() };
        }
        outcomes
    }
}

impl Backend for CpuBackend {
    fn options(&self) -> &EngineOptions {
        &self.options
    }

    fn answer_lag(&self) -> u64 {
        0
    }

    fn submit(&mut self, input: CycleInput) -> Result<Ticket, EngineError> {
        if self.outputs.len() >= limits::CYCLES_IN_FLIGHT_MAX {
            return Err(EngineError::TooManyInFlight(self.outputs.len()));
        }
        input.check()?;
        input.check_regions(self.queries.len(), |region| self.queries.number(region).is_some())?;
        let output = self.cycle(input);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.outputs.push_back((ticket, output));
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError> {
        let at = self.outputs.iter().position(|(held, _)| *held == ticket);
        let output = at.and_then(|at| self.outputs.remove(at));
        output.map(|(_, output)| output).ok_or(EngineError::UnknownTicket(ticket.0))
    }

    fn begin_export(&mut self) -> Result<ExportHeader, EngineError> {
        let (term, objects) = (self.options.term, self.objects());
        self.export = Some(Export::begin(&mut self.shards, objects));
        Ok(ExportHeader { term, epoch: self.epoch, clock_ms: self.clock_ms, objects })
    }

    fn export_next(&mut self, rows_max: usize) -> Result<Option<FixColumns>, EngineError> {
        let Some(export) = &mut self.export else { return Ok(None) };
        let columns = export.next(&mut self.shards, rows_max);
        if columns.is_none() {
            self.end_export();
        }
        Ok(columns)
    }

    fn end_export(&mut self) {
        if self.export.take().is_some() {
            Export::end(&mut self.shards);
        }
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError> {
        snapshot.check_size(&self.options, self.epoch)?;
        self.check_rows(&snapshot)?;
        self.replace(snapshot)
    }

    fn due_ms(&self) -> Option<i64> {
        let expiries = self.shards.iter().filter_map(Shard::expiry_due_ms);
        let dues = self.shards.iter().filter_map(|shard| shard.events.members.due_ms());
        dues.chain(expiries).min()
    }

    fn objects(&self) -> u64 {
        self.shards.iter().map(Shard::objects).sum()
    }

    fn memory_bytes(&self) -> u64 {
        let shards: usize = self.shards.iter().map(Shard::memory_bytes).sum();
        let bands: usize = self.bands.iter().map(Band::memory_bytes).sum();
        (shards + bands + self.dispatch.memory_bytes() + self.queries.memory_bytes()) as u64
    }

    fn grid_updates(&self) -> GridUpdates {
        self.grid_updates
    }
}
