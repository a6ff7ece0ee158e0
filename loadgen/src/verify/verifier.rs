//! The verifier: one thread that applies epochs to the model and compares the server's replies.
//!
//! It applies an epoch when the epoch is complete and all answers at earlier epochs have arrived,
//! and compares answers when their epoch is complete; answers at the same state share one scan.
//! Answers at an epoch with unknown changes (a merged ack) are counted as unverifiable.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;

use shoal_client::QueryAnswer;
use shoal_engine::limits::{CYCLE_FIXES_MAX, CYCLE_REQUESTS_MAX};
use shoal_engine::{Backend as _, CycleInput, EngineError, Model, Request, RequestOutcome};
use shoal_proto::v1::{RemoveResponse, ReportAck};
use tokio::sync::{Semaphore, watch};

use super::difference::{ack_difference, answer_difference, removal_difference};
use super::event::{Acked, Answered, Removed, SentRows};
use super::ledger::{Ledger, LedgerEntry};
use super::past::Past;
use super::past_answer::{PastAnswer, PastAnswered, past_difference};
use crate::limits::{MISMATCHES_REPORTED_MAX, VERIFY_ANSWER_BYTES_MAX, VERIFY_ROWS_HELD_MAX};
use crate::measure::Counters;
use crate::names::Names;

const _: () = assert!(
    VERIFY_ROWS_HELD_MAX as usize <= CYCLE_FIXES_MAX,
    "the rows of an epoch, which the verifier holds together, fit one cycle of the model"
);

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Queries whose answers were compared.
    pub queries: u64,
    /// Questions about the past whose answers were compared.
    pub past: u64,
    /// Acks and removals whose counts were compared.
    pub acks: u64,
    /// Answers at an epoch inside a merged ack, or at a passed epoch without a token.
    pub unverifiable: u64,
    /// Wrong answers and wrong acks.
    pub mismatches: u64,
    /// Descriptions of the first mismatches.
    pub problems: Vec<String>,
}

/// What the verifier knows of the server beside its model.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Name of the fleet.
    pub fleet: String,
    /// The server refuses event times after this, Unix milliseconds.
    pub time_max_ms: i64,
    /// An empty past if answers of the history are to be compared.
    pub past: Option<Past>,
    /// The names of a named fleet; the numbers of acknowledged rows must be known.
    pub names: Option<Arc<Names>>,
}

/// The running verifier.
#[derive(Debug)]
pub struct Verifier {
    link: VerifierLink,
    thread: JoinHandle<Verdict>,
}

/// A connection's access to the verifier, with its backpressure.
#[derive(Clone, Debug)]
pub struct VerifierLink {
    /// Bounds and events of all connections.
    pub ledger: Arc<Ledger>,
    /// A permit for each row that may wait for the model.
    rows_permits: Arc<Semaphore>,
    /// Bytes of answers that wait to be compared.
    answer_bytes: Arc<watch::Sender<usize>>,
}

impl VerifierLink {
    /// Waits for capacity for rows; the verifier releases it after applying them.
    pub async fn reserve_rows(&self, rows: u32) {
        // Never closed, and no message has more rows than there are permits.
        if let Ok(permits) = self.rows_permits.acquire_many(rows).await {
            permits.forget();
        }
    }

    /// Waits for capacity for answers.
    pub async fn answer_capacity(&self) {
        let mut held = self.answer_bytes.subscribe();
        let _ = held.wait_for(|bytes| *bytes < VERIFY_ANSWER_BYTES_MAX).await;
    }

    /// Passes the answers to a message of queries.
    pub fn answered(&self, connection: u32, answered: Answered) {
        let bytes = answered.held_bytes();
        self.answer_bytes.send_modify(|held| *held += bytes);
        self.ledger.answered(connection, Some(answered));
    }

    /// Passes the answer to a question about the past.
    pub fn past_answered(&self, answered: PastAnswered) {
        self.answer_bytes.send_modify(|held| *held += answered.held_bytes());
        self.ledger.past_answered(answered);
    }
}

