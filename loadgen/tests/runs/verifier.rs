//! Hazard: a verifier compares at the wrong epoch, or accepts a wrong reply.
//!
//! The replies are hand-made, for a few epochs. Correct replies pass; each corrupted ack, answer or
//! header is a mismatch; answers inside a merged ack are counted as unverifiable.

use std::sync::Arc;

use shoal_client::{DensitySquare, QueryAnswer, ServerError};
use shoal_codec::{FixColumns, FixRow};
use shoal_engine::{EngineOptions, Model, Projection, Query, QueryKind, RowLimit, Space};
use shoal_loadgen::history::{HistoryQuery, PastGrid};
use shoal_loadgen::measure::Counters;
use shoal_loadgen::verify::{
    Acked, Answered, Expected, Past, PastAnswer, PastAnswered, Removed, SentRows, Verdict,
    Verifier, VerifierLink,
};
use shoal_proto::v1::{
    AnswerHeader, FixRecord, HistoryHeader, RefusedCount, RefusedRow, RemoveResponse, ReportAck,
    RowCounts,
};

const START_MS: i64 = 1_600_000_000_000;
const TERM: u64 = 77;

fn space() -> Space {
    Space::planar(1_000.0, 1_000.0, 0.01).unwrap()
}

fn verdict(run: impl FnOnce(&VerifierLink)) -> Verdict {
    let model = Model::new(EngineOptions { term: TERM, ..EngineOptions::new(space()) });
    let counters = Arc::new(Counters::default());
    let past = Some(Past::new(None, 1_000));
    let expected = Expected { fleet: "fleet".to_owned(), time_max_ms: i64::MAX, past, names: None };
    let verifier = Verifier::start(model, expected, 2, counters).unwrap();
    run(&verifier.link());
    verifier.finish().unwrap()
}

/// The fix of object 5 in epoch `epoch`.
fn row(epoch: u64) -> FixRow {
    FixRow::new(5, START_MS + epoch as i64, epoch as i32, 1)
}

fn applied(applied: u64) -> Option<RowCounts> {
    Some(RowCounts { applied, ..RowCounts::default() })
}

/// Sends messages of these rows on connection 0 and acknowledges them.
fn report(link: &VerifierLink, messages: &[&[FixRow]], ack: ReportAck) {
    let message = |rows: &&[FixRow]| {
        link.ledger.change_sent(0);
        let mut columns = FixColumns::new();
        rows.iter().for_each(|row| columns.push_row(*row));
        SentRows { columns: Arc::new(columns), shift_ms: 0 }
    };
    let messages = messages.iter().map(message).collect();
    link.ledger.acked(0, Acked { messages, ack });
}

/// An ack of messages `first` to `last`, applied in epochs `first` to `last`.
fn ack(first: u64, last: u64, rows: Option<RowCounts>) -> ReportAck {
    ReportAck {
        first_message: first,
        last_message: last,
        rows,
        first_epoch: first,
        epoch: last,
        token: vec![last as u8],
        ..ReportAck::default()
    }
}

/// Reports the fix of `epoch` in that epoch.
fn report_epoch(link: &VerifierLink, epoch: u64) {
    report(link, &[&[row(epoch)]], ack(epoch, epoch, applied(1)));
}

/// Reports the fixes of these epochs, acknowledged as one range.
fn report_merged(link: &VerifierLink, epochs: &[u64], rows: Option<RowCounts>) {
    let fixes: Vec<[FixRow; 1]> = epochs.iter().map(|epoch| [row(*epoch)]).collect();
    let messages: Vec<&[FixRow]> = fixes.iter().map(|rows| &rows[..]).collect();
    report(link, &messages, ack(epochs[0], epochs[epochs.len() - 1], rows));
}

fn record(row: &FixRow) -> FixRecord {
    let (x, y) = space().to_api(row.x, row.y);
    FixRecord { time_ms: row.time_ms, x, y, ..FixRecord::default() }
}

/// The header of an answer at `epoch` with the clock of the fix of `of_epoch`.
fn header(epoch: u64, of_epoch: u64) -> AnswerHeader {
    AnswerHeader {
        fleet: "fleet".to_owned(),
        term: TERM,
        epoch,
        clock_ms: START_MS + of_epoch as i64,
        ..AnswerHeader::default()
    }
}

