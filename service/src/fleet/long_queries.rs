//! Answers queries that need more work than a cycle allows.
//!
//! They are answered from an export of the state, which the engine's thread delivers in slices
//! between cycles. So all answers of a request show one epoch, and updates continue meanwhile. A
//! thread tests each slice against the queries, on at most half of the cores. Clients are served in
//! turn by the cost of their queries, and costly requests are not answered together with others.
//! Between steps of a few milliseconds the thread checks for expired deadlines and for callers that
//! left.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
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
    LONG_QUERY_RASTER_BYTES, LONG_QUERY_STEP_MS, LONG_REQUESTS_AT_ONCE,
    LONG_TESTS_PER_SECOND_FIRST, LONG_WORK_AT_ONCE,
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
    speed: Arc<TestSpeed>,
}

/// How fast searches have been lately: tests of a rectangle per second; 0 before the first search.
#[derive(Debug, Default)]
struct TestSpeed(AtomicU64);

/// The requests of one export.
struct Search {
    state: ScannedState,
    rows: Receiver<FixColumns>,
    /// Receives a message whenever rows were taken.
    taken: Sender<()>,
    /// Term, epoch and clock of the answers.
    at: (u64, u64, i64),
    end: Instant,
    /// About how many tests of a rectangle it has made, and their time.
    tests: u64,
    testing: Duration,
    speed: Arc<TestSpeed>,
}

/// A request in progress.
struct LongRequest<'a> {
    terms: QueryTerms,
    /// Its queries in order, `part_queries` in each but the last.
    parts: Vec<Part<'a>>,
    part_queries: usize,
}

/// Queries of a request that one core tests.
struct Part<'a> {
    scan: RecordScan<'a>,
    /// See [`work_of`].
    work: u64,
    /// Rows of its next step.
    step_rows: usize,
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

impl TestSpeed {
    /// Learns from a search that made this many tests.
    fn learn(&self, tests: u64, time: Duration) {
        if tests == 0 {
            return;
        }
        let now = (tests as f64 / time.as_secs_f64().max(1e-9)) as u64;
        // Searches seldom overlap; then one of them may be lost.
        let speed = self.0.load(Ordering::Relaxed);
        let mean = if speed == 0 { now } else { speed / 2 + now / 2 };
        self.0.store(mean.max(1), Ordering::Relaxed);
    }