impl Verifier {
    /// Starts the thread. `model` has the fleet's options, term, epoch and clock.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(
        model: Model,
        expected: Expected,
        connections: u32,
        counters: Arc<Counters>,
    ) -> std::io::Result<Self> {
        let Expected { fleet, time_max_ms, past, names } = expected;
        let epoch = model.epoch();
        let ledger = Arc::new(Ledger::new(connections as usize, epoch));
        let rows_permits = Arc::new(Semaphore::new(VERIFY_ROWS_HELD_MAX as usize));
        let answer_bytes = Arc::new(watch::Sender::new(0));
        let link = VerifierLink { ledger, rows_permits, answer_bytes };
        let work = Work {
            model,
            fleet,
            time_max_ms,
            applied: epoch,
            complete: epoch,
            changes: BTreeMap::new(),
            answers: BTreeMap::new(),
            unclear: Vec::new(),
            past,
            names,
            past_answers: BTreeMap::new(),
            past_unclear: Vec::new(),
            acks: HashMap::new(),
            acks_begun: 0,
            verdict: Verdict::default(),
            link: link.clone(),
            counters,
        };
        let thread = std::thread::Builder::new().name("verifier".to_owned());
        let thread = thread.spawn(move || work.run())?;
        Ok(Self { link, thread })
    }

    /// Returns a link for one connection; all links share the same verifier.
    #[must_use]
    pub fn link(&self) -> VerifierLink {
        self.link.clone()
    }

    /// Ends the thread after it has compared all input; blocks until then.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn finish(self) -> Result<Verdict, String> {
        self.link.ledger.close();
        self.thread.join().map_err(|_| "the verifier panicked".to_owned())
    }
}

/// The state of the verifier's thread.
struct Work {
    model: Model,
    fleet: String,
    time_max_ms: i64,
    /// The last epoch that the model includes.
    applied: u64,
    /// Epochs up to this one are complete.
    complete: u64,
    /// Changes not applied yet, by epoch.
    changes: BTreeMap<u64, Vec<(Change, Reply)>>,
    /// Answers not compared yet, by epoch.
    answers: BTreeMap<u64, Vec<Answered>>,
    /// Epochs `first..last` with unknown changes, for answers that may still arrive.
    unclear: Vec<(u64, u64)>,
    /// Every change, for questions about the past.
    past: Option<Past>,
    /// The names of a named fleet, whose objects the model knows by number.
    names: Option<Arc<Names>>,
    /// Answers of the history not compared yet, by epoch.
    past_answers: BTreeMap<u64, Vec<PastAnswered>>,
    /// Epochs `first..last` with unknown changes, of the whole run.
    past_unclear: Vec<(u64, u64)>,
    /// Acks that wait for outcomes, by an internal number.
    acks: HashMap<u64, PendingAck>,
    acks_begun: u64,
    verdict: Verdict,
    link: VerifierLink,
    counters: Arc<Counters>,
}

/// A change to apply.
enum Change {
    Rows(SentRows),
    Remove(Vec<u64>),
}

/// The server's reply to a change.
enum Reply {
    /// The number of the pending ack, and of the message in its stream.
    Ack(u64, u64),
    Removal(RemoveResponse),
}

/// An ack whose messages are not all applied.
struct PendingAck {
    ack: ReportAck,
    messages: usize,
    /// Outcomes of the messages applied so far, with their numbers.
    outcomes: Vec<(u64, RequestOutcome)>,
}

impl Work {
    fn run(mut self) -> Verdict {
        let ledger = Arc::clone(&self.link.ledger);
        loop {
            let taken = ledger.take();
            for mut event in taken.events {
                if let Some(names) = &self.names {
                    event.number(names);
                }
                self.sort_in(event);
            }
            self.complete = if taken.closed { u64::MAX } else { taken.complete };
            self.advance(if taken.closed { u64::MAX } else { taken.answered_below });
            if taken.closed {
                return self.verdict;
            }
        }
    }

    fn sort_in(&mut self, event: LedgerEntry) {
        match event {
            LedgerEntry::Acked(acked) => self.sort_in_ack(acked),
            LedgerEntry::Removed(Removed { objects, response }) => {
                let (epoch, reply) = (response.epoch, Reply::Removal(response));
                self.changes.entry(epoch).or_default().push((Change::Remove(objects), reply));
            }
            LedgerEntry::Answered(answered) => {
                self.answers.entry(answered.header.epoch).or_default().push(answered);
            }
            LedgerEntry::Past(answered) => {
                self.past_answers.entry(answered.header.epoch).or_default().push(*answered);
            }
        }
    }

    /// Assigns the messages of an ack to their epochs. An ack states the epochs of its first and
    /// last message; the epochs of the messages between them are unknown.
    fn sort_in_ack(&mut self, acked: Acked) {
        let Acked { messages, ack } = acked;
        let (first, last) = (ack.first_epoch, ack.epoch);
        let mut rows: Vec<(u64, SentRows)> = (ack.first_message..).zip(messages).collect();
        rows.retain(|(number, _)| ack.failed.iter().all(|failed| failed.message != *number));
        let messages = rows.len();
        if first != last && messages != 2 {
            self.unclear.push((first, last));
            if self.past.is_some() {
                self.past_unclear.push((first, last));
            }
        }
        let id = self.acks_begun;
        self.acks_begun += 1;
        self.acks.insert(id, PendingAck { ack, messages, outcomes: Vec::new() });
        self.settle_ack(id, false);
        for (at, (number, rows)) in rows.into_iter().enumerate() {
            let epoch = if messages == 2 && at == 0 { first } else { last };
            let change = (Change::Rows(rows), Reply::Ack(id, number));
            self.changes.entry(epoch).or_default().push(change);
        }
    }