/// An answer at `epoch` with the fix of `of_epoch`.
fn answer(epoch: u64, of_epoch: u64, epoch_min: u64) -> Answered {
    let projection = Projection::Fixes;
    let query = Query { kind: QueryKind::Get(vec![5]), filter: None, projection, limit: None };
    Answered {
        queries: Arc::from([query]),
        header: header(epoch, epoch),
        answers: vec![QueryAnswer {
            total: 1,
            objects: vec![5],
            fixes: vec![record(&row(of_epoch))],
            ..QueryAnswer::default()
        }],
        epoch_min,
    }
}

fn query(link: &VerifierLink, answered: Answered) {
    let _ = link.ledger.query_sent(1, false);
    link.answered(1, answered);
}

#[test]
fn correct_answers_pass_in_any_order_of_arrival() {
    let verdict = verdict(|link| {
        report_epoch(link, 1);
        // This query is sent before the ack of epoch 2 and answered at epoch 2, so the model waits
        // at epoch 1.
        let _ = link.ledger.query_sent(1, false);
        report_epoch(link, 2);
        report_epoch(link, 3);
        link.answered(1, answer(2, 2, 0));
        query(link, answer(3, 3, 3));
    });
    assert_eq!((verdict.queries, verdict.acks, verdict.mismatches), (2, 3, 0));
    assert_eq!((verdict.unverifiable, verdict.problems.len()), (0, 0));
}

#[test]
fn an_answer_of_the_previous_state_is_a_mismatch() {
    let verdict = verdict(|link| {
        report_epoch(link, 1);
        report_epoch(link, 2);
        query(link, answer(2, 1, 0));
    });
    assert_eq!((verdict.queries, verdict.mismatches), (1, 1));
    assert!(verdict.problems[0].contains("object 5"), "{:?}", verdict.problems);
}

#[test]
fn a_wrong_clock_term_or_fleet_is_a_mismatch() {
    let changes: [fn(&mut AnswerHeader); 3] =
        [|header| header.clock_ms += 1, |header| header.term += 1, |header| header.fleet.push('x')];
    for change in changes {
        let verdict = verdict(|link| {
            report_epoch(link, 1);
            let mut answered = answer(1, 1, 0);
            change(&mut answered.header);
            query(link, answered);
        });
        assert_eq!(verdict.mismatches, 1);
    }
}

#[test]
fn a_merged_ack_of_two_messages_names_both_epochs() {
    let verdict = verdict(|link| {
        report_epoch(link, 1);
        for _ in 0..3 {
            let _ = link.ledger.query_sent(1, false);
        }
        report_merged(link, &[3, 5], applied(2));
        link.answered(1, answer(3, 3, 0));
        link.answered(1, Answered { header: header(4, 3), ..answer(4, 3, 0) });
        link.answered(1, answer(5, 5, 0));
    });
    assert_eq!((verdict.queries, verdict.unverifiable, verdict.mismatches), (3, 0, 0));
    assert_eq!(verdict.acks, 2);
}

#[test]
fn answers_inside_a_merged_ack_of_more_messages_are_unverifiable() {
    // The sum of accepted rows is still compared.
    for (rows, mismatches) in [(3, 0), (2, 1)] {
        let verdict = verdict(|link| {
            report_epoch(link, 1);
            for _ in 0..2 {
                let _ = link.ledger.query_sent(1, false);
            }
            report_merged(link, &[2, 3, 4], applied(rows));
            link.answered(1, answer(3, 1, 0));
            link.answered(1, answer(4, 4, 0));
        });
        let counted = (verdict.queries, verdict.unverifiable, verdict.mismatches);
        assert_eq!(counted, (1, 1, mismatches));
    }
}

#[test]
fn an_answer_older_than_its_token_is_a_mismatch() {
    let verdict = verdict(|link| {
        report_epoch(link, 1);
        report_epoch(link, 2);
        let _ = link.ledger.query_sent(1, true);
        link.answered(1, answer(1, 1, 2));
    });
    assert_eq!(verdict.mismatches, 1);
    assert!(verdict.problems[0].contains("epoch"), "{:?}", verdict.problems);
}

#[test]
fn unacknowledged_changes_do_not_block_the_end() {
    let verdict = verdict(|link| {
        report_epoch(link, 1);
        link.ledger.change_sent(0);
        query(link, answer(1, 1, 0));
        let _ = link.ledger.query_sent(1, false);
    });
    assert_eq!((verdict.queries, verdict.mismatches), (1, 0));
}

