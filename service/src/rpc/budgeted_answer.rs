//! Answers whose memory is taken from the answer budget before the engine runs.
//!
//! The first attempt caps the rows of each query, so that the request fits a small share of the
//! budget; most answers do. For an answer beyond its cap the engine returns only the total number
//! of rows. Memory for that many rows is then reserved, and the whole request runs again, alone in
//! its cycle, so that all its queries see one epoch.

use std::time::Instant;

use shoal_engine::{Projection, Query, QueryKind, RowLimit};

use super::deadline::Deadline;
use super::name_sieve::{NameSieve, Sieved};
use super::query_context::QueryContext;
use super::service_context::ServiceContext;
use crate::access::MeteredQuota;
use crate::answer_budget::AnswerReservation;
use crate::error::ServiceError;
use crate::fleet::{JobAnswers, QueryRequest};
use crate::limits::{
    ANSWER_HEAD_BYTES, ASK_AGAIN_MAX, FAILURE_BYTES, PROBE_BYTES_MAX, PROBE_ROWS_MAX,
    ROW_ANSWER_BYTES, SMALL_ANSWER_BYTES_MAX,
};

/// Answers, and the part of the answer budget that they hold.
#[derive(Debug)]
pub(super) struct BudgetedAnswer {
    pub(super) answered: JobAnswers,
    /// The reserved memory; it returns to the budget when the answers are dropped.
    _room: AnswerReservation,
}

/// The queries of a request.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) queries: Vec<Query>,
    /// Bytes of what the answer holds beside its rows.
    other_bytes: u64,
}

impl Questions {
    /// Queries of which none was refused.
    pub(super) fn valid(queries: Vec<Query>) -> Self {
        Self::with_failures(queries, 0)
    }

    /// Queries, beside `failures` that were refused: their errors are part of the answer.
    pub(super) fn with_failures(queries: Vec<Query>, failures: usize) -> Self {
        let other_bytes =
            queries.len() as u64 * ANSWER_HEAD_BYTES + failures as u64 * FAILURE_BYTES;
        Self { queries, other_bytes }
    }
}

/// Runs all queries of a request at one epoch. `patient` requests wait while the queue is full;
/// they have waited for their quota.
///
/// # Errors
/// [`ServiceError::Busy`], [`ServiceError::Limit`] for an answer beyond the budget,
/// [`ServiceError::Deadline`]; the error with which the fleet ended.
pub(super) async fn ask(
    context: &ServiceContext,
    query_context: &QueryContext,
    questions: Questions,
    deadline: Deadline,
    patient: bool,
) -> Result<BudgetedAnswer, ServiceError> {
    let started = Instant::now();
    let attempts = async {
        if !patient {
            let count = questions.queries.len() as u64;
            query_context.call.take(MeteredQuota::Queries, count)?;
        }
        run_by_name(context, query_context, questions, deadline, patient).await
    };
    let answer = deadline.bound(attempts).await.map_err(|error| context.count(error))?;
    query_context.fleet.metrics().query_seconds.observe(started.elapsed().as_secs_f64());
    Ok(answer)
}

/// Runs queries of a request whose filter may have a pattern of names.
async fn run_by_name(
    context: &ServiceContext,
    query_context: &QueryContext,
    questions: Questions,
    deadline: Deadline,
    patient: bool,
) -> Result<BudgetedAnswer, ServiceError> {
    let Some(filter) = query_context.names.clone() else {
        return run(context, query_context, questions, deadline, patient).await;
    };
    let Questions { queries, other_bytes } = questions;
    let mut sieve = NameSieve::new(filter, query_context.fleet.space(), queries);
    let client = query_context.client;
    loop {
        let asked = Questions { queries: sieve.asked(), other_bytes };
        let asked = run(context, query_context, asked, deadline, patient).await?;
        let BudgetedAnswer { answered, _room: mut room } = asked;
        let work = move || {
            let sieved = sieve.sieve(&answered);
            (sieve, answered, sieved)
        };
        let (back, answered, sieved) = context.workers.run(client, work).await?;
        sieve = back;
        match sieved {
            Sieved::Whole(page) => {
                let answered = answered.with_page(page);
                room.shrink(answered.bytes() + other_bytes);
                return Ok(BudgetedAnswer { answered, _room: room });
            }
            Sieved::Again { needs_search } => {
                // The memory is released before the search, and before more is requested.
                drop((answered, room));
                if needs_search {
                    sieve.search(context, client).await?;
                }
            }
        }
    }
}