    /// Applies and compares complete epochs in order.
    fn advance(&mut self, answered_below: u64) {
        while let Some(entry) = self.changes.first_entry() {
            let epoch = *entry.key();
            if epoch > self.complete || epoch > answered_below {
                break;
            }
            let changes = entry.remove();
            self.compare_below(epoch);
            self.apply(epoch, changes);
        }
        let next = self.changes.keys().next().copied().unwrap_or(u64::MAX);
        let end = next.min(self.complete.saturating_add(1));
        self.compare_below(end);
        self.compare_past_below(end);
        let applied = self.applied;
        self.unclear.retain(|(_, last)| *last > applied || answered_below < *last);
    }

    fn apply(&mut self, epoch: u64, changes: Vec<(Change, Reply)>) {
        let is_within = |(first, last): &(u64, u64)| *first <= epoch && epoch <= *last;
        let is_loose = self.unclear.iter().any(is_within);
        let mut changes = changes.into_iter().peekable();
        // Only epochs of merged acks exceed the request limit of a cycle.
        while changes.peek().is_some() {
            let some = changes.by_ref().take(CYCLE_REQUESTS_MAX);
            let (requests, replies): (Vec<Request>, Vec<_>) =
                some.map(|(change, reply)| (change.into_request(), reply)).unzip();
            let requests = Arc::new(requests);
            let input = CycleInput {
                time_max_ms: self.time_max_ms,
                requests: Arc::clone(&requests),
                ..Default::default()
            };
            match self.run_model(input) {
                Ok(outcomes) => {
                    self.add_to_past(epoch, &requests, &outcomes);
                    self.compare_replies(replies, outcomes, is_loose);
                }
                Err(error) => self.mismatch(format!("epoch {epoch} is impossible: {error}")),
            }
        }
        self.applied = self.applied.max(epoch);
    }

    /// Applies one cycle and releases its rows.
    fn run_model(&mut self, input: CycleInput) -> Result<Vec<RequestOutcome>, EngineError> {
        let is_rows = |request: &&Request| matches!(request, Request::Fixes(_));
        let rows = input.requests.iter().filter(is_rows).map(Request::rows).sum();
        let output = self.model.run(input);
        self.link.rows_permits.add_permits(rows);
        output.map(|output| output.requests)
    }

    /// Adds the accepted changes to the past. If the past exceeds its limit, it is dropped and a
    /// problem is reported: later answers of the history are not compared.
    fn add_to_past(&mut self, epoch: u64, requests: &[Request], outcomes: &[RequestOutcome]) {
        let clock_ms = self.model.clock_ms();
        let added = self.past.as_mut().map(|past| past.add(epoch, requests, outcomes, clock_ms));
        if let Some(Err(full)) = added {
            self.past = None;
            self.verdict.problems.push(full.to_string());
        }
    }

    /// Compares the answers of the history at epochs below `end` with the past, which must have all
    /// changes of these epochs.
    fn compare_past_below(&mut self, end: u64) {
        let later = self.past_answers.split_off(&end);
        let now = std::mem::replace(&mut self.past_answers, later);
        for answered in now.into_values().flatten() {
            let bytes = answered.held_bytes();
            self.compare_past(&answered);
            self.link.answer_bytes.send_modify(|held| *held -= bytes);
        }
    }

    fn compare_past(&mut self, answered: &PastAnswered) {
        let header = &answered.header;
        let epoch = header.epoch;
        let is_split = |(first, last): &(u64, u64)| *first <= epoch && epoch < *last;
        let is_unclear = self.past_unclear.iter().any(is_split) || !answered.is_whole();
        let Some(past) = self.past.as_ref().filter(|_| !is_unclear) else {
            self.verdict.unverifiable += 1;
            return;
        };
        let space = self.model.options().space;
        let difference = past_difference(&space, past, answered);
        let names = match &answered.answer {
            PastAnswer::Rows(answer) => self.names_difference(answer),
            PastAnswer::Squares(_) => None,
        };
        if let Some(text) = difference.or(names) {
            self.mismatch(format!("the past at epoch {epoch}: {text}"));
        }
        // A history without a cycle has no term.
        let term = if epoch == 0 { 0 } else { self.model.options().term };
        let (got, right) = ((header.fleet.as_str(), header.term), (self.fleet.as_str(), term));
        if got != right {
            self.mismatch(format!(
                "the past at epoch {epoch}: (fleet, term) is {got:?}, expected {right:?}"
            ));
        }
        self.verdict.past += 1;
        self.counters.verified.add(1);
    }