#[test]
fn a_wrong_ack_is_a_mismatch() {
    let rows = [FixRow::new(1, START_MS, 5, 5), FixRow::new(2, START_MS, 5, -5)];
    type Corrupt = fn(&mut ReportAck);
    let cases: [(Corrupt, u64); 5] = [
        (|_| {}, 0),
        (|ack| ack.rows = None, 1),
        (|ack| ack.refused_by_reason[0].reason = 2, 1),
        (|ack| ack.refused_rows[0].row = 0, 1),
        (|ack| ack.refused_rows.clear(), 1),
    ];
    for (case, (corrupt, mismatches)) in cases.into_iter().enumerate() {
        let counts = RowCounts { applied: 1, refused: 1, ..RowCounts::default() };
        let mut ack = ack(1, 1, Some(counts));
        ack.refused_by_reason = vec![RefusedCount { reason: 3, rows: 1 }];
        ack.refused_rows = vec![RefusedRow { message: 1, row: 1, field: String::new(), reason: 3 }];
        corrupt(&mut ack);
        let verdict = verdict(|link| report(link, &[&rows], ack));
        assert_eq!((verdict.acks, verdict.mismatches), (1, mismatches), "case {case}");
    }
}

#[test]
fn merged_acks_list_at_most_256_refused_rows() {
    let part = [FixRow::new(2, START_MS, 5, -5); 200];
    let place = |at: u32| (u64::from(at / 200) + 1, at % 200);
    for epochs in [(1, 1), (1, 2)] {
        for (listed, mismatches) in [(256, 0), (255, 1), (257, 1)] {
            let refused = (0..listed).map(place).map(|(message, row)| RefusedRow {
                message,
                row,
                field: String::new(),
                reason: 3,
            });
            let counts = RowCounts { refused: 400, ..RowCounts::default() };
            let ack = ReportAck {
                refused_by_reason: vec![RefusedCount { reason: 3, rows: 400 }],
                refused_rows: refused.collect(),
                first_epoch: epochs.0,
                epoch: epochs.1,
                ..ack(1, 2, Some(counts))
            };
            let verdict = verdict(|link| report(link, &[&part, &part], ack));
            assert_eq!((verdict.acks, verdict.mismatches), (1, mismatches), "{listed}");
        }
    }
}

#[test]
fn a_wrong_removal_is_a_mismatch() {
    for (removed_count, missing_count, mismatches) in [(1, 2, 0), (2, 1, 1), (1, 1, 1)] {
        let verdict = verdict(|link| {
            report_epoch(link, 1);
            link.ledger.change_sent(0);
            let response =
                RemoveResponse { removed_count, missing_count, epoch: 2, ..Default::default() };
            link.ledger.removed(0, Removed { objects: vec![5, 5, 6], response });
        });
        assert_eq!((verdict.acks, verdict.mismatches), (2, mismatches));
    }
}

#[test]
fn every_kind_of_wrong_answer_is_a_mismatch() {
    let rows: Vec<FixRow> = (0..10).map(|id| FixRow::new(id, START_MS, id as i32, 7)).collect();
    let kind = QueryKind::nearest(0, 0, 4);
    let limit = Some(RowLimit::First(3));
    let nearest = Query { kind, filter: None, projection: Projection::Fixes, limit };
    let right = QueryAnswer {
        total: 4,
        truncated: true,
        objects: vec![0, 1, 2],
        fixes: rows[..3].iter().map(record).collect(),
        distance_m: [49, 50, 53].map(|rank| space().distance_m(rank)).to_vec(),
        ..QueryAnswer::default()
    };
    let problems = |change: fn(&mut QueryAnswer)| {
        let mut answer = right.clone();
        change(&mut answer);
        let verdict = verdict(|link| {
            report(link, &[&rows], ack(1, 1, applied(10)));
            let (queries, answers) = (Arc::from([nearest.clone()]), vec![answer]);
            query(link, Answered { queries, header: header(1, 0), answers, epoch_min: 0 });
        });
        assert_eq!(verdict.mismatches, verdict.problems.len() as u64);
        verdict.problems
    };
    assert_eq!(problems(|_| {}), Vec::<String>::new());
    type Corrupt = fn(&mut QueryAnswer);
    let wrong: [(Corrupt, &str); 9] = [
        (|answer| answer.total = 5, "total is 5, expected 4"),
        (|answer| answer.truncated = false, "truncated is false"),
        (|answer| answer.objects[1] = 9, "place 1 has object 9, expected object 1"),
        (|answer| answer.objects.swap(0, 2), "place 0 has object 2"),
        (|answer| answer.objects.truncate(2), "place 2 has the end, expected object 2"),
        (|answer| answer.fixes[2].x += 0.01, "record of object 2"),
        (|answer| answer.fixes[0].speed_mps = Some(0.0), "record of object 0"),
        (|answer| answer.distance_m[0] = -answer.distance_m[0], "distances"),
        (
            |answer| {
                answer.error =
                    Some(ServerError::from(tonic::Status::resource_exhausted("too large")));
            },
            "too large",
        ),
    ];
    for (change, words) in wrong {
        let problems = problems(change);
        assert!(problems.len() == 1 && problems[0].contains(words), "{words}: {problems:?}");
    }
}

