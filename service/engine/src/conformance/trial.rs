//! A trial runs a backend and the model on the same input and compares every output.
//!
//! Answers of a backend with an answer lag are compared with the model's before the cycle. A
//! difference panics with the label (which has the seed), the cycle and the place.

use shoal_codec::{FixColumns, FixRow};

use super::builders::{START_MS, plane, query};
use super::compare::{answers_difference, first_difference, lists, snapshot_difference};
use crate::backend::{Backend, EngineOptions};
use crate::cycle::{CycleInput, CycleOutput, Request, RequestOutcome, Snapshot, Ticket};
use crate::error::EngineError;
use crate::events::EventSet;
use crate::model::Model;
use crate::query::{AnswerSet, Query, QueryKind};
use crate::record_scan::{RecordScan, ScannedState};
use crate::space::Space;
use crate::subscription::SubscriptionChange;

/// Makes an empty engine.
pub type Make = fn(EngineOptions) -> Box<dyn Backend>;

/// An answer, owned; the fields of [`crate::query::Answer`].
#[derive(Debug)]
pub struct OwnedAnswer {
    pub(super) total: u64,
    pub(super) truncated: bool,
    pub(super) objects: Vec<u64>,
    pub(super) fixes: Vec<FixRow>,
    pub(super) ranks: Vec<u64>,
}

/// An export that has not ended.
struct Exporting {
    /// The model's rows, ascending.
    expected: Vec<FixRow>,
    /// The rows that the backend returned.
    slices: Vec<FixColumns>,
    /// Queries that a scan of these rows answers.
    queries: Vec<Query>,
    /// The model's answers at the start of the export.
    answers: AnswerSet,
    state: ScannedState,
}

/// A backend and the model on the same input.
pub struct Trial {
    /// Label of failures.
    label: String,
    make: Make,
    backend: Box<dyn Backend>,
    model: Model,
    /// Expected outputs of the cycles in flight.
    expected: Vec<(Ticket, CycleOutput)>,
    /// Changes of continuous queries for the next cycle.
    changes: Vec<SubscriptionChange>,
    /// The rows of an export that has not ended.
    exporting: Option<Exporting>,
    /// True once a continuous query was set.
    has_queries: bool,
    /// Whether the model has had a due time.
    was_due: bool,
    /// System clock of the next cycles.
    pub system_ms: i64,
    /// Latest acceptable event time of the next cycles.
    pub time_max_ms: i64,
    /// `event_clock_max_ms` of the next cycles.
    pub event_clock_max_ms: Option<i64>,
}

impl Trial {
    /// An empty engine.
    #[must_use]
    pub fn new(make: Make, options: EngineOptions, label: &str) -> Self {
        Self {
            label: label.to_owned(),
            make,
            backend: make(options.clone()),
            model: Model::new(options),
            expected: Vec::new(),
            exporting: None,
            changes: Vec::new(),
            has_queries: false,
            was_due: false,
            system_ms: START_MS,
            time_max_ms: START_MS + 1_000_000_000,
            event_clock_max_ms: None,
        }
    }

    /// An empty geographic engine with default options.
    #[must_use]
    pub fn geographic(make: Make) -> Self {
        Self::new(make, EngineOptions::new(Space::geographic()), "geographic")
    }

    /// An empty engine on a plane of 1000 by 1000 quanta of a metre.
    #[must_use]
    pub fn planar(make: Make) -> Self {
        Self::new(make, EngineOptions::new(plane()), "planar")
    }

    /// The space of the engine.
    #[must_use]
    pub fn space(&self) -> Space {
        self.backend.options().space
    }

    /// The model after the last submitted cycle.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Adds a change of continuous queries to the next cycle.
    pub fn change(&mut self, change: SubscriptionChange) {
        self.has_queries = true;
        self.changes.push(change);
    }

    /// The next cycle, with the waiting changes of continuous queries.
    fn input(&mut self, requests: Vec<Request>, queries: Vec<Query>) -> CycleInput {
        let (system_ms, time_max_ms) = (self.system_ms, self.time_max_ms);
        let subscriptions = std::mem::take(&mut self.changes);
        let requests = requests.into();
        CycleInput {
            system_ms,
            time_max_ms,
            event_clock_max_ms: self.event_clock_max_ms,
            requests,
            queries,
            subscriptions,
            ..CycleInput::default()
        }
    }