    fn compare_replies(
        &mut self,
        replies: Vec<Reply>,
        outcomes: Vec<RequestOutcome>,
        is_loose: bool,
    ) {
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            match reply {
                Reply::Ack(id, message) => {
                    let pending = self.acks.get_mut(&id).expect("the ack waits for its messages");
                    pending.outcomes.push((message, outcome));
                    self.settle_ack(id, is_loose);
                }
                Reply::Removal(response) => {
                    self.verdict.acks += 1;
                    let difference = removal_difference(&outcome, &response);
                    difference.into_iter().for_each(|text| self.mismatch(text));
                }
            }
        }
    }

    /// Compares an ack once all of its messages are applied.
    fn settle_ack(&mut self, id: u64, is_loose: bool) {
        if self.acks[&id].outcomes.len() < self.acks[&id].messages {
            return;
        }
        if let Some(PendingAck { ack, outcomes, .. }) = self.acks.remove(&id) {
            self.verdict.acks += 1;
            let difference = ack_difference(&outcomes, &ack, is_loose, self.names.is_some());
            difference.into_iter().for_each(|text| self.mismatch(text));
        }
    }

    /// Compares all answers at epochs below `end`; the model is at the last change before it.
    fn compare_below(&mut self, end: u64) {
        let later = self.answers.split_off(&end);
        let now: Vec<Answered> =
            std::mem::replace(&mut self.answers, later).into_values().flatten().collect();
        let bytes: usize = now.iter().map(Answered::held_bytes).sum();
        let (clear, unclear): (Vec<_>, Vec<_>) =
            now.into_iter().partition(|answered| self.is_clear(answered));
        for answered in &unclear {
            self.unverifiable(answered);
        }
        self.compare(&clear);
        self.link.answer_bytes.send_modify(|held| *held -= bytes);
    }

    /// Whether the model has the state of the answer's epoch.
    fn is_clear(&self, answered: &Answered) -> bool {
        let epoch = answered.header.epoch;
        let is_split = self.unclear.iter().any(|(first, last)| *first <= epoch && epoch < *last);
        epoch >= self.applied && !is_split
    }

    /// Counts answers that cannot be compared; an answer older than its token is a mismatch.
    fn unverifiable(&mut self, answered: &Answered) {
        let (epoch, least) = (answered.header.epoch, answered.epoch_min);
        if epoch < least {
            self.mismatch(format!("an answer at epoch {epoch}, its token demands {least}"));
        }
        self.verdict.unverifiable += answered.queries.len() as u64;
    }

    fn compare(&mut self, answered: &[Answered]) {
        if answered.is_empty() {
            return;
        }
        let queries = answered.iter().flat_map(|answered| answered.queries.iter());
        let right = self.model.answer(queries.clone(), self.model.clock_ms());
        for answered in answered {
            self.compare_header(answered);
        }
        let got = answered
            .iter()
            .flat_map(|answered| answered.answers.iter().map(|answer| (&answered.header, answer)));
        let space = self.model.options().space;
        for ((query, right), (header, answer)) in queries.zip(right.iter()).zip(got) {
            let difference = answer_difference(&space, &right, answer);
            if let Some(text) = difference.or_else(|| self.names_difference(answer)) {
                self.mismatch(format!("at epoch {}: {text}; {query:?}", header.epoch));
            }
        }
        self.verdict.queries += right.len() as u64;
        self.counters.verified.add(right.len() as u64);
    }

    fn compare_header(&mut self, answered: &Answered) {
        let Answered { queries, header, answers, epoch_min } = answered;
        let got = (header.fleet.as_str(), header.term, header.clock_ms);
        let right = (self.fleet.as_str(), self.model.options().term, self.model.clock_ms());
        let epoch = header.epoch;
        if got != right || epoch < *epoch_min || answers.len() != queries.len() {
            let text = format!(
                "at epoch {epoch}: (fleet, term, clock) is {got:?}, expected {right:?}; epoch at \
                 least {epoch_min}; {} answers to {} queries",
                answers.len(),
                queries.len()
            );
            self.mismatch(text);
        }
    }

    /// The first name of an answer that is not the name of its object.
    fn names_difference(&self, answer: &QueryAnswer) -> Option<String> {
        match &self.names {
            Some(names) => names.learn(&answer.objects, &answer.names),
            None => (!answer.names.is_empty()).then(|| "a numeric fleet has names".to_owned()),
        }
    }

    /// Counts a mismatch and keeps the first few.
    fn mismatch(&mut self, text: String) {
        self.counters.mismatches.add(1);
        self.verdict.mismatches += 1;
        if self.verdict.problems.len() < MISMATCHES_REPORTED_MAX {
            self.verdict.problems.push(text);
        }
    }
}

impl Change {
    fn into_request(self) -> Request {
        match self {
            Self::Rows(rows) => Request::Fixes(rows.into_columns()),
            Self::Remove(objects) => Request::Remove(objects),
        }
    }
}
