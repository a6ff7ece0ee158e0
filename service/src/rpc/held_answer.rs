//! How is an answer of unknown size had without unknown memory?
//!
//! Every query is asked first with a cap on its rows, so that the whole request fits a small share
//! of the budget. Most answers do. When one was cut by our cap (not by the client's limit), its
//! true size is known from the total: room for that is taken, and the whole request is asked again,
//! alone in its cycle, so that all its queries still see one epoch.

use std::time::Instant;

use shoal_engine::{Projection, Query, QueryKind};

use super::asking::Asking;
use super::deadline::Deadline;
use super::door::Door;
use crate::answer_budget::AnswerRoom;
use crate::error::ServiceError;
use crate::fleet::{JobAnswers, QueryRequest};
use crate::limits::{ASK_AGAIN_MAX, PROBE_BYTES_MAX, PROBE_ROWS_MAX, ROW_ANSWER_BYTES};

/// Answers and the room that they take.
#[derive(Debug)]
pub(super) struct HeldAnswer {
    pub(super) answered: JobAnswers,
    /// Dropped with the answers.
    _room: AnswerRoom,
}

/// Asks all queries of a request at one epoch. `patient` requests wait for room in the queue.
///
/// # Errors
/// [`ServiceError::Busy`], [`ServiceError::Limit`] for an answer beyond the budget,
/// [`ServiceError::Deadline`]; that the fleet is gone.
pub(super) async fn ask(
    door: &Door,
    asking: &Asking,
    queries: Vec<Query>,
    deadline: Deadline,
    patient: bool,
) -> Result<HeldAnswer, ServiceError> {
    let arrived = Instant::now();
    let held = deadline.bound(ask_whole(door, asking, queries, deadline, patient)).await;
    let held = held.map_err(|error| door.count(error))?;
    asking.fleet.metrics().query_seconds.observe(arrived.elapsed().as_secs_f64());
    Ok(held)
}

async fn ask_whole(
    door: &Door,
    asking: &Asking,
    queries: Vec<Query>,
    deadline: Deadline,
    patient: bool,
) -> Result<HeldAnswer, ServiceError> {
    let mut caps = probe_caps(&queries);
    let mut alone = false;
    for _ in 0..ASK_AGAIN_MAX {
        let bytes = queries.iter().zip(&caps).map(|(query, cap)| cap * row_bytes(query)).sum();
        let mut room = door.answers.room(bytes).await?;
        let question = QueryRequest {
            queries: capped(&queries, &caps),
            epoch_min: asking.epoch_min,
            alone,
            deadline: deadline.instant(),
            patient,
        };
        let answered = asking.fleet.query(question).await?;
        let wanted = wanted_rows(&queries, &answered);
        if wanted.iter().zip(&caps).all(|(wanted, cap)| wanted <= cap) {
            room.shrink(answered.bytes());
            return Ok(HeldAnswer { answered, _room: room });
        }
        // The room goes back before more is asked for: nobody waits while holding.
        (caps, alone) = (with_margin(&queries, &wanted), true);
    }
    let what = "the number of attempts at an answer that keeps growing";
    Err(ServiceError::Limit { what, value: ASK_AGAIN_MAX.into(), limit: ASK_AGAIN_MAX.into() })
}

/// Most rows that a query can return by what it says.
fn rows_max(query: &Query) -> u64 {
    let kind = match &query.kind {
        QueryKind::Get(objects) => objects.len() as u64,
        QueryKind::Nearest { k, .. } => u64::from(*k),
        QueryKind::Range(_) => u64::MAX,
    };
    match query.projection {
        Projection::Count => 0,
        Projection::Ids | Projection::Fixes => kind.min(query.limit.unwrap_or(u64::MAX)),
    }
}

/// Bytes that a row takes while the answer is held.
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

/// Rows that each query may return at first.
fn probe_caps(queries: &[Query]) -> Vec<u64> {
    let row_of_each: u64 = queries.iter().map(row_bytes).sum();
    let fair = (PROBE_BYTES_MAX / row_of_each.max(1)).clamp(1, PROBE_ROWS_MAX);
    queries.iter().map(|query| rows_max(query).min(fair)).collect()
}

/// The queries with their rows capped.
fn capped(queries: &[Query], caps: &[u64]) -> Vec<Query> {
    let cap = |(query, &cap): (&Query, &u64)| {
        // 0 would cut the answer of a count; it returns no rows anyway.
        let limit = if cap == 0 { query.limit } else { Some(cap) };
        Query { limit, ..query.clone() }
    };
    queries.iter().zip(caps).map(cap).collect()
}

/// Rows that each query should return, now that its total is known.
fn wanted_rows(queries: &[Query], answered: &JobAnswers) -> Vec<u64> {
    let wanted = queries.iter().zip(answered.iter());
    wanted.map(|(query, answer)| answer.total.min(rows_max(query))).collect()
}

/// A little more than was wanted: the fleet goes on while room is waited for.
fn with_margin(queries: &[Query], wanted: &[u64]) -> Vec<u64> {
    let margin = |(query, &wanted): (&Query, &u64)| (wanted + wanted / 8 + 64).min(rows_max(query));
    queries.iter().zip(wanted).map(margin).collect()
}

#[cfg(test)]
mod tests {
    use shoal_engine::{Region, Space};

    use super::*;

    fn range(projection: Projection, limit: Option<u64>) -> Query {
        let region = Region::rectangle(&Space::geographic(), -1.0, -1.0, 1.0, 1.0).unwrap();
        Query { kind: QueryKind::Range(region), filter: None, projection, limit }
    }

    #[test]
    fn probes_fit_their_share() {
        for count in [1, 2, 100, 4096] {
            for projection in [Projection::Ids, Projection::Fixes, Projection::Count] {
                let queries = vec![range(projection, None); count];
                let caps = probe_caps(&queries);
                let bytes: u64 =
                    queries.iter().zip(&caps).map(|(query, cap)| cap * row_bytes(query)).sum();
                assert!(bytes <= PROBE_BYTES_MAX, "{count} {projection:?}: {bytes}");
                assert_eq!(caps[0] == 0, projection == Projection::Count);
            }
        }
    }

    #[test]
    fn caps_respect_what_the_client_asked() {
        let queries = [
            range(Projection::Ids, Some(10)),
            range(Projection::Count, Some(3)),
            range(Projection::Ids, None),
        ];
        assert_eq!(probe_caps(&queries), [10, 0, PROBE_ROWS_MAX]);
        let limits: Vec<_> =
            capped(&queries, &[10, 0, 7]).iter().map(|query| query.limit).collect();
        assert_eq!(limits, [Some(10), Some(3), Some(7)]);
        assert_eq!(with_margin(&queries, &[10, 0, 800]), [10, 0, 964]);
    }
}
