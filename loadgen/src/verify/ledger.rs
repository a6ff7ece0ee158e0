//! The ledger of replies and of complete epochs.
//!
//! A change sent after the acknowledgement of epoch e is applied after e, and a query sent then is
//! answered at e or later. The oldest unacknowledged change therefore bounds the complete epochs of
//! a connection, and the oldest unanswered query bounds the epochs to be compared. One lock covers
//! bounds and events, so that the verifier receives a consistent state.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use shoal_engine::QueryKind;

use super::event::{Acked, Answered, Removed};
use super::past_answer::PastAnswered;
use crate::history::HistoryQuery;
use crate::names::Names;

/// A reply of the server.
#[derive(Debug)]
pub enum LedgerEntry {
    /// Reports were acknowledged.
    Acked(Acked),
    /// Objects were removed.
    Removed(Removed),
    /// Queries were answered.
    Answered(Answered),
    /// A question about the past was answered.
    Past(Box<PastAnswered>),
}

impl LedgerEntry {
    /// Replaces the objects of the workload by their numbers in a named fleet.
    pub fn number(&mut self, names: &Names) {
        match self {
            Self::Acked(acked) => {
                for message in &mut acked.messages {
                    names.number(&mut Arc::make_mut(&mut message.columns).object);
                }
            }
            Self::Removed(removed) => names.number(&mut removed.objects),
            Self::Answered(answered) => {
                let mut queries = answered.queries.to_vec();
                for query in &mut queries {
                    if let QueryKind::Get(objects) = &mut query.kind {
                        names.number(objects);
                    }
                }
                answered.queries = queries.into();
            }
            Self::Past(answered) => match &mut answered.question {
                HistoryQuery::Trajectory(objects, _) | HistoryQuery::AsOf(_, objects, _) => {
                    names.number(objects);
                }
                HistoryQuery::Passed(..) | HistoryQuery::Replay(..) | HistoryQuery::Density(..) => {
                }
            },
        }
    }
}

/// Events and bounds that the verifier takes together.
#[derive(Debug, Default)]
pub struct Taken {
    /// All events since the last call, in order per connection.
    pub events: Vec<LedgerEntry>,
    /// All changes up to this epoch have arrived.
    pub complete: u64,
    /// All answers at epochs below this one have arrived.
    pub answered_below: u64,
    /// All events have arrived.
    pub closed: bool,
}

/// Bounds and events of all connections.
#[derive(Debug)]
pub struct Ledger {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    /// The latest acknowledged epoch.
    applied: u64,
    /// The latest acknowledged epoch and its token.
    token: (u64, Bytes),
    reports: Vec<Reports>,
    /// Minimum epochs of the answers in flight per connection, oldest first.
    queries: Vec<VecDeque<u64>>,
    events: Vec<LedgerEntry>,
    closed: bool,
}

/// One connection's reports.
#[derive(Clone, Debug, Default)]
struct Reports {
    /// Minimum epoch of each unacknowledged message, oldest first.
    in_flight: VecDeque<u64>,
    /// Epoch of the last acknowledged message; acks arrive in order.
    last_epoch: u64,
}

impl Reports {
    /// The minimum epoch at which an unacknowledged message can be applied; `None` if there is
    /// none.
    fn bound(&self) -> Option<u64> {
        self.in_flight.front().map(|epoch| (*epoch).max(self.last_epoch))
    }
}

