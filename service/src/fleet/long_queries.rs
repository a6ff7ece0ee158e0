//! Answers queries that need more work than a cycle allows.
//!
//! They are answered from an export of the state, which the engine's thread delivers in slices
//! between cycles. So all answers of a request show one epoch, and updates continue meanwhile. A
//! thread tests each slice against the queries, on at most half of the cores. Clients are served in
//! turn by the cost of their queries, and costly requests are not answered together with others.
//! Between steps of a few milliseconds the thread checks for expired deadlines and for callers that
//! left.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use shoal_codec::FixColumns;
use shoal_engine::{
    AnswerSet, EngineError, ExportHeader, Query, QueryKind, RecordScan, Region, ScannedState, Space,
};
use tokio::time::{Duration, Instant};

use super::job_answers::JobAnswers;
use super::jobs::{QueryJob, QueryReply, QueryTerms};
use crate::cycle::{ExportRows, FleetName};
use crate::error::ServiceError;
use crate::limits::{
    BUSY_RETRY_MS, EXPORT_SLICES_WAITING, LONG_QUERIES_AT_ONCE, LONG_QUERY_MS_MAX,
    LONG_QUERY_RASTER_BYTES, LONG_QUERY_STEP_MS, LONG_REQUESTS_AT_ONCE, LONG_WORK_AT_ONCE,
};
use crate::shares::FairQueue;
use crate::threads::{Priority, lower, spawn_at};

/// Rows of a step, least and most. A step begins with the least number.
const STEP_ROWS: (usize, usize) = (16, 1 << 10);
/// Maximum number of queries in one part. A part is tested by one core; its queries share the order
/// of the rows.
const PART_QUERIES_MAX: usize = 512;
/// Work of a test for a nearest query; most rows are outside a box.
const NEAREST_WORK: u64 = 2;

/// Requests that wait for an export.
#[derive(Debug, Default)]
pub(super) struct LongQueries {
    waiting: FairQueue<QueryJob>,
}

/// The requests of one export.
struct Search {
    state: ScannedState,
    rows: Receiver<FixColumns>,
    /// Receives a message whenever rows were taken.
    taken: Sender<()>,
    /// Term, epoch and clock of the answers.
    at: (u64, u64, i64),
    end: Instant,
    step_rows: usize,
}

/// A request in progress.
struct LongRequest<'a> {
    terms: QueryTerms,
    /// Its queries in order, `part_queries` in each but the last.
    parts: Vec<RecordScan<'a>>,
    part_queries: usize,
}

/// About what it costs to test a record against all queries, in tests of a rectangle.
fn work_of(queries: &[Query]) -> u64 {
    let work = |query: &Query| match &query.kind {
        // Without a raster, which some polygons do not get.
        QueryKind::Range(region) => region.test_work(),
        QueryKind::Nearest { .. } => NEAREST_WORK,
        QueryKind::Get(_) => 1,
    };
    queries.iter().map(work).sum()
}

impl LongQueries {
    /// Whether requests wait for an export.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds requests, and drops waiting ones that were abandoned.
    pub(super) fn add(&mut self, jobs: Vec<QueryJob>) {
        if jobs.is_empty() {
            return;
        }
        let now = Instant::now();
        self.waiting.retain(|job| !job.terms.is_abandoned(now));
        for job in jobs {
            self.waiting.push(job.client, work_of(&job.queries), job);
        }
    }

    /// Refuses all requests.
    pub(super) fn refuse(&mut self, fault: &EngineError) {
        while let Some((_, job)) = self.waiting.pop() {
            // A closed channel means that the client left, here and below.
            let _ = job.terms.reply.send(Err(fault.clone().into()));
        }
    }

    /// Begins to answer the next requests from an export of this state. Returns the channel for its
    /// rows; `None` if no request is left.
    ///
    /// # Errors
    /// The thread cannot be started; the requests are dropped.
    pub(super) fn begin(
        &mut self,
        name: &FleetName,
        space: &Space,
        state: &ExportHeader,
        term: u64,
    ) -> Result<Option<ExportRows>, ServiceError> {
        let now = Instant::now();
        let (mut jobs, mut queries, mut work) = (Vec::new(), 0, 0);
        while jobs.len() < LONG_REQUESTS_AT_ONCE {
            let fits = |job: &QueryJob| {
                jobs.is_empty()
                    || queries + job.queries.len() <= LONG_QUERIES_AT_ONCE
                        && work + work_of(&job.queries) <= LONG_WORK_AT_ONCE
            };
            let Some((_, job)) = self.waiting.pop_if(fits) else { break };
            if !job.terms.is_abandoned(now) {
                queries += job.queries.len();
                work += work_of(&job.queries);
                jobs.push(job);
            }
        }
        if jobs.is_empty() {
            return Ok(None);
        }
        let (row_sender, rows) = bounded(EXPORT_SLICES_WAITING);
        let (taken, taken_receiver) = bounded(1);
        let at = (term, state.epoch, state.clock_ms);
        let end = now + Duration::from_millis(LONG_QUERY_MS_MAX);
        let is_polygon =
            |query: &&Query| matches!(&query.kind, QueryKind::Range(Region::Polygon(_)));
        let polygons = jobs.iter().flat_map(|job| &job.queries).filter(is_polygon).count();
        let (of_one, of_all) = LONG_QUERY_RASTER_BYTES;
        let state = ScannedState {
            space: *space,
            clock_ms: state.clock_ms,
            records: state.objects,
            raster_bytes_max: of_one.min(of_all / polygons.max(1)),
        };
        let search = Search { state, rows, taken, at, end, step_rows: STEP_ROWS.0 };
        spawn_at(Priority::Lowest, format!("queries-{name}"), || search.run(jobs))?;
        Ok(Some(ExportRows::new(row_sender, taken_receiver)))
    }
}