    /// Submits a cycle to the backend and to the model.
    pub fn submit(&mut self, requests: Vec<Request>, queries: Vec<Query>) {
        let input = self.input(requests, queries);
        let lagging = (self.backend.answer_lag() == 1).then(|| {
            let clock_ms = self.model.clock_ms();
            (self.model.epoch(), clock_ms, self.model.answer(&input.queries, clock_ms))
        });
        let mut expected = self.model.run(input.clone()).expect("the model takes the cycle");
        if let Some(lagging) = lagging {
            (expected.answer_epoch, expected.answer_clock_ms, expected.answers) = lagging;
        }
        let epoch = expected.epoch;
        let ticket = self.backend.submit(input);
        let ticket = ticket.unwrap_or_else(|error| panic!("{} cycle {epoch}: {error}", self.label));
        self.expected.push((ticket, expected));
        self.check_state();
        // An engine without work must not be woken again at once.
        let due_ms = self.backend.due_ms().filter(|_| !self.has_queries);
        let (clock_ms, label) = (self.model.clock_ms(), &self.label);
        assert!(
            due_ms.is_none_or(|due_ms| due_ms > clock_ms),
            "{label}: due {due_ms:?} at {clock_ms}"
        );
    }

    /// Cycles submitted and not yet waited for.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.expected.len()
    }

    /// Waits for the cycle at `place` among those in flight and compares it.
    pub fn wait(&mut self, place: usize) -> CycleOutput {
        let (ticket, expected) = self.expected.remove(place);
        let label = format!("{} cycle {}", self.label, expected.epoch);
        let output = self.backend.wait(ticket);
        let output = output.unwrap_or_else(|error| panic!("{label}: {error}"));
        if let Some(difference) = first_difference(&expected, &output) {
            panic!("{label}: {difference}");
        }
        let again = self.backend.wait(ticket).map(|_| ());
        assert_eq!(again, Err(EngineError::UnknownTicket(ticket.0)), "{label}: waited twice");
        output
    }

    /// Runs one cycle with these requests and returns their outcomes.
    pub fn send(&mut self, requests: Vec<Request>) -> Vec<RequestOutcome> {
        self.submit(requests, Vec::new());
        self.wait(self.expected.len() - 1).requests
    }

    /// Runs one cycle with one request.
    pub fn send_one(&mut self, request: Request) -> RequestOutcome {
        self.send(vec![request]).remove(0)
    }

    /// Runs one cycle with these requests and returns its events.
    pub fn events(&mut self, requests: Vec<Request>) -> EventSet {
        self.submit(requests, Vec::new());
        self.wait(self.expected.len() - 1).events
    }

    /// Runs a cycle without requests and returns the answer on the current state, whatever the lag.
    pub fn answer(&mut self, query: &Query) -> OwnedAnswer {
        if self.backend.answer_lag() == 1 {
            // The extra cycle brings the clock of the answer up to date.
            self.send(Vec::new());
        }
        self.submit(Vec::new(), vec![query.clone()]);
        let output = self.wait(self.expected.len() - 1);
        let answer = output.answers.get(0);
        OwnedAnswer {
            total: answer.total,
            truncated: answer.truncated,
            objects: answer.objects.to_vec(),
            fixes: answer.fixes.to_vec(),
            ranks: answer.ranks.to_vec(),
        }
    }

    /// The ids that a plain query of this kind returns.
    pub fn ids(&mut self, kind: QueryKind) -> Vec<u64> {
        self.answer(&query(kind)).objects
    }

    /// Compares the number of objects and the due time, which may be early but not late.
    fn check_state(&mut self) {
        self.was_due |= self.model.due_ms().is_some();
        let label = &self.label;
        assert_eq!(self.backend.objects(), self.model.objects(), "{label}: objects");
        match (self.backend.due_ms(), self.model.due_ms()) {
            (None, Some(due_ms)) => panic!("{label}: no due time, the model has {due_ms}"),
            (Some(early_ms), Some(due_ms)) => {
                assert!(early_ms <= due_ms, "{label}: due {early_ms}, the model has {due_ms}");
            }
            (Some(due_ms), None) => {
                let ttl_ms = self.backend.options().ttl_ms;
                let may_be_due = ttl_ms.is_some() || self.has_queries || self.was_due;
                assert!(may_be_due, "{label}: due {due_ms} without a TTL");
            }
            (None, None) => {}
        }
    }

    /// The model's due time; the backend's is not later.
    #[must_use]
    pub fn model_due_ms(&self) -> Option<i64> {
        self.model.due_ms()
    }

    /// Begins an export.
    pub fn begin_export(&mut self) {
        self.begin_scan(Vec::new());
    }

    /// Begins an export whose rows answer these queries.
    pub fn begin_scan(&mut self, queries: Vec<Query>) {
        let begun = self.backend.begin_export();
        let mut header = begun.unwrap_or_else(|error| panic!("{}: {error}", self.label));
        assert_eq!(header.term, self.backend.options().term, "{}: term", self.label);
        header.term = self.model.options().term;
        assert_eq!(Ok(header), self.model.begin_export(), "{}: header of an export", self.label);
        let answers = self.model.answer(&queries, header.clock_ms);
        let state = ScannedState {
            space: self.model.options().space,
            clock_ms: header.clock_ms,
            records: header.objects,
            raster_bytes_max: 1 << 16,
        };
        let expected = self.model.records().values().copied().collect();
        self.exporting = Some(Exporting { expected, slices: Vec::new(), queries, answers, state });
    }

    /// Takes at most `rows_max` rows of the export; false at its end, when all are compared.
    pub fn export_next(&mut self, rows_max: usize) -> bool {
        let label = &self.label;
        let rows = self.backend.export_next(rows_max);
        let rows = rows.unwrap_or_else(|error| panic!("{label}: {error}"));
        let exporting = self.exporting.as_mut().expect("an export runs");
        if let Some(columns) = rows {
            let allowed = 1..=rows_max.max(1);
            assert!(allowed.contains(&columns.len()), "{label}: {} rows", columns.len());
            exporting.slices.push(columns);
            return true;
        }
        if let Some(exported) = self.exporting.take() {
            let Exporting { expected, slices, queries, answers, state } = exported;
            let rows = |slice: &FixColumns| -> Vec<_> {
                (0..slice.len()).map(|row| slice.row(row)).collect()
            };
            let mut actual: Vec<FixRow> = slices.iter().flat_map(rows).collect();
            actual.sort_unstable_by_key(|row| row.object);
            if let Some(difference) = lists("row", &expected, &actual) {
                panic!("{label} export: {difference}");
            }
            let mut scan = RecordScan::new(state);
            queries.iter().for_each(|query| scan.add(query));
            for slice in &slices {
                let half = slice.len() / 2;
                scan.read(slice, 0..half);
                scan.read(slice, half..slice.len());
            }
            let page = scan.finish();
            let places = (0..page.heads.len()).map(|head| (0, head as u32)).collect();
            let found = AnswerSet::new(vec![page], places);
            if let Some(difference) = answers_difference(&answers, &found) {
                panic!("{label} scan: {difference}");
            }
        }
        false
    }

    /// Whether an export has not ended.
    #[must_use]
    pub fn is_exporting(&self) -> bool {
        self.exporting.is_some()
    }

    /// Exports the whole state of the backend and of the model and compares them; drops an
    /// unfinished export.
    pub fn export(&mut self) -> Snapshot {
        self.exporting = None;
        let expected = self.model.export().expect("the model exports");
        let snapshot = self.backend.export();
        let snapshot = snapshot.unwrap_or_else(|error| panic!("{}: {error}", self.label));
        assert_eq!(snapshot.term, self.backend.options().term, "{}: term", self.label);
        if let Some(difference) = snapshot_difference(&expected, &snapshot) {
            panic!("{} snapshot: {difference}", self.label);
        }
        snapshot
    }

    /// Continues in a fresh engine that imports this one's state, with these options.
    pub fn migrate(&mut self, options: EngineOptions) {
        assert!(self.expected.is_empty(), "{}: cycles are in flight", self.label);
        let snapshot = self.export();
        self.backend = (self.make)(options.clone());
        self.model = Model::new(options);
        self.model.import(snapshot.clone()).expect("the model imports");
        let imported = self.backend.import(snapshot);
        imported.unwrap_or_else(|error| panic!("{}: import: {error}", self.label));
        self.check_state();
        self.export();
    }

    /// The error with which the backend refuses a cycle; the state must not change.
    pub fn refused(&mut self, requests: Vec<Request>, queries: Vec<Query>) -> EngineError {
        let input = self.input(requests, queries);
        let Err(error) = self.backend.submit(input) else {
            panic!("{}: the cycle was taken, it must be refused", self.label);
        };
        self.check_state();
        self.export();
        error
    }

    /// The backend itself.
    pub fn backend(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }
}