impl Ledger {
    /// A ledger for a number of connections; `epoch` is the fleet's last before the run.
    #[must_use]
    pub fn new(connections: usize, epoch: u64) -> Self {
        Self {
            inner: Mutex::new(Inner {
                applied: epoch,
                token: (epoch, Bytes::new()),
                reports: vec![Reports::default(); connections],
                queries: vec![VecDeque::new(); connections],
                events: Vec::new(),
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a change (report or removal); call before it is sent.
    pub fn change_sent(&self, connection: u32) {
        let mut inner = self.inner();
        let least = inner.applied + 1;
        inner.reports[connection as usize].in_flight.push_back(least);
    }

    /// Records an ack.
    pub fn acked(&self, connection: u32, acked: Acked) {
        let (epoch, count) = (acked.ack.epoch, acked.messages.len());
        let token = Bytes::copy_from_slice(&acked.ack.token);
        self.inner().settle(connection, epoch, count, token, LedgerEntry::Acked(acked));
        self.changed.notify_one();
    }

    /// Records the response to a removal.
    pub fn removed(&self, connection: u32, removed: Removed) {
        let epoch = removed.response.epoch;
        let token = Bytes::copy_from_slice(&removed.response.token);
        self.inner().settle(connection, epoch, 1, token, LedgerEntry::Removed(removed));
        self.changed.notify_one();
    }

    /// Records a message of queries; call before it is sent. Returns the minimum epoch of its
    /// answers and, with `with_token`, the token that enforces it; otherwise an empty token.
    #[must_use]
    pub fn query_sent(&self, connection: u32, with_token: bool) -> (u64, Bytes) {
        let mut inner = self.inner();
        let (least, token) = if with_token && !inner.token.1.is_empty() {
            inner.token.clone()
        } else {
            (inner.applied, Bytes::new())
        };
        inner.queries[connection as usize].push_back(least);
        (least, token)
    }

    /// Records the answers to a connection's oldest message of queries, or its failure.
    pub fn answered(&self, connection: u32, answered: Option<Answered>) {
        let mut inner = self.inner();
        inner.queries[connection as usize].pop_front();
        if let Some(answered) = answered {
            inner.applied = inner.applied.max(answered.header.epoch);
            inner.events.push(LedgerEntry::Answered(answered));
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Records the answer to a question about the past.
    pub fn past_answered(&self, answered: PastAnswered) {
        self.inner().events.push(LedgerEntry::Past(Box::new(answered)));
        self.changed.notify_one();
    }

    /// Closes the ledger; requests in flight remain unanswered.
    pub fn close(&self) {
        self.inner().closed = true;
        self.changed.notify_one();
    }

    /// Waits for events and takes them.
    #[must_use]
    pub fn take(&self) -> Taken {
        let waiting = |inner: &mut Inner| inner.events.is_empty() && !inner.closed;
        let inner = self.changed.wait_while(self.inner(), waiting);
        let mut inner = inner.unwrap_or_else(PoisonError::into_inner);
        let pending = inner.reports.iter().filter_map(Reports::bound).min();
        let queries = inner.queries.iter().filter_map(|least| least.front()).min();
        Taken {
            complete: pending.map_or(inner.applied, |least| (least - 1).min(inner.applied)),
            answered_below: queries.copied().unwrap_or(u64::MAX),
            events: std::mem::take(&mut inner.events),
            closed: inner.closed,
        }
    }
}

impl Inner {
    /// Counts the oldest `count` messages of a connection as applied up to `epoch`.
    fn settle(
        &mut self,
        connection: u32,
        epoch: u64,
        count: usize,
        token: Bytes,
        event: LedgerEntry,
    ) {
        let reports = &mut self.reports[connection as usize];
        reports.in_flight.drain(..count.min(reports.in_flight.len()));
        reports.last_epoch = reports.last_epoch.max(epoch);
        self.applied = self.applied.max(epoch);
        if epoch >= self.token.0 && !token.is_empty() {
            self.token = (epoch, token);
        }
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shoal_codec::FixColumns;
    use shoal_proto::v1::{AnswerHeader, ReportAck};

    use super::super::event::SentRows;
    use super::*;

    fn ack(ledger: &Ledger, connection: u32, messages: usize, epoch: u64) {
        let rows = SentRows { columns: Arc::new(FixColumns::new()), shift_ms: 0 };
        let ack = ReportAck { epoch, token: vec![7, epoch as u8], ..ReportAck::default() };
        ledger.acked(connection, Acked { messages: vec![rows; messages], ack });
    }

    fn answer(ledger: &Ledger, connection: u32, epoch: u64) {
        let header = AnswerHeader { epoch, ..AnswerHeader::default() };
        let (queries, answers) = (Arc::from([]), Vec::new());
        let answered = Answered { queries, header, answers, epoch_min: 0 };
        ledger.answered(connection, Some(answered));
    }

    #[test]
    fn an_epoch_is_complete_when_nothing_sent_can_fall_into_it() {
        let ledger = Ledger::new(2, 0);
        ledger.change_sent(0);
        ledger.change_sent(0);
        ledger.change_sent(1);
        ack(&ledger, 0, 1, 5);
        assert_eq!(ledger.take().complete, 0, "connection 1 may have been applied in 1");
        ack(&ledger, 1, 1, 9);
        assert_eq!(ledger.take().complete, 4, "connection 0 may have more in 5");
        ack(&ledger, 0, 1, 5);
        let taken = ledger.take();
        assert_eq!((taken.complete, taken.events.len()), (9, 1));
        ledger.change_sent(0);
        ledger.close();
        assert_eq!(ledger.take().complete, 9, "what is sent now comes after 9");
    }

    #[test]
    fn merged_acks_settle_all_their_messages() {
        let ledger = Ledger::new(1, 0);
        (0..3).for_each(|_| ledger.change_sent(0));
        ack(&ledger, 0, 3, 8);
        assert_eq!(ledger.take().complete, 8);
    }

    #[test]
    fn an_epoch_is_left_when_no_answer_can_be_at_it() {
        let ledger = Ledger::new(2, 3);
        assert_eq!(ledger.query_sent(0, true), (3, Bytes::new()), "no token yet");
        ledger.change_sent(1);
        ack(&ledger, 1, 1, 6);
        assert_eq!(ledger.query_sent(1, true), (6, Bytes::from_static(&[7, 6])));
        assert_eq!(ledger.take().answered_below, 3);
        answer(&ledger, 0, 7);
        assert_eq!(ledger.take().answered_below, 6);
        assert_eq!(ledger.query_sent(0, false), (7, Bytes::new()), "an answer proves its epoch");
        assert_eq!(ledger.query_sent(0, true).0, 6, "the token is that of the last ack");
        ledger.answered(1, None);
        ledger.close();
        let taken = ledger.take();
        assert!(taken.closed);
        assert_eq!((taken.complete, taken.answered_below), (7, 7));
    }
}
