//! Replies to the query jobs of a cycle.
//!
//! A job that exceeds the remaining work of the cycle gets no partial answer. It is put off to a
//! later cycle if other jobs used the work, and becomes a long query if it needs more work than a
//! cycle allows.

use std::sync::Arc;

use shoal_engine::{AnswerSet, EngineError, Query};

use super::cycle_planner::{CyclePlanner, PlannedQueries};
use super::job_answers::JobAnswers;
use super::jobs::QueryJob;
use super::long_queries::LongQueries;
use crate::metrics::FleetMetrics;

/// The answers of a cycle; see `CycleOutput`.
pub(super) struct CycleAnswers {
    pub(super) set: AnswerSet,
    pub(super) unanswered: Option<EngineError>,
    pub(super) unfinished: Vec<u32>,
    pub(super) work: Vec<u64>,
    /// Limit of the work of all queries together.
    pub(super) work_max: u64,
    /// See `CyclePlan`.
    pub(super) is_light: bool,
    pub(super) queries: Vec<Query>,
    /// Term, epoch and clock.
    pub(super) at: (u64, u64, i64),
    pub(super) staleness_epochs: u64,
}

impl CycleAnswers {
    /// Replies to the jobs, in the order of the cycle.
    pub(super) fn reply(
        self,
        jobs: Vec<PlannedQueries>,
        planner: &mut CyclePlanner,
        long_queries: &mut LongQueries,
        metrics: &FleetMetrics,
    ) {
        let Self { set, unanswered, unfinished, work, work_max, is_light, queries, .. } = self;
        let (at, staleness_epochs) = (self.at, self.staleness_epochs);
        let set = Arc::new(set);
        let (is_alone, beside) = (jobs.len() == 1, jobs.len().saturating_sub(1));
        let (mut put_off, mut long) = (Vec::new(), Vec::new());
        planner.receive_queries();
        let mut first = 0;
        for PlannedQueries { client, count, mut terms } in jobs {
            let places = first..first + count;
            first = places.end;
            let work: u64 = work.get(places.clone()).map_or(0, |work| work.iter().sum());
            planner.charge(client, work, beside);
            let next = unfinished.partition_point(|query| (*query as usize) < places.start);
            let is_unfinished =
                unfinished.get(next).is_some_and(|query| (*query as usize) < places.end);
            if let Some(fault) = &unanswered {
                // A closed channel means that the client left, here and below.
                let _ = terms.reply.send(Err(fault.clone().into()));
            } else if !is_unfinished {
                let answers =
                    JobAnswers::new(set.clone(), places.start, count, at, staleness_epochs);
                let _ = terms.reply.send(Ok(answers));
            } else {
                // A cycle of light clients does little work: that one of its queries needs more does
                // not make the query long.
                let is_long = !is_light && (is_alone || terms.was_put_off || work >= work_max / 2);
                terms.was_put_off |= !is_light;
                let job = QueryJob { client, queries: queries[places].to_vec(), terms };
                if is_long {
                    metrics.query_requests_long.inc();
                    long.push(job);
                } else {
                    metrics.query_requests_put_off.inc();
                    put_off.push(job);
                }
            }
        }
        planner.put_off(put_off);
        long_queries.add(long);
        planner.reuse(queries);
    }
}
