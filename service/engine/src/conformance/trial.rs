//! How does one case drive a backend? Beside the model, and every output is compared.
//!
//! Knows the answer lag: a backend that lags by one is compared with what the model would have said
//! before the cycle. A difference panics with the label (which holds the seed), the cycle and the
//! place.

use shoal_codec::FixRow;

use super::compare::{first_difference, snapshot_difference};
use super::rows::{START_MS, query};
use crate::backend::{Backend, EngineOptions};
use crate::cycle::{CycleInput, CycleOutput, Request, RequestOutcome, Snapshot, Ticket};
use crate::error::EngineError;
use crate::events::EventSet;
use crate::model::Model;
use crate::query::{Query, QueryKind};
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

/// A backend and the model on the same input.
pub struct Trial {
    /// What failures are labelled with.
    label: String,
    make: Make,
    backend: Box<dyn Backend>,
    model: Model,
    /// Outputs that the model has given and the backend still owes.
    owed: Vec<(Ticket, CycleOutput)>,
    /// Changes of standing regions that the next cycle takes.
    changes: Vec<SubscriptionChange>,
    /// A region was set at some time.
    has_regions: bool,
    /// Clock and limit of time of the next cycles.
    pub system_ms: i64,
    /// Latest acceptable event time of the next cycles.
    pub time_max_ms: i64,
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
            owed: Vec::new(),
            changes: Vec::new(),
            has_regions: false,
            system_ms: START_MS,
            time_max_ms: START_MS + 1_000_000_000,
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

    /// The model, as it stands after the last submitted cycle.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Gives the next cycle a change of the standing regions.
    pub fn change(&mut self, change: SubscriptionChange) {
        self.has_regions = true;
        self.changes.push(change);
    }

    /// The next cycle: these changes and questions, and the waiting changes of regions.
    fn input(&mut self, requests: Vec<Request>, queries: Vec<Query>) -> CycleInput {
        let (system_ms, time_max_ms) = (self.system_ms, self.time_max_ms);
        let subscriptions = std::mem::take(&mut self.changes);
        CycleInput { system_ms, time_max_ms, requests, queries, subscriptions }
    }

    /// Submits a cycle to both.
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
        self.owed.push((ticket, expected));
        self.check_state();
    }

    /// Cycles submitted and not yet waited for.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.owed.len()
    }

    /// Waits for the cycle at `place` among those in flight and compares it.
    pub fn wait(&mut self, place: usize) -> CycleOutput {
        let (ticket, expected) = self.owed.remove(place);
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

    /// Runs one cycle with these changes and returns their outcomes.
    pub fn send(&mut self, requests: Vec<Request>) -> Vec<RequestOutcome> {
        self.submit(requests, Vec::new());
        self.wait(self.owed.len() - 1).requests
    }

    /// Runs one cycle with one change.
    pub fn send_one(&mut self, request: Request) -> RequestOutcome {
        self.send(vec![request]).remove(0)
    }

    /// Runs one cycle with these changes and the waiting ones of regions; what it tells.
    pub fn tell(&mut self, requests: Vec<Request>) -> EventSet {
        self.submit(requests, Vec::new());
        self.wait(self.owed.len() - 1).events
    }

    /// Runs a cycle without changes and returns the answer: the state as it is, whatever the lag.
    pub fn ask(&mut self, query: &Query) -> OwnedAnswer {
        if self.backend.answer_lag() == 1 {
            // Lets the clock of the answer catch up.
            self.send(Vec::new());
        }
        self.submit(Vec::new(), vec![query.clone()]);
        let output = self.wait(self.owed.len() - 1);
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
        self.ask(&query(kind)).objects
    }

    /// Compares the number of objects and the due time, which may be early but not late.
    fn check_state(&self) {
        let label = &self.label;
        assert_eq!(self.backend.objects(), self.model.objects(), "{label}: objects");
        match (self.backend.due_ms(), self.model.due_ms()) {
            (None, Some(due_ms)) => panic!("{label}: nothing is due, the model has {due_ms}"),
            (Some(early_ms), Some(due_ms)) => {
                assert!(early_ms <= due_ms, "{label}: due {early_ms}, the model has {due_ms}");
            }
            (Some(due_ms), None) => {
                let ttl_ms = self.backend.options().ttl_ms;
                let may_be_due = ttl_ms.is_some() || self.has_regions;
                assert!(may_be_due, "{label}: due {due_ms} without a TTL");
            }
            (None, None) => {}
        }
    }

    /// When the model says that something is due; the backend's due time is not later.
    #[must_use]
    pub fn model_due_ms(&self) -> Option<i64> {
        self.model.due_ms()
    }

    /// Exports from both and compares.
    pub fn export(&mut self) -> Snapshot {
        let expected = self.model.export().expect("the model exports");
        let snapshot = self.backend.export();
        let snapshot = snapshot.unwrap_or_else(|error| panic!("{}: {error}", self.label));
        assert_eq!(snapshot.term, self.backend.options().term, "{}: term", self.label);
        if let Some(difference) = snapshot_difference(&expected, &snapshot) {
            panic!("{} snapshot: {difference}", self.label);
        }
        snapshot
    }

    /// Goes on in a fresh engine that has imported this one's state, under these options.
    pub fn migrate(&mut self, options: EngineOptions) {
        assert!(self.owed.is_empty(), "{}: outputs would be lost", self.label);
        let snapshot = self.export();
        self.backend = (self.make)(options.clone());
        self.model = Model::new(options);
        self.model.import(snapshot.clone()).expect("the model imports");
        let imported = self.backend.import(snapshot);
        imported.unwrap_or_else(|error| panic!("{}: import: {error}", self.label));
        self.check_state();
        self.export();
    }

    /// The error with which the backend refuses a cycle, which must leave everything as it was.
    pub fn refused(&mut self, requests: Vec<Request>, queries: Vec<Query>) -> EngineError {
        let input = self.input(requests, queries);
        let Err(error) = self.backend.submit(input) else {
            panic!("{}: the cycle was taken, it must be refused", self.label);
        };
        self.check_state();
        self.export();
        error
    }

    /// The backend itself, for what has no model.
    pub fn backend(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }
}

/// A plane of 1000 by 1000 quanta of a metre.
pub(super) fn plane() -> Space {
    Space::planar(1_000.0, 1_000.0, 1.0).expect("the plane exists")
}
