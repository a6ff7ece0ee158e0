//! Who compares, and when?
//!
//! One thread. It applies an epoch once it is complete and no answer of an earlier one can come,
//! and compares answers once their epoch is complete; answers that wait for the same state share
//! one pass. An answer at an epoch whose changes cannot be told apart (a merged ack) is counted,
//! never skipped silently.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;

use shoal_proto::v1::{RemoveResponse, ReportAck};
use tokio::sync::{Semaphore, watch};

use super::difference::difference;
use super::event::{Acked, Answered, Removed, SentRows};
use super::expected::expected;
use super::ledger::{Event, Ledger};
use super::oracle::{Change, Oracle};
use super::outcome::Outcome;
use crate::limits::{MISMATCHES_TOLD_MAX, VERIFY_ANSWER_BYTES_MAX, VERIFY_ROWS_HELD_MAX};
use crate::measure::Counters;

/// What was compared, and how it came out.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Queries whose answers were compared.
    pub queries: u64,
    /// Acks and removals whose counts were compared.
    pub acks: u64,
    /// Answers at an epoch that a merged ack spans, or without a token at one already left.
    pub unverifiable: u64,
    /// Wrong answers and wrong acks.
    pub mismatches: u64,
    /// The first of them.
    pub told: Vec<String>,
}

impl Verdict {
    /// Counts a mismatch and keeps the first few.
    pub fn mismatch(&mut self, text: impl FnOnce() -> String) {
        self.mismatches += 1;
        if self.told.len() < MISMATCHES_TOLD_MAX {
            self.told.push(text());
        }
    }
}

/// The running verifier.
#[derive(Debug)]
pub struct Verifier {
    link: VerifierLink,
    thread: JoinHandle<Verdict>,
}

/// Where connections bring what came back, and what makes them wait.
#[derive(Clone, Debug)]
pub struct VerifierLink {
    /// Bounds and events of all connections.
    pub ledger: Arc<Ledger>,
    /// Room for rows that the oracle has not applied yet.
    rows_room: Arc<Semaphore>,
    /// Bytes of answers that wait to be compared.
    answer_bytes: Arc<watch::Sender<usize>>,
}

impl VerifierLink {
    /// Waits until the oracle can hold so many more rows; it gives the room back by itself.
    pub async fn rows_room(&self, rows: u32) {
        // Never closed, and no message has more rows than there are permits.
        if let Ok(permits) = self.rows_room.acquire_many(rows).await {
            permits.forget();
        }
    }

    /// Waits until answers may be kept again.
    pub async fn answer_room(&self) {
        let mut held = self.answer_bytes.subscribe();
        let _ = held.wait_for(|bytes| *bytes < VERIFY_ANSWER_BYTES_MAX).await;
    }

    /// Brings the answers to a message of queries.
    pub fn answered(&self, connection: u32, answered: Answered) {
        let bytes = answered.held_bytes();
        self.answer_bytes.send_modify(|held| *held += bytes);
        self.ledger.answered(connection, Some(answered));
    }
}

impl Verifier {
    /// Starts the thread. `term` is the fleet's, `epoch` its last one.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        oracle: Oracle,
        connections: u32,
        fleet: (String, u64, u64),
        counters: Arc<Counters>,
    ) -> std::io::Result<Self> {
        let (fleet, term, epoch) = fleet;
        let ledger = Arc::new(Ledger::new(connections as usize, epoch));
        let rows_room = Arc::new(Semaphore::new(VERIFY_ROWS_HELD_MAX as usize));
        let answer_bytes = Arc::new(watch::Sender::new(0));
        let work = Work {
            oracle,
            fleet,
            term,
            applied: epoch,
            complete: epoch,
            changes: BTreeMap::new(),
            answers: BTreeMap::new(),
            unclear: Vec::new(),
            halves: HashMap::new(),
            halves_begun: 0,
            verdict: Verdict::default(),
            rows_room: Arc::clone(&rows_room),
            answer_bytes: Arc::clone(&answer_bytes),
            counters,
        };
        let news = Arc::clone(&ledger);
        let thread = std::thread::Builder::new().name("verifier".to_owned());
        let thread = thread.spawn(move || work.run(&news))?;
        Ok(Self { link: VerifierLink { ledger, rows_room, answer_bytes }, thread })
    }

    /// For a connection.
    #[must_use]
    pub fn link(&self) -> VerifierLink {
        self.link.clone()
    }

    /// Ends the thread once everything brought was compared; blocks until then.
    ///
    /// # Errors
    /// The thread broke off.
    pub fn finish(self) -> Result<Verdict, String> {
        self.link.ledger.close();
        self.thread.join().map_err(|_| "the verifier panicked".to_owned())
    }
}