/// The trajectory of object 5 with the fixes of these epochs, by a version of `epoch`.
fn trajectory(epoch: u64, epochs: &[u64]) -> PastAnswered {
    let fixes: Vec<FixRecord> = epochs.iter().map(|epoch| record(&row(*epoch))).collect();
    let answer = QueryAnswer { objects: vec![5; fixes.len()], fixes, ..QueryAnswer::default() };
    let header =
        HistoryHeader { fleet: "fleet".to_owned(), term: TERM, epoch, ..Default::default() };
    let question = HistoryQuery::Trajectory(vec![5], (START_MS, START_MS + 100));
    PastAnswered { question, header, answer: PastAnswer::Rows(Box::new(answer)) }
}

/// The rows of an answer.
fn found(answered: &mut PastAnswered) -> &mut QueryAnswer {
    match &mut answered.answer {
        PastAnswer::Rows(answer) => answer,
        PastAnswer::Squares(_) => unreachable!("it is a trajectory"),
    }
}

#[test]
fn the_past_is_compared_at_the_epoch_of_its_version() {
    let correct = verdict(|link| {
        // The version of epoch 2 answers before the ack of epoch 1 has arrived.
        link.past_answered(trajectory(2, &[1, 2]));
        (1..=3).for_each(|epoch| report_epoch(link, epoch));
        link.past_answered(trajectory(1, &[1]));
        link.past_answered(trajectory(3, &[1, 2, 3]));
    });
    assert_eq!((correct.past, correct.mismatches), (3, 0), "{:?}", correct.problems);
    let merged = verdict(|link| {
        report_merged(link, &[1, 2, 3, 4], applied(4));
        link.past_answered(trajectory(2, &[1, 2]));
        link.past_answered(trajectory(4, &[1, 2, 3, 4]));
    });
    assert_eq!((merged.past, merged.unverifiable, merged.mismatches), (1, 1, 0));
}

#[test]
fn every_kind_of_wrong_past_is_a_mismatch() {
    let wrong: [fn(&mut PastAnswered); 7] = [
        |it| it.header.epoch = 3,
        |it| it.header.term += 1,
        |it| it.header.fleet = "other".to_owned(),
        |it| found(it).fixes[1].x += 0.01,
        |it| found(it).objects[0] = 6,
        |it| {
            found(it).fixes.pop();
            found(it).objects.pop();
        },
        |it| found(it).fixes.swap(0, 1),
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let found = verdict(|link| {
            (1..=3).for_each(|epoch| report_epoch(link, epoch));
            let mut answered = trajectory(2, &[1, 2]);
            change(&mut answered);
            link.past_answered(answered);
        });
        assert_eq!((found.past, found.mismatches), (1, 1), "change {number}");
    }
}

#[test]
fn squares_are_compared_with_the_fixes_of_the_oracle() {
    for (fixes, mismatches) in [(2, 0), (3, 1)] {
        let found = verdict(|link| {
            (1..=3).for_each(|epoch| report_epoch(link, epoch));
            let (row, mut answered) = (row(1), trajectory(2, &[]));
            let grid = PastGrid { cell: 1 << 30, step_ms: None };
            let window_ms = (START_MS, START_MS + 100);
            answered.question = HistoryQuery::Density(window_ms, None, grid);
            let (column, row) = (row.x.div_euclid(1 << 30), row.y.div_euclid(1 << 30));
            let square = DensitySquare { time_ms: START_MS, column, row, fixes };
            answered.answer = PastAnswer::Squares(vec![square]);
            link.past_answered(answered);
        });
        assert_eq!((found.past, found.mismatches), (1, mismatches), "{:?}", found.problems);
    }
}