    /// Maximum work of a test of one of these records against all queries of several requests: what
    /// is expected to take a third of [`LONG_QUERY_MS_MAX`], at most [`LONG_WORK_AT_ONCE`].
    fn work_max(&self, records: u64) -> u64 {
        let speed = match self.0.load(Ordering::Relaxed) {
            0 => LONG_TESTS_PER_SECOND_FIRST,
            speed => speed,
        };
        let tests = speed.saturating_mul(LONG_QUERY_MS_MAX / 3_000);
        (tests / records.max(1)).min(LONG_WORK_AT_ONCE)
    }
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
        let work_max = self.speed.work_max(state.objects);
        let (mut jobs, mut queries, mut work) = (Vec::new(), 0, 0);
        while jobs.len() < LONG_REQUESTS_AT_ONCE {
            let Some(next) = self.waiting.next() else { break };
            let fits = |job: &QueryJob| {
                jobs.is_empty()
                    || queries + job.queries.len() <= LONG_QUERIES_AT_ONCE
                        && work + next.work <= work_max
            };
            let Some((_, job)) = self.waiting.pop_if(fits) else { break };
            if !job.terms.is_abandoned(now) {
                queries += job.queries.len();
                work += next.work;
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
        let (tests, testing, speed) = (0, Duration::ZERO, self.speed.clone());
        let search = Search { state, rows, taken, at, end, tests, testing, speed };
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
        while rows_missing > 0 && !requests.is_empty() {
            let Ok(rows) = self.rows.recv() else { return abandon(requests) };
            // Those that wait, too: each use of the pool can wait long for a core.
            let mut slices = vec![rows];
            slices.extend(self.rows.try_iter().take(EXPORT_SLICES_WAITING));
            // An error means that a message is there already, or that the engine sends no more.
            let _ = self.taken.try_send(());
            let rows: usize = slices.iter().map(FixColumns::len).sum();
            rows_missing = rows_missing.saturating_sub(rows as u64);
            self.read(&slices, &mut requests);
            self.drop_late(&mut requests);
        }
        // A search whose callers left early says little.
        if rows_missing == 0 || self.end <= Instant::now() {
            self.speed.learn(self.tests, self.testing);
        }
        for LongRequest { terms, parts, part_queries, .. } in requests {
            if !terms.is_abandoned(Instant::now()) {
                let _ = terms.reply.send(Ok(answers(parts, part_queries, self.at)));
            }
        }
    }

    /// Tests rows against all queries, except those of requests that [`Self::drop_late`] drops.
    fn read(&mut self, slices: &[FixColumns], requests: &mut [LongRequest<'_>]) {
        let (started, end) = (Instant::now(), self.end);
        let read = |part: &mut Part<'_>, terms: &QueryTerms| {
            let is_late = || {
                let now = Instant::now();
                end <= now || terms.is_abandoned(now)
            };
            slices.iter().map(|rows| part.read(rows, is_late)).sum::<u64>()
        };
        let tests = if let [LongRequest { terms, parts, .. }] = requests
            && let [part] = &mut parts[..]
        {
            read(part, terms)
        } else {
            let read = |LongRequest { terms, parts, .. }: &mut LongRequest<'_>| {
                parts.par_iter_mut().map(|part| read(part, terms)).sum::<u64>()
            };
            on_pool(|| requests.par_iter_mut().map(read).sum())
        };
        self.tests = self.tests.saturating_add(tests);
        self.testing += started.elapsed();
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

impl Part<'_> {
    /// Tests rows step by step until it is late. Returns about how many tests of a rectangle it made.
    fn read(&mut self, rows: &FixColumns, is_late: impl Fn() -> bool) -> u64 {
        let mut first = 0;
        while first < rows.len() && !is_late() {
            let started = Instant::now();
            let step = first..rows.len().min(first + self.step_rows);
            first = step.end;
            let count = step.len();
            self.scan.read(rows, step);
            self.step_rows = step_rows(count, started.elapsed());
        }
        self.work.saturating_mul(first as u64)
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
            Some(Part { scan, work: work_of(queries), step_rows: STEP_ROWS.0 })
        };
        let parts: Option<_> = on_pool(|| queries.par_chunks(part_queries).map(part).collect());
        let parts = parts?;
        Some(Self { terms, parts, part_queries })
    }
}

fn answers(parts: Vec<Part<'_>>, part_queries: usize, at: (u64, u64, i64)) -> JobAnswers {
    let pages: Vec<_> = on_pool(|| parts.into_par_iter().map(|part| part.scan.finish()).collect());
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

/// The thread pool that searches of several parts share, those of all fleets. If it cannot be
/// started, returns `None`; then each search runs on its own thread, as one of one part does.
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
    fn requests_are_answered_together_if_a_third_of_the_time_is_enough() {
        let speed = TestSpeed::default();
        let of_first = LONG_TESTS_PER_SECOND_FIRST * LONG_QUERY_MS_MAX / 3_000;
        assert_eq!(speed.work_max(1 << 20), of_first >> 20);
        assert_eq!([0, 1].map(|records| speed.work_max(records)), [LONG_WORK_AT_ONCE; 2]);
        speed.learn(1_000_000, Duration::from_millis(100));
        assert_eq!(speed.work_max(1_000_000), 10_000_000 * LONG_QUERY_MS_MAX / 3_000 / 1_000_000);
        speed.learn(1_000_000, Duration::from_millis(50));
        assert_eq!(speed.work_max(1_000_000), 15_000_000 * LONG_QUERY_MS_MAX / 3_000 / 1_000_000);
        for _ in 0..80 {
            speed.learn(1, Duration::from_secs(1));
            speed.learn(0, Duration::from_secs(1));
        }
        assert_eq!(speed.work_max(1_000), 0);
    }

    #[test]
    fn steps_follow_their_time() {
        let step = Duration::from_millis(LONG_QUERY_STEP_MS);
        assert_eq!(step_rows(200, step), 200);
        assert_eq!(step_rows(200, step * 4), 50);
        assert_eq!(step_rows(200, Duration::ZERO), STEP_ROWS.1);
        assert_eq!(step_rows(200, step * 1_000), STEP_ROWS.0);
    }
}
