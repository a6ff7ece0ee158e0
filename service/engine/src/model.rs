//! The reference implementation of [`Backend`]: a map and a scan.
//!
//! It follows the contract clause by clause; every backend and the load generator are compared
//! with it. It shares types, regions and the row validator with the backends, but no algorithms.
//! Its one index orders records by their deadlines, so that expiry does not scan all of them.

mod answer;
mod continuous_query;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shoal_codec::{FixColumns, FixRow, VALIDITY_UNKNOWN};

use crate::backend::{Backend, Clock, EngineOptions, GridUpdates};
use crate::cycle::{
    CycleInput, CycleOutput, ExportHeader, Refusal, Request, RequestOutcome, Snapshot, Ticket,
};
use crate::error::EngineError;
use crate::limits::CYCLES_IN_FLIGHT_MAX;
use crate::query::{AnswerPage, AnswerSet, Query};
use crate::stage::dispatch::RowValidator;
use crate::subscription::EventKind;
use answer::Search;
use continuous_query::{ContinuousQueries, ModifiedObject, ObjectChange};

/// One fleet as a map from object to record.
#[derive(Clone, Debug)]
pub struct Model {
    options: EngineOptions,
    records: BTreeMap<u64, FixRow>,
    /// (deadline, object) of the records that expire.
    by_deadline: BTreeSet<(i64, u64)>,
    epoch: u64,
    clock_ms: i64,
    continuous: ContinuousQueries,
    outputs: BTreeMap<Ticket, CycleOutput>,
    /// Rows of the export that were not returned yet.
    exporting: VecDeque<FixRow>,
}

/// A cycle while its requests arrive one by one.
struct Arrivals<'a> {
    records: &'a BTreeMap<u64, FixRow>,
    validator: RowValidator,
    /// Objects that exist at this point of the order of arrival.
    objects: u64,
    objects_max: u64,
    modified: BTreeMap<u64, ModifiedObject>,
    outcomes: Vec<RequestOutcome>,
    /// The event times of the rows that were not refused, by request.
    times: Vec<Vec<i64>>,
}

impl Arrivals<'_> {
    fn request(&mut self, request: &Request) {
        self.outcomes.push(RequestOutcome::default());
        self.times.push(Vec::new());
        match request {
            Request::Fixes(columns) => self.rows(columns),
            Request::Block(block) => match block.decode() {
                Ok(columns) => self.rows(&columns),
                Err(error) => self.outcome().block_error = Some(error),
            },
            Request::Remove(objects) => {
                for object in objects {
                    let existed = self.remove(*object, EventKind::Removed);
                    self.outcome().removed += u64::from(existed);
                    self.outcome().missing += u64::from(!existed);
                }
            }
            Request::Rewind => {}
            Request::Clear => {
                let objects: BTreeSet<u64> =
                    self.records.keys().chain(self.modified.keys()).copied().collect();
                for object in objects {
                    let existed = self.remove(object, EventKind::Cleared);
                    self.outcome().removed += u64::from(existed);
                }
            }
        }
    }

    /// The outcome of the request that is arriving.
    fn outcome(&mut self) -> &mut RequestOutcome {
        self.outcomes.last_mut().expect("a request is arriving")
    }

    fn rows(&mut self, columns: &FixColumns) {
        for index in 0..columns.len() {
            if let Some(refusal) = self.row(columns.row(index)) {
                self.outcome().refused.push((index as u32, refusal));
            }
        }
    }

    fn row(&mut self, row: FixRow) -> Option<Refusal> {
        if let Some(refusal) = self.validator.validate_row(&row) {
            return Some(refusal);
        }
        let record = || ModifiedObject::new(self.records.get(&row.object).copied());
        let object = self.modified.entry(row.object).or_insert_with(record);
        if !object.exists {
            if self.objects >= self.objects_max {
                return Some(Refusal::ObjectLimit);
            }
            object.exists = true;
            self.objects += 1;
        }
        let request = self.outcomes.len() - 1;
        self.times[request].push(row.time_ms);
        if object.start.is_some_and(|start| row.time_ms < start.time_ms) {
            self.outcomes[request].late += 1;
            return None;
        }
        object.arrived.push(ObjectChange::Row(row));
        // At equal time the later arrival wins.
        let loser = match object.winner {
            Some((_, winner)) if row.time_ms < winner.time_ms => Some(request),
            before => {
                object.winner = Some((request, row));
                before.map(|(request, _)| request)
            }
        };
        if let Some(request) = loser {
            self.outcomes[request].superseded += 1;
        }
        None
    }

    /// Ends an object's life; returns true if it existed.
    fn remove(&mut self, object: u64, reason: EventKind) -> bool {
        let record = || ModifiedObject::new(self.records.get(&object).copied());
        let object = self.modified.entry(object).or_insert_with(record);
        let existed = std::mem::take(&mut object.exists);
        if existed {
            object.arrived.push(ObjectChange::End(reason));
        }
        object.start = None;
        if let Some((request, _)) = object.winner.take() {
            self.outcomes[request].superseded += 1;
        }
        self.objects -= u64::from(existed);
        existed
    }
}