impl Search {
    fn run(mut self, jobs: Vec<QueryJob>) {
        let (queries, terms): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|QueryJob { queries, terms, .. }| (queries, terms)).unzip();
        let mut requests = Vec::new();
        for (queries, terms) in queries.iter().zip(terms) {
            requests.extend(LongRequest::new(queries, terms, self.state));
            self.drop_late(&mut requests);
        }
        let mut rows_missing = self.state.records;
        while rows_missing > 0 {
            let Ok(rows) = self.rows.recv() else { return abandon(requests) };
            // An error means that a message is there already, or that the engine sends no more.
            let _ = self.taken.try_send(());
            rows_missing = rows_missing.saturating_sub(rows.len() as u64);
            self.drop_late(&mut requests);
            self.read(&rows, &mut requests);
            if requests.is_empty() {
                return;
            }
        }
        for LongRequest { terms, parts, part_queries } in requests {
            if !terms.is_abandoned(Instant::now()) {
                let _ = terms.reply.send(Ok(answers(parts, part_queries, self.at)));
            }
        }
    }

    /// Tests rows against all queries.
    fn read(&mut self, rows: &FixColumns, requests: &mut Vec<LongRequest<'_>>) {
        let mut first = 0;
        while first < rows.len() && !requests.is_empty() {
            let started = Instant::now();
            let step = first..rows.len().min(first + self.step_rows);
            first = step.end;
            let parts = requests.iter_mut().flat_map(|request| &mut request.parts);
            let mut parts: Vec<&mut RecordScan<'_>> = parts.collect();
            on_pool(|| parts.par_iter_mut().for_each(|scan| scan.read(rows, step.clone())));
            self.step_rows = step_rows(step.len(), started.elapsed());
            self.drop_late(requests);
        }
    }

    /// Drops abandoned requests, and ends those that take too long with an error.
    fn drop_late(&self, requests: &mut Vec<LongRequest<'_>>) {
        let now = Instant::now();
        requests.retain(|request| !request.terms.is_abandoned(now));
        if self.end <= now {
            let what = "milliseconds for the queries of a request";
            let (value, limit) = (LONG_QUERY_MS_MAX, LONG_QUERY_MS_MAX);
            refuse(requests, || ServiceError::Limit { what, value, limit });
        }
    }
}

/// Rows of the next step, after one of this many rows took this time.
fn step_rows(rows: usize, time: Duration) -> usize {
    let share = LONG_QUERY_STEP_MS as f64 / 1e3 / time.as_secs_f64().max(1e-9);
    ((rows as f64 * share) as usize).clamp(STEP_ROWS.0, STEP_ROWS.1)
}

/// Fails all requests: the engine abandoned the export.
fn abandon(mut requests: Vec<LongRequest<'_>>) {
    let what = "the memory for long queries beside updates";
    refuse(&mut requests, || ServiceError::Busy { what, limit: 0, retry_ms: BUSY_RETRY_MS });
}

fn refuse(requests: &mut Vec<LongRequest<'_>>, error: impl Fn() -> ServiceError) {
    for request in requests.drain(..) {
        let _ = request.terms.reply.send(QueryReply::Err(error()));
    }
}

impl<'a> LongRequest<'a> {
    /// Prepares the queries of a request; `None` if it is abandoned meanwhile.
    fn new(queries: &'a [Query], terms: QueryTerms, state: ScannedState) -> Option<Self> {
        let cores = pool().map_or(1, ThreadPool::current_num_threads);
        let part_queries = queries.len().div_ceil(cores).clamp(1, PART_QUERIES_MAX);
        let part = |queries: &'a [Query]| {
            let mut scan = RecordScan::new(state);
            for query in queries {
                if terms.is_abandoned(Instant::now()) {
                    return None;
                }
                scan.add(query);
            }
            Some(scan)
        };
        let parts: Option<_> = on_pool(|| queries.par_chunks(part_queries).map(part).collect());
        let parts = parts?;
        Some(Self { terms, parts, part_queries })
    }
}

fn answers(parts: Vec<RecordScan<'_>>, part_queries: usize, at: (u64, u64, i64)) -> JobAnswers {
    let pages: Vec<_> = on_pool(|| parts.into_par_iter().map(RecordScan::finish).collect());
    let count = pages.iter().map(|page| page.heads.len()).sum();
    let place = |query: usize| ((query / part_queries) as u32, (query % part_queries) as u32);
    let set = AnswerSet::new(pages, (0..count).map(place).collect());
    JobAnswers::new(Arc::new(set), 0, count, at, 0)
}

/// Runs work on the threads of [`pool`].
fn on_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match pool() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// The thread pool that long queries of all fleets share. If it cannot be started, returns `None`;
/// then each search runs on its own thread only.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let name = |thread| format!("long-queries-{thread}");
        let threads = (cores / 2).max(1);
        let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(name);
        builder.start_handler(|_| lower(Priority::Lowest)).build().ok()
    };
    POOL.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_their_time() {
        let step = Duration::from_millis(LONG_QUERY_STEP_MS);
        assert_eq!(step_rows(200, step), 200);
        assert_eq!(step_rows(200, step * 4), 50);
        assert_eq!(step_rows(200, Duration::ZERO), STEP_ROWS.1);
        assert_eq!(step_rows(200, step * 1_000), STEP_ROWS.0);
    }
}