/// The state of the verifier's thread.
struct Work {
    oracle: Oracle,
    fleet: String,
    term: u64,
    /// The oracle's state is that after this epoch.
    applied: u64,
    /// Epochs up to this one are complete.
    complete: u64,
    /// Changes not applied yet, by epoch.
    changes: BTreeMap<u64, Vec<(Change, Word)>>,
    /// Answers not compared yet, by epoch.
    answers: BTreeMap<u64, Vec<Answered>>,
    /// Epochs `first..last` whose changes cannot be told apart, for answers still to come.
    unclear: Vec<(u64, u64)>,
    /// First halves of acks over two messages in two epochs.
    halves: HashMap<u64, Outcome>,
    halves_begun: u64,
    verdict: Verdict,
    rows_room: Arc<Semaphore>,
    answer_bytes: Arc<watch::Sender<usize>>,
    counters: Arc<Counters>,
}

/// What the server said of a change.
enum Word {
    /// An ack of just this.
    Ack(ReportAck),
    /// The ack of this half and the next comes with the next.
    FirstHalf(u64),
    /// The ack of the half before and of this.
    SecondHalf(u64, ReportAck),
    /// The response to a removal.
    Removal(RemoveResponse),
}

impl Work {
    fn run(mut self, ledger: &Ledger) -> Verdict {
        loop {
            let taken = ledger.take();
            for event in taken.events {
                self.sort_in(event);
            }
            self.complete = if taken.closed { u64::MAX } else { taken.complete };
            let answered_below = if taken.closed { u64::MAX } else { taken.answered_below };
            self.advance(answered_below);
            if taken.closed {
                return self.verdict;
            }
        }
    }

    fn sort_in(&mut self, event: Event) {
        match event {
            Event::Acked(acked) => self.sort_in_ack(acked),
            Event::Removed(Removed { objects, response }) => {
                let (epoch, word) = (response.epoch, Word::Removal(response));
                self.put(epoch, Change::Remove(objects), word);
            }
            Event::Answered(answered) => {
                self.answers.entry(answered.header.epoch).or_default().push(answered);
            }
        }
    }

    /// Puts the messages of an ack into their epochs. The first message's and the last's are told;
    /// with more between them in different epochs, nobody knows where those belong.
    fn sort_in_ack(&mut self, acked: Acked) {
        let Acked { messages, ack } = acked;
        let (first, last) = (ack.first_epoch, ack.epoch);
        let mut rows: Vec<(u64, SentRows)> = (ack.first_message..).zip(messages).collect();
        rows.retain(|(number, _)| ack.failed.iter().all(|failed| failed.message != *number));
        if first == last {
            self.put(last, Change::Rows(rows), Word::Ack(ack));
        } else if rows.len() == 2 {
            let id = self.halves_begun;
            self.halves_begun += 1;
            let second = rows.split_off(1);
            self.put(first, Change::Rows(rows), Word::FirstHalf(id));
            self.put(last, Change::Rows(second), Word::SecondHalf(id, ack));
        } else {
            self.unclear.push((first, last));
            self.put(last, Change::Rows(rows), Word::Ack(ack));
        }
    }

    fn put(&mut self, epoch: u64, change: Change, word: Word) {
        self.changes.entry(epoch).or_default().push((change, word));
    }