impl Model {
    /// An engine without objects.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        Self {
            options,
            records: BTreeMap::new(),
            by_deadline: BTreeSet::new(),
            epoch: 0,
            clock_ms: 0,
            continuous: ContinuousQueries::default(),
            outputs: BTreeMap::new(),
            exporting: VecDeque::new(),
        }
    }

    /// The last submitted cycle; 0 at the start.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The clock after the last submitted cycle.
    #[must_use]
    pub fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// All records by object.
    #[must_use]
    pub fn records(&self) -> &BTreeMap<u64, FixRow> {
        &self.records
    }

    /// Answers queries on the current state in one scan of all records, ages judged at `clock_ms`.
    #[must_use]
    pub fn answer<'a>(
        &self,
        queries: impl IntoIterator<Item = &'a Query>,
        clock_ms: i64,
    ) -> AnswerSet {
        let search = |query| Search::new(query, &self.options.space, &self.records, clock_ms);
        let mut searches: Vec<Search<'_>> = queries.into_iter().map(search).collect();
        Search::scan(&mut searches, self.records.values(), clock_ms);
        let mut page = AnswerPage::default();
        searches.into_iter().for_each(|search| search.finish(&mut page));
        let places = (0..page.heads.len() as u32).map(|head| (0, head)).collect();
        AnswerSet::new(vec![page], places)
    }

    fn cycle(&mut self, input: CycleInput) -> CycleOutput {
        let mut arrivals = Arrivals {
            records: &self.records,
            validator: RowValidator::new(&self.options.space, input.time_max_ms),
            objects: self.objects(),
            objects_max: self.options.objects_max,
            modified: BTreeMap::new(),
            outcomes: Vec::new(),
            times: Vec::new(),
        };
        for request in input.requests.iter() {
            arrivals.request(request);
        }
        let Arrivals { mut modified, outcomes: mut requests, times, .. } = arrivals;
        if input.rewinds() && self.clock_ms > input.system_ms {
            self.clock_ms = input.system_ms;
        }
        match self.options.clock {
            Clock::System => self.clock_ms = self.clock_ms.max(input.system_ms),
            Clock::Event => {
                self.move_event_clock(&times, input.event_clock_max_ms, &mut requests);
            }
        }
        self.epoch += 1;
        self.apply(&mut modified, &mut requests);
        let expired = self.expire(&mut modified);
        let mut changes = if input.rewinds() { self.continuous.begun_anew() } else { Vec::new() };
        changes.extend(input.subscriptions);
        let (options, clock_ms, records) = (&self.options, self.clock_ms, &self.records);
        let events = self.continuous.cycle(options, clock_ms, changes, &modified, records);
        CycleOutput {
            epoch: self.epoch,
            clock_ms,
            requests,
            answer_epoch: self.epoch,
            answer_clock_ms: clock_ms,
            answers: self.answer(&input.queries, clock_ms),
            unanswered: None,
            unfinished: Vec::new(),
            query_work: Vec::new(),
            queries: input.queries,
            events,
            expired,
            objects: self.objects(),
        }
    }

    /// Moves the clock forward to the newest row that was not refused, at most to `max_ms`. Counts
    /// the rows that are ahead of the clock.
    fn move_event_clock(
        &mut self,
        times: &[Vec<i64>],
        max_ms: Option<i64>,
        outcomes: &mut [RequestOutcome],
    ) {
        if let Some(newest_ms) = times.iter().flatten().max() {
            let now_ms = (*newest_ms).min(max_ms.unwrap_or(i64::MAX));
            self.clock_ms = self.clock_ms.max(now_ms);
        }
        for (outcome, times) in outcomes.iter_mut().zip(times) {
            let ahead = times.iter().filter(|time_ms| **time_ms > self.clock_ms);
            outcome.ahead = ahead.count() as u64;
        }
    }

    /// Writes the winners and removes the objects that ended.
    fn apply(
        &mut self,
        modified: &mut BTreeMap<u64, ModifiedObject>,
        outcomes: &mut [RequestOutcome],
    ) {
        for (id, object) in modified {
            match object.winner {
                Some((request, winner)) if object.start == Some(winner) => {
                    outcomes[request].duplicate += 1;
                }
                Some((request, winner)) => {
                    let is_expired =
                        self.deadline_ms(&winner).is_some_and(|last_ms| self.clock_ms > last_ms);
                    outcomes[request].applied += u64::from(!is_expired);
                    outcomes[request].expired += u64::from(is_expired);
                    self.insert(winner);
                    object.is_written = true;
                }
                None if !object.exists => self.remove(*id),
                None => {}
            }
        }
    }

    /// Removes the records that have expired; returns their number.
    fn expire(&mut self, modified: &mut BTreeMap<u64, ModifiedObject>) -> u64 {
        let mut expired = 0;
        while let Some(&(last_ms, id)) = self.by_deadline.first()
            && self.clock_ms > last_ms
        {
            let record = Some(self.records[&id]);
            modified.entry(id).or_insert_with(|| ModifiedObject::new(record)).expired = record;
            self.remove(id);
            expired += 1;
        }
        expired
    }

    /// The last clock at which a record exists; `None` if it does not expire.
    fn deadline_ms(&self, row: &FixRow) -> Option<i64> {
        let valid_ms = (row.valid_ms != VALIDITY_UNKNOWN).then_some(i64::from(row.valid_ms));
        let life_ms = self.options.ttl_ms.into_iter().chain(valid_ms).min()?;
        Some(row.time_ms.saturating_add(life_ms))
    }

    /// Makes a row the record of its object.
    fn insert(&mut self, row: FixRow) {
        self.remove(row.object);
        self.by_deadline.extend(self.deadline_ms(&row).map(|last_ms| (last_ms, row.object)));
        self.records.insert(row.object, row);
    }

    fn remove(&mut self, object: u64) {
        if let Some(before) = self.records.remove(&object)
            && let Some(last_ms) = self.deadline_ms(&before)
        {
            self.by_deadline.remove(&(last_ms, object));
        }
    }
}