async fn run(
    context: &ServiceContext,
    query_context: &QueryContext,
    questions: Questions,
    deadline: Deadline,
    patient: bool,
) -> Result<BudgetedAnswer, ServiceError> {
    let (client, answers) = (query_context.client, &context.answers);
    let Questions { queries, other_bytes } = questions;
    let bytes_of = |caps: &[u64]| {
        let rows = queries.iter().zip(caps).map(|(query, cap)| cap * row_bytes(query));
        other_bytes + rows.sum::<u64>()
    };
    let mut caps = probe_caps(&queries, PROBE_BYTES_MAX.saturating_sub(other_bytes));
    let mut first = answers.try_room(client, bytes_of(&caps));
    if first.is_none() {
        // Most answers are small.
        let small = probe_caps(&queries, SMALL_ANSWER_BYTES_MAX.saturating_sub(other_bytes));
        first = answers.small_room(client, bytes_of(&small));
        caps = if first.is_some() { small } else { caps };
    }
    let mut alone = false;
    for _ in 0..ASK_AGAIN_MAX {
        let mut room = match first.take() {
            Some(room) => room,
            None => answers.room(client, bytes_of(&caps)).await?,
        };
        let question = QueryRequest {
            client,
            queries: capped(&queries, &caps),
            epoch_min: query_context.epoch_min,
            alone,
            rows_work: if alone { bytes_of(&caps) / size_of::<u64>() as u64 } else { 0 },
            deadline: deadline.instant(),
            patient,
        };
        let answered = query_context.fleet.query(question).await?;
        let answered = answered.detached(&context.workers, client).await?;
        let wanted = wanted_rows(&queries, &answered);
        if wanted.iter().zip(&caps).all(|(wanted, cap)| wanted <= cap) {
            room.shrink(answered.bytes() + other_bytes);
            return Ok(BudgetedAnswer { answered, _room: room });
        }
        // `room` is released before more is requested, so that no request waits while it holds
        // memory.
        (caps, alone) = (with_margin(&queries, &wanted), true);
    }
    let what = "the number of attempts at an answer that keeps growing";
    Err(ServiceError::Limit { what, value: ASK_AGAIN_MAX.into(), limit: ASK_AGAIN_MAX.into() })
}

/// An upper bound of the rows in the answer to a query, computed from the query alone.
fn rows_max(query: &Query) -> u64 {
    let kind = match &query.kind {
        QueryKind::Get(objects) => objects.len() as u64,
        QueryKind::Nearest { k, .. } => u64::from(*k),
        QueryKind::Range(_) => u64::MAX,
    };
    match query.projection {
        Projection::Count => 0,
        Projection::Ids | Projection::Fixes => match query.limit {
            None => kind,
            Some(RowLimit::First(limit) | RowLimit::AllOrNone(limit)) => kind.min(limit),
        },
    }
}

/// Bytes in memory of one row of the answer.
fn row_bytes(query: &Query) -> u64 {
    let fix = match query.projection {
        Projection::Fixes => ROW_ANSWER_BYTES.fix,
        Projection::Ids | Projection::Count => 0,
    };
    let rank = match query.kind {
        QueryKind::Nearest { .. } => ROW_ANSWER_BYTES.id,
        QueryKind::Get(_) | QueryKind::Range(_) => 0,
    };
    ROW_ANSWER_BYTES.id + fix + rank
}

/// The row caps of a first attempt within `bytes_max`. Memory that small queries do not need goes
/// to large ones, so that few requests run twice.
fn probe_caps(queries: &[Query], bytes_max: u64) -> Vec<u64> {
    let mut caps = vec![0; queries.len()];
    let mut by_rows: Vec<_> = queries.iter().zip(&mut caps).collect();
    by_rows.sort_by_key(|(query, _)| rows_max(query));
    let mut bytes = bytes_max;
    let mut row_of_each: u64 = queries.iter().map(row_bytes).sum();
    for (query, cap) in by_rows {
        let fair = (bytes / row_of_each.max(1)).clamp(1, PROBE_ROWS_MAX);
        *cap = rows_max(query).min(fair);
        bytes = bytes.saturating_sub(*cap * row_bytes(query));
        row_of_each -= row_bytes(query);
    }
    caps
}

