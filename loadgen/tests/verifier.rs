//! Does the verifier compare at the right epoch, and does it own up to what it cannot compare?
//!
//! A hand-made server, one object, a few epochs: right answers pass, an answer of the epoch before
//! is a mismatch, one inside a merged ack is counted as unverifiable, a broken token is a mismatch.
#![allow(clippy::unwrap_used, reason = "a test fails where a value is missing")]

use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::{Projection, Query, QueryKind, Space};
use shoal_loadgen::measure::Counters;
use shoal_loadgen::verify::{
    Acked, Answered, GotAnswer, Oracle, SentRows, Verdict, Verifier, VerifierLink,
};
use shoal_proto::v1::{AnswerHeader, FixRecord, ReportAck, RowCounts};

const START_MS: i64 = 1_600_000_000_000;
const TERM: u64 = 77;

fn space() -> Space {
    Space::planar(1_000.0, 1_000.0, 0.01).unwrap()
}

fn start() -> Verifier {
    let oracle = Oracle::new(space(), None, 0, i64::MAX);
    let fleet = ("fleet".to_owned(), TERM, 0);
    Verifier::start(oracle, 2, fleet, Arc::new(Counters::default())).unwrap()
}

/// The fix that object 5 reports for epoch `epoch`.
fn row(epoch: u64) -> FixRow {
    FixRow::new(5, START_MS + epoch as i64, epoch as i32, 1)
}

/// Sends the fix of `epoch` on connection 0 and acknowledges it in epochs `first..=epoch`.
fn report(link: &VerifierLink, first_epoch: u64, epoch: u64) {
    let mut columns = FixColumns::new();
    columns.push_row(row(epoch));
    link.ledger.sent(0);
    let ack = ReportAck {
        first_message: epoch,
        last_message: epoch,
        rows: Some(RowCounts { applied: 1, ..RowCounts::default() }),
        first_epoch,
        epoch,
        token: vec![epoch as u8],
        ..ReportAck::default()
    };
    let messages = vec![SentRows { columns: Arc::new(columns), shift_ms: 0 }];
    link.ledger.acked(0, Acked { messages, ack });
}

/// The header of an answer at `epoch`, whose clock is that of the fix of `of_epoch`.
fn header(epoch: u64, of_epoch: u64) -> AnswerHeader {
    AnswerHeader {
        fleet: "fleet".to_owned(),
        term: TERM,
        epoch,
        clock_ms: START_MS + of_epoch as i64,
        ..AnswerHeader::default()
    }
}

/// An answer at `epoch` that holds the fix of `of_epoch`.
fn answer(epoch: u64, of_epoch: u64, epoch_min: u64) -> Answered {
    let row = row(of_epoch);
    let (x, y) = space().to_api(row.x, row.y);
    let query = Query {
        kind: QueryKind::Get(vec![5]),
        filter: None,
        projection: Projection::Fixes,
        limit: None,
    };
    Answered {
        queries: Arc::from([query]),
        header: header(epoch, epoch),
        answers: vec![GotAnswer {
            total: 1,
            objects: vec![5],
            fixes: vec![FixRecord { time_ms: row.time_ms, x, y, ..FixRecord::default() }],
            ..GotAnswer::default()
        }],
        epoch_min,
    }
}

fn ask(link: &VerifierLink, answered: Answered) {
    let _ = link.ledger.asked(1, false);
    link.answered(1, answered);
}

fn verdict(run: impl FnOnce(&VerifierLink)) -> Verdict {
    let verifier = start();
    run(&verifier.link());
    verifier.finish().unwrap()
}

#[test]
fn right_answers_pass_whatever_arrives_first() {
    let verdict = verdict(|link| {
        report(link, 1, 1);
        // Asked before epoch 2 was known, answered in it: the oracle waits for it in 1.
        let _ = link.ledger.asked(1, false);
        report(link, 2, 2);
        report(link, 3, 3);
        link.answered(1, answer(2, 2, 0));
        ask(link, answer(3, 3, 3));
    });
    assert_eq!((verdict.queries, verdict.acks, verdict.mismatches), (2, 3, 0));
    assert_eq!((verdict.unverifiable, verdict.told.len()), (0, 0));
}

