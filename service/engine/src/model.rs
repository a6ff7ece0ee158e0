//! The plain truth: a map and a scan, against which every backend is compared.
//!
//! Follows the words of [`Backend`] one by one and is as slow as it looks. Shares types, regions
//! and the judge with the backends, nothing of how they work.

mod standing;

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::{FixColumns, FixRow};

use crate::backend::{Backend, Clock, EngineOptions};
use crate::cycle::{CycleInput, CycleOutput, Refusal, Request, RequestOutcome, Snapshot, Ticket};
use crate::error::EngineError;
use crate::limits::CYCLES_IN_FLIGHT_MAX;
use crate::query::{Answer, AnswerHead, AnswerPage, AnswerSet, Projection, Query, QueryKind};
use crate::rank::Ranker;
use crate::stage::dispatch::RowValidator;
use crate::subscription::EventKind;
use standing::{Changed, ObjectChange, StandingRegions};

/// One fleet as a map from object to record.
#[derive(Clone, Debug)]
pub struct Model {
    options: EngineOptions,
    records: BTreeMap<u64, FixRow>,
    epoch: u64,
    clock_ms: i64,
    standing: StandingRegions,
    outputs: BTreeMap<Ticket, CycleOutput>,
}

/// What a query returns, owned; the fields of [`Answer`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelAnswer {
    /// Objects that match, whether returned or not.
    pub total: u64,
    /// True when the limit cut rows off.
    pub truncated: bool,
    /// Ids in the order of the answer.
    pub objects: Vec<u64>,
    /// Records beside them, if asked for.
    pub fixes: Vec<FixRow>,
    /// Ranks beside them, for nearest.
    pub ranks: Vec<u64>,
}

impl PartialEq<Answer<'_>> for ModelAnswer {
    fn eq(&self, other: &Answer<'_>) -> bool {
        (self.total, self.truncated) == (other.total, other.truncated)
            && self.objects == other.objects
            && self.fixes == other.fixes
            && self.ranks == other.ranks
    }
}

/// An object that a cycle has touched so far.
struct Touched {
    /// Its record at the start of the cycle; none once a removal or clear has arrived.
    start: Option<FixRow>,
    /// Whether it exists at this point of the order of arrival.
    exists: bool,
    /// The winner so far of the rows since the last removal, and its request.
    winner: Option<(usize, FixRow)>,
    /// Rows that are neither refused nor late, and ends of its life.
    arrived: Vec<ObjectChange>,
}

/// A cycle while its requests arrive one by one.
struct Arrivals<'a> {
    records: &'a BTreeMap<u64, FixRow>,
    judge: RowValidator,
    /// Objects that exist at this point of the order of arrival.
    objects: u64,
    objects_max: u64,
    touched: BTreeMap<u64, Touched>,
    outcomes: Vec<RequestOutcome>,
    /// The largest event time that was not refused.
    time_max_ms: Option<i64>,
}

impl Arrivals<'_> {
    fn request(&mut self, request: &Request) {
        self.outcomes.push(RequestOutcome::default());
        match request {
            Request::Fixes(columns) => self.rows(columns),
            Request::Block(block) => match block.decode() {
                Ok(columns) => self.rows(&columns),
                Err(error) => self.outcome().block_error = Some(error),
            },
            Request::Remove(objects) => {
                for object in objects {
                    if self.remove(*object, EventKind::Removed) {
                        self.outcome().removed += 1;
                    } else {
                        self.outcome().missing += 1;
                    }
                }
            }
            Request::Clear => {
                let known: BTreeSet<u64> =
                    self.records.keys().chain(self.touched.keys()).copied().collect();
                for object in known {
                    let was_alive = self.remove(object, EventKind::Cleared);
                    self.outcome().removed += u64::from(was_alive);
                }
            }
        }
    }

    /// The outcome of the request that is arriving.
    fn outcome(&mut self) -> &mut RequestOutcome {
        self.outcomes.last_mut().expect("a request is arriving")
    }

    fn touch(&mut self, object: u64) -> &mut Touched {
        let start = self.records.get(&object).copied();
        let exists = start.is_some();
        let fresh = || Touched { start, exists, winner: None, arrived: Vec::new() };
        self.touched.entry(object).or_insert_with(fresh)
    }

    fn rows(&mut self, columns: &FixColumns) {
        for index in 0..columns.len() {
            if let Some(refusal) = self.row(columns.row(index)) {
                self.outcome().refused.push((index as u32, refusal));
            }
        }
    }

    fn row(&mut self, row: FixRow) -> Option<Refusal> {
        if let Some(refusal) = self.judge.validate_row(&row) {
            return Some(refusal);
        }
        let is_full = self.objects >= self.objects_max;
        let touched = self.touch(row.object);
        if !touched.exists {
            if is_full {
                return Some(Refusal::ObjectLimit);
            }
            touched.exists = true;
            self.objects += 1;
        }
        self.accept(row);
        None
    }

    /// Takes a row that is not refused.
    fn accept(&mut self, row: FixRow) {
        self.time_max_ms = self.time_max_ms.max(Some(row.time_ms));
        let request = self.outcomes.len() - 1;
        let touched = self.touch(row.object);
        if touched.start.is_some_and(|start| row.time_ms < start.time_ms) {
            self.outcome().late += 1;
            return;
        }
        touched.arrived.push(ObjectChange::Row(row));
        // At equal time the later arrival wins.
        let loser = match touched.winner {
            Some((_, winner)) if row.time_ms < winner.time_ms => Some(request),
            before => {
                touched.winner = Some((request, row));
                before.map(|(request, _)| request)
            }
        };
        if let Some(request) = loser {
            self.outcomes[request].superseded += 1;
        }
    }

    /// Takes an object away; whether it existed.
    fn remove(&mut self, object: u64, reason: EventKind) -> bool {
        let touched = self.touch(object);
        let mut arrived = std::mem::take(&mut touched.arrived);
        if touched.exists {
            arrived.push(ObjectChange::End(reason));
        }
        let gone = Touched { start: None, exists: false, winner: None, arrived };
        let before = std::mem::replace(touched, gone);
        if let Some((request, _)) = before.winner {
            self.outcomes[request].superseded += 1;
        }
        self.objects -= u64::from(before.exists);
        before.exists
    }
}