/// The queries with their caps: an answer with more rows than its cap returns only its total.
fn capped(queries: &[Query], caps: &[u64]) -> Vec<Query> {
    let cap = |(query, &cap): (&Query, &u64)| {
        let is_capped = cap < rows_max(query);
        let limit = if is_capped { Some(RowLimit::AllOrNone(cap)) } else { query.limit };
        Query { limit, ..query.clone() }
    };
    queries.iter().zip(caps).map(cap).collect()
}

/// Rows that each query returns without its cap.
fn wanted_rows(queries: &[Query], answered: &JobAnswers) -> Vec<u64> {
    let wanted = queries.iter().zip(answered.iter());
    let wanted = wanted.map(|(query, answer)| match query.limit {
        Some(RowLimit::AllOrNone(limit)) if answer.total > limit => 0,
        _ => answer.total.min(rows_max(query)),
    });
    wanted.collect()
}

/// A little more than `wanted`, because the fleet may grow until the next attempt.
fn with_margin(queries: &[Query], wanted: &[u64]) -> Vec<u64> {
    let margin = |(query, &wanted): (&Query, &u64)| (wanted + wanted / 8 + 64).min(rows_max(query));
    queries.iter().zip(wanted).map(margin).collect()
}

#[cfg(test)]
mod tests {
    use shoal_engine::{Region, Space};

    use super::*;

    fn range(projection: Projection, limit: Option<u64>) -> Query {
        let limit = limit.map(RowLimit::First);
        let region = Region::rectangle(&Space::geographic(), -1.0, -1.0, 1.0, 1.0).unwrap();
        Query { kind: QueryKind::Range(region), filter: None, projection, limit }
    }

    #[test]
    fn probes_fit_their_share() {
        for count in [1, 2, 100, 4096] {
            for projection in [Projection::Ids, Projection::Fixes, Projection::Count] {
                let queries = vec![range(projection, None); count];
                let caps = probe_caps(&queries, PROBE_BYTES_MAX);
                let bytes: u64 =
                    queries.iter().zip(&caps).map(|(query, cap)| cap * row_bytes(query)).sum();
                assert!(bytes <= PROBE_BYTES_MAX, "{count} {projection:?}: {bytes}");
                assert_eq!(caps[0] == 0, projection == Projection::Count);
            }
        }
    }

    #[test]
    fn caps_respect_the_limits_of_the_client() {
        let queries = [
            range(Projection::Ids, Some(10)),
            range(Projection::Count, Some(3)),
            range(Projection::Ids, None),
        ];
        assert_eq!(probe_caps(&queries, PROBE_BYTES_MAX), [10, 0, PROBE_ROWS_MAX]);
        // Small queries leave their unused share to a large query of the same request.
        let mut many = vec![range(Projection::Ids, Some(1)); 4095];
        many.push(range(Projection::Ids, None));
        assert_eq!(probe_caps(&many, PROBE_BYTES_MAX)[4095], PROBE_ROWS_MAX);
        let limits: Vec<_> =
            capped(&queries, &[10, 0, 7]).iter().map(|query| query.limit).collect();
        let as_sent = [10, 3].map(RowLimit::First);
        assert_eq!(limits, [as_sent[0], as_sent[1], RowLimit::AllOrNone(7)].map(Some));
        // If the limit exceeds the cap, no rows are computed before their memory is reserved.
        let beyond = capped(&[range(Projection::Fixes, Some(100_000))], &[50_000]);
        assert_eq!(beyond[0].limit, Some(RowLimit::AllOrNone(50_000)));
        assert_eq!(with_margin(&queries, &[10, 0, 800]), [10, 0, 964]);
        // A query that wants all rows or none needs memory for its rows.
        let all =
            Query { limit: Some(RowLimit::AllOrNone(1 << 16)), ..range(Projection::Fixes, None) };
        let many = vec![all; 4096];
        let caps = probe_caps(&many, PROBE_BYTES_MAX);
        assert!(caps[0] > 0 && caps.iter().sum::<u64>() * row_bytes(&many[0]) <= PROBE_BYTES_MAX);
        assert_eq!(capped(&many, &caps)[0].limit, Some(RowLimit::AllOrNone(caps[0])));
    }
}