impl Backend for Model {
    fn options(&self) -> &EngineOptions {
        &self.options
    }

    fn answer_lag(&self) -> u64 {
        0
    }

    fn submit(&mut self, input: CycleInput) -> Result<Ticket, EngineError> {
        if self.outputs.len() >= CYCLES_IN_FLIGHT_MAX {
            return Err(EngineError::TooManyInFlight(self.outputs.len()));
        }
        input.check()?;
        input.check_regions(self.continuous.len(), |region| self.continuous.contains(region))?;
        let output = self.cycle(input);
        let ticket = Ticket(output.epoch);
        self.outputs.insert(ticket, output);
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError> {
        self.outputs.remove(&ticket).ok_or(EngineError::UnknownTicket(ticket.0))
    }

    fn begin_export(&mut self) -> Result<ExportHeader, EngineError> {
        self.exporting = self.records.values().copied().collect();
        let (term, objects) = (self.options.term, self.objects());
        Ok(ExportHeader { term, epoch: self.epoch, clock_ms: self.clock_ms, objects })
    }

    fn export_next(&mut self, rows_max: usize) -> Result<Option<FixColumns>, EngineError> {
        let rows = rows_max.max(1).min(self.exporting.len());
        let mut columns = FixColumns::with_capacity(rows);
        self.exporting.drain(..rows).for_each(|row| columns.push_row(row));
        Ok((!columns.is_empty()).then_some(columns))
    }

    fn end_export(&mut self) {
        self.exporting = VecDeque::new();
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError> {
        snapshot.check(&self.options, self.epoch)?;
        self.end_export();
        (self.epoch, self.clock_ms) = (snapshot.epoch, snapshot.clock_ms);
        self.records.clear();
        self.by_deadline.clear();
        for batch in &snapshot.batches {
            (0..batch.len()).for_each(|row| self.insert(batch.row(row)));
        }
        Ok(())
    }

    fn due_ms(&self) -> Option<i64> {
        let expiry_ms = self.by_deadline.first().and_then(|(last_ms, _)| last_ms.checked_add(1));
        expiry_ms.into_iter().chain(self.continuous.due_ms(&self.records)).min()
    }

    fn objects(&self) -> u64 {
        self.records.len() as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.objects() * size_of::<(u64, FixRow)>() as u64
    }

    /// It has no grid.
    fn grid_updates(&self) -> GridUpdates {
        GridUpdates::default()
    }
}