impl Model {
    /// An engine without objects.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        let (records, outputs) = (BTreeMap::new(), BTreeMap::new());
        let standing = StandingRegions::default();
        Self { options, records, epoch: 0, clock_ms: 0, standing, outputs }
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

    /// Answers a query on the current state, ages judged at `clock_ms`.
    #[must_use]
    pub fn answer(&self, query: &Query, clock_ms: i64) -> ModelAnswer {
        let passing = |row: &&FixRow| query.passes(row, clock_ms);
        let mut found: Vec<(u64, FixRow)> = match &query.kind {
            QueryKind::Get(objects) => {
                let objects: BTreeSet<u64> = objects.iter().copied().collect();
                let known = objects.iter().filter_map(|object| self.records.get(object));
                known.filter(passing).map(|row| (0, *row)).collect()
            }
            QueryKind::Range(region) => {
                let inside = |row: &&FixRow| region.contains(row.x, row.y);
                let rows = self.records.values().filter(passing).filter(inside);
                rows.map(|row| (0, *row)).collect()
            }
            QueryKind::Nearest { x, y, rank_max, .. } => {
                let ranker = Ranker::new(&self.options.space, *x, *y);
                let rows = self.records.values().filter(passing);
                let ranked = rows.map(|row| (ranker.rank(row.x, row.y), *row));
                ranked.filter(|(rank, _)| rank <= rank_max).collect()
            }
        };
        let is_nearest = matches!(query.kind, QueryKind::Nearest { .. });
        if let QueryKind::Nearest { k, .. } = query.kind {
            found.sort_by_key(|(rank, row)| (*rank, row.object));
            found.truncate(k as usize);
        }
        let total = found.len() as u64;
        if query.projection == Projection::Count {
            return ModelAnswer { total, ..ModelAnswer::default() };
        }
        let limit = query.limit.unwrap_or(u64::MAX);
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let is_fixes = query.projection == Projection::Fixes;
        ModelAnswer {
            total,
            truncated: (found.len() as u64) < total,
            objects: found.iter().map(|(_, row)| row.object).collect(),
            fixes: found.iter().filter(|_| is_fixes).map(|(_, row)| *row).collect(),
            ranks: found.iter().filter(|_| is_nearest).map(|(rank, _)| *rank).collect(),
        }
    }

    fn cycle(&mut self, input: CycleInput) -> CycleOutput {
        let mut arrivals = Arrivals {
            records: &self.records,
            judge: RowValidator::new(&self.options.space, input.time_max_ms),
            objects: self.objects(),
            objects_max: self.options.objects_max,
            touched: BTreeMap::new(),
            outcomes: Vec::new(),
            time_max_ms: None,
        };
        for request in input.requests.iter() {
            arrivals.request(request);
        }
        let Arrivals { touched, mut outcomes, time_max_ms, .. } = arrivals;
        let now_ms = match self.options.clock {
            Clock::System => Some(input.system_ms),
            Clock::Event => time_max_ms,
        };
        self.clock_ms = now_ms.map_or(self.clock_ms, |now_ms| now_ms.max(self.clock_ms));
        let (changed, expired) = self.apply(touched, &mut outcomes);
        self.epoch += 1;
        let (options, clock_ms) = (&self.options, self.clock_ms);
        let changes = input.subscriptions;
        let events = self.standing.cycle(options, clock_ms, changes, &changed, &self.records);
        CycleOutput {
            epoch: self.epoch,
            clock_ms: self.clock_ms,
            requests: outcomes,
            answer_epoch: self.epoch,
            answer_clock_ms: self.clock_ms,
            answers: self.answers(&input.queries),
            unanswered: None,
            queries: input.queries,
            events,
            expired,
            objects: self.objects(),
        }
    }