    /// Applies and compares what is complete, in the order of epochs.
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
        self.compare_below(next.min(self.complete.saturating_add(1)));
        let applied = self.applied;
        self.unclear.retain(|(_, last)| *last > applied || answered_below < *last);
    }

    fn apply(&mut self, epoch: u64, changes: Vec<(Change, Word)>) {
        let outcomes = self.oracle.apply(changes.iter().map(|(change, _)| change));
        let rows: usize = changes.iter().map(|(change, _)| rows_of(change)).sum();
        let is_within = |(first, last): &(u64, u64)| *first <= epoch && epoch <= *last;
        let is_loose = self.unclear.iter().any(is_within);
        for ((_, word), outcome) in changes.into_iter().zip(outcomes) {
            if let Some(text) = self.difference(word, outcome, is_loose) {
                self.counters.mismatches.add(1);
                self.verdict.mismatch(|| text);
            }
        }
        self.applied = self.applied.max(epoch);
        self.rows_room.add_permits(rows);
    }

    /// How the server's word of a change differs from what should have become of it.
    fn difference(&mut self, word: Word, outcome: Outcome, is_loose: bool) -> Option<String> {
        self.verdict.acks += u64::from(!matches!(word, Word::FirstHalf(_)));
        match word {
            Word::Ack(ack) => outcome.ack_difference(&ack, is_loose),
            Word::Removal(response) => outcome.removal_difference(&response),
            Word::FirstHalf(id) => {
                self.halves.insert(id, outcome);
                None
            }
            Word::SecondHalf(id, ack) => {
                let mut sum = self.halves.remove(&id).unwrap_or_default();
                sum.add(&outcome);
                sum.ack_difference(&ack, is_loose)
            }
        }
    }

    /// Compares all answers at epochs below `end`; the oracle stands at the last change before.
    fn compare_below(&mut self, end: u64) {
        let later = self.answers.split_off(&end);
        let now: Vec<Answered> =
            std::mem::replace(&mut self.answers, later).into_values().flatten().collect();
        let bytes: usize = now.iter().map(Answered::held_bytes).sum();
        let (clear, unclear): (Vec<_>, Vec<_>) =
            now.into_iter().partition(|answered| self.is_clear(answered));
        for answered in &unclear {
            self.unverified(answered);
        }
        self.compare(&clear);
        self.answer_bytes.send_modify(|held| *held -= bytes);
    }

    /// Whether the state at the answer's epoch is known to be the oracle's.
    fn is_clear(&self, answered: &Answered) -> bool {
        let epoch = answered.header.epoch;
        let is_split = self.unclear.iter().any(|(first, last)| *first <= epoch && epoch < *last);
        epoch >= self.applied && !is_split
    }

    /// Counts answers that cannot be compared; one that breaks its token is a mismatch.
    fn unverified(&mut self, answered: &Answered) {
        let (epoch, least) = (answered.header.epoch, answered.epoch_min);
        if epoch < least {
            self.counters.mismatches.add(1);
            self.verdict.mismatch(|| {
                format!("an answer at epoch {epoch}, though its token stood for epoch {least}")
            });
        }
        self.verdict.unverifiable += answered.queries.len() as u64;
    }

    fn compare(&mut self, answered: &[Answered]) {
        if answered.is_empty() {
            return;
        }
        let queries: Vec<_> =
            answered.iter().flat_map(|answered| answered.queries.iter()).collect();
        let right = expected(&self.oracle, &queries);
        let got = answered
            .iter()
            .flat_map(|answered| answered.answers.iter().map(|answer| (&answered.header, answer)));
        for answered in answered {
            self.compare_header(answered);
        }
        for ((query, right), (header, answer)) in queries.iter().zip(&right).zip(got) {
            if let Some(text) = difference(self.oracle.space(), query, right, answer) {
                self.counters.mismatches.add(1);
                self.verdict.mismatch(|| format!("at epoch {}: {text}; {query:?}", header.epoch));
            }
        }
        self.verdict.queries += queries.len() as u64;
        self.counters.verified.add(queries.len() as u64);
    }

    fn compare_header(&mut self, answered: &Answered) {
        let header = &answered.header;
        let got = (header.fleet.as_str(), header.term, header.clock_ms);
        let right = (self.fleet.as_str(), self.term, self.oracle.clock_ms());
        let enough = header.epoch >= answered.epoch_min;
        if got != right || !enough || answered.answers.len() != answered.queries.len() {
            let epoch = header.epoch;
            let (least, answers) = (answered.epoch_min, answered.answers.len());
            let text = format!(
                "at epoch {epoch}: (fleet, term, clock) is {got:?}, expected {right:?}; epoch at \
                 least {least}; {answers} answers to {} queries",
                answered.queries.len()
            );
            self.counters.mismatches.add(1);
            self.verdict.mismatch(|| text);
        }
    }
}

/// Rows that a change held in memory.
fn rows_of(change: &Change) -> usize {
    match change {
        Change::Rows(messages) => messages.iter().map(|(_, rows)| rows.columns.len()).sum(),
        Change::Remove(_) => 0,
    }
}