#[test]
fn the_state_before_is_a_mismatch() {
    let verdict = verdict(|link| {
        report(link, 1, 1);
        report(link, 2, 2);
        ask(link, answer(2, 1, 0));
    });
    assert_eq!((verdict.queries, verdict.mismatches), (1, 1));
    assert!(verdict.told[0].contains("object 5"), "{:?}", verdict.told);
}

#[test]
fn a_wrong_clock_or_term_is_a_mismatch() {
    let changes: [fn(&mut AnswerHeader); 3] =
        [|header| header.clock_ms += 1, |header| header.term += 1, |header| header.fleet.push('x')];
    for change in changes {
        let verdict = verdict(|link| {
            report(link, 1, 1);
            let mut answered = answer(1, 1, 0);
            change(&mut answered.header);
            ask(link, answered);
        });
        assert_eq!(verdict.mismatches, 1);
    }
}

/// Sends the fixes of `epochs` and acknowledges them as one range.
fn report_merged(link: &VerifierLink, epochs: &[u64]) {
    let message = |epoch: &u64| {
        link.ledger.sent(0);
        let mut columns = FixColumns::new();
        columns.push_row(row(*epoch));
        SentRows { columns: Arc::new(columns), shift_ms: 0 }
    };
    let messages: Vec<_> = epochs.iter().map(message).collect();
    let (first_epoch, epoch) = (epochs[0], epochs[epochs.len() - 1]);
    let ack = ReportAck {
        first_message: first_epoch,
        last_message: epoch,
        rows: Some(RowCounts { applied: messages.len() as u64, ..RowCounts::default() }),
        first_epoch,
        epoch,
        ..ReportAck::default()
    };
    link.ledger.acked(0, Acked { messages, ack });
}

#[test]
fn a_merged_ack_of_two_messages_tells_all() {
    let verdict = verdict(|link| {
        report(link, 1, 1);
        for _ in 0..3 {
            let _ = link.ledger.asked(1, false);
        }
        report_merged(link, &[3, 5]);
        link.answered(1, answer(3, 3, 0));
        link.answered(1, Answered { header: header(4, 3), ..answer(4, 3, 0) });
        link.answered(1, answer(5, 5, 0));
    });
    assert_eq!((verdict.queries, verdict.unverifiable, verdict.mismatches), (3, 0, 0));
    assert_eq!(verdict.acks, 2);
}

#[test]
fn inside_a_merged_ack_of_more_nothing_can_be_compared_and_that_is_said() {
    let verdict = verdict(|link| {
        report(link, 1, 1);
        for _ in 0..2 {
            let _ = link.ledger.asked(1, false);
        }
        report_merged(link, &[2, 3, 4]);
        link.answered(1, answer(3, 1, 0));
        link.answered(1, answer(4, 4, 0));
    });
    assert_eq!((verdict.queries, verdict.unverifiable, verdict.mismatches), (1, 1, 0));
}

#[test]
fn an_answer_older_than_its_token_is_a_mismatch() {
    let verdict = verdict(|link| {
        report(link, 1, 1);
        report(link, 2, 2);
        let _ = link.ledger.asked(1, true);
        link.answered(1, answer(1, 1, 2));
    });
    assert_eq!(verdict.mismatches, 1);
    assert!(verdict.told[0].contains("epoch"), "{:?}", verdict.told);
}

#[test]
fn changes_that_never_came_back_hold_nothing_up_at_the_end() {
    let verdict = verdict(|link| {
        report(link, 1, 1);
        link.ledger.sent(0);
        ask(link, answer(1, 1, 0));
        let _ = link.ledger.asked(1, false);
    });
    assert_eq!((verdict.queries, verdict.mismatches), (1, 0));
}