    /// Writes what has won, removes what is gone or too old; what became of every object that was
    /// touched, and how many were too old.
    fn apply(
        &mut self,
        touched: BTreeMap<u64, Touched>,
        outcomes: &mut [RequestOutcome],
    ) -> (BTreeMap<u64, Changed>, u64) {
        let mut changed = BTreeMap::new();
        for (object, touched) in touched {
            let before = self.records.get(&object).copied();
            let mut is_written = false;
            match touched.winner {
                Some((request, winner)) if touched.start == Some(winner) => {
                    outcomes[request].duplicate += 1;
                }
                Some((request, winner)) => {
                    outcomes[request].applied += 1;
                    self.records.insert(object, winner);
                    is_written = true;
                }
                None if !touched.exists => {
                    self.records.remove(&object);
                }
                None => {}
            }
            let after = self.records.get(&object).copied();
            let arrived = touched.arrived;
            changed.insert(object, Changed { before, after, is_written, arrived, expired: None });
        }
        let Some(ttl_ms) = self.options.ttl_ms else { return (changed, 0) };
        let records = self.records.iter();
        let old = records.filter(|(_, row)| self.clock_ms - row.time_ms > ttl_ms);
        let old: Vec<FixRow> = old.map(|(_, row)| *row).collect();
        for row in &old {
            self.records.remove(&row.object);
            let untouched = || Changed { before: Some(*row), ..Changed::default() };
            let change = changed.entry(row.object).or_insert_with(untouched);
            (change.after, change.expired) = (None, Some(*row));
        }
        (changed, old.len() as u64)
    }

    /// All answers of a cycle in one page.
    fn answers(&self, queries: &[Query]) -> AnswerSet {
        let mut page = AnswerPage::default();
        for query in queries {
            let answer = self.answer(query, self.clock_ms);
            let objects = (page.objects.len(), page.objects.len() + answer.objects.len());
            let fixes = (page.fixes.len(), page.fixes.len() + answer.fixes.len());
            let ranks = (page.ranks.len(), page.ranks.len() + answer.ranks.len());
            let ModelAnswer { total, truncated, .. } = answer;
            page.heads.push(AnswerHead { total, truncated, objects, fixes, ranks });
            page.objects.extend(answer.objects);
            page.fixes.extend(answer.fixes);
            page.ranks.extend(answer.ranks);
        }
        let places = (0..queries.len() as u32).map(|head| (0, head)).collect();
        AnswerSet::new(vec![page], places)
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
        input.check_regions(self.standing.len(), |region| self.standing.stands(region))?;
        let output = self.cycle(input);
        let ticket = Ticket(output.epoch);
        self.outputs.insert(ticket, output);
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<CycleOutput, EngineError> {
        self.outputs.remove(&ticket).ok_or(EngineError::UnknownTicket(ticket.0))
    }

    fn export(&mut self) -> Result<Snapshot, EngineError> {
        let rows = self.records.values().copied();
        Ok(Snapshot::new(self.options.term, self.epoch, self.clock_ms, rows))
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<(), EngineError> {
        snapshot.check(&self.options, self.epoch)?;
        self.records.clear();
        for batch in &snapshot.batches {
            for row in (0..batch.len()).map(|row| batch.row(row)) {
                self.records.insert(row.object, row);
            }
        }
        self.epoch = snapshot.epoch;
        self.clock_ms = snapshot.clock_ms;
        Ok(())
    }

    fn due_ms(&self) -> Option<i64> {
        let oldest_ms = self.records.values().map(|row| row.time_ms).min();
        let expires =
            |(oldest_ms, ttl_ms): (i64, i64)| oldest_ms.saturating_add(ttl_ms).saturating_add(1);
        let expiry_ms = oldest_ms.zip(self.options.ttl_ms).map(expires);
        expiry_ms.into_iter().chain(self.standing.due_ms(&self.records)).min()
    }

    fn objects(&self) -> u64 {
        self.records.len() as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.objects() * size_of::<(u64, FixRow)>() as u64
    }
}
