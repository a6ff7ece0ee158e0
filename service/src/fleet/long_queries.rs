//! Answers queries that need more work than a cycle allows.
//!
//! They are answered from an export of the state, which the engine's thread delivers in slices
//! between cycles. So all answers of a request show one epoch, and updates continue meanwhile. A
//! thread takes the slices that wait and tests them against the queries, a part of the queries on
//! each thread of a pool. The pool has half of the cores; the searches of all fleets test rows on
//! it in turns of about [`LONG_QUERY_TURN_MS`]. A search of one part uses its own thread instead,
//! if fewer do than the pool has threads: on a busy machine, threads of low priority wait long for
//! each other. Clients are served in turn by the cost of their queries, and costly requests are not
//! answered together with others. After each turn the thread checks for expired deadlines and for
//! callers that left.

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
use tokio::sync::Semaphore;
use tokio::time::{Duration, Instant};

use super::job_answers::JobAnswers;
use super::jobs::{QueryJob, QueryReply, QueryTerms};
use crate::cycle::{ExportRows, FleetName};
use crate::error::ServiceError;
use crate::limits::{
    BUSY_RETRY_MS, EXPORT_SLICES_WAITING, LONG_QUERIES_AT_ONCE, LONG_QUERY_MS_MAX,
    LONG_QUERY_RASTER_BYTES, LONG_QUERY_STEP_MS, LONG_QUERY_TURN_MS, LONG_REQUESTS_AT_ONCE,
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
    turn: Duration,
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
    /// Rows that it has read of the slices in turn.
    rows_read: usize,
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
        let turn = Duration::from_millis(LONG_QUERY_TURN_MS);
        let (tests, testing, speed) = (0, Duration::ZERO, self.speed.clone());
        let search = Search { state, rows, taken, at, end, turn, tests, testing, speed };
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
            // Also takes the slices that wait: each use of the pool can wait long for a core.
            let mut slices = vec![rows];
            slices.extend(self.rows.try_iter().take(EXPORT_SLICES_WAITING));
            // An error means that a message is there already, or that the engine sends no more.
            let _ = self.taken.try_send(());
            let rows: usize = slices.iter().map(FixColumns::len).sum();
            rows_missing = rows_missing.saturating_sub(rows as u64);
            self.read(&slices, &mut requests);
        }
        // A search whose callers left early says little.
        if !requests.is_empty() || self.testing >= self.turn {
            self.speed.learn(self.tests, self.testing);
        }
        for LongRequest { terms, parts, part_queries, .. } in requests {
            if !terms.is_abandoned(Instant::now()) {
                let _ = terms.reply.send(Ok(answers(parts, part_queries, self.at)));
            }
        }
    }

    /// Tests the rows of slices in turns, until no request is left that has not read them all.
    fn read(&mut self, slices: &[FixColumns], requests: &mut Vec<LongRequest<'_>>) {
        let rows: usize = slices.iter().map(FixColumns::len).sum();
        requests.iter_mut().for_each(LongRequest::begin_slices);
        loop {
            let started = Instant::now();
            let parts = requests.iter_mut().flat_map(|request| &mut request.parts);
            let parts: Vec<_> = parts.filter(|part| part.rows_read < rows).collect();
            if parts.is_empty() {
                return;
            }
            let turn = self.turn / parts.len().div_ceil(pool_threads()) as u32;
            let tests = map_parts(parts, |part| part.read(slices, turn));
            self.tests = tests.into_iter().fold(self.tests, u64::saturating_add);
            self.testing += started.elapsed();
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

impl Part<'_> {
    /// Tests rows of the slices that it has not read, step by step until the turn ends, at least
    /// one step. Returns about how many tests of a rectangle it made.
    fn read(&mut self, slices: &[FixColumns], turn: Duration) -> u64 {
        let begin = Instant::now();
        let (mut step_begin, mut slice_begin, read_before) = (begin, 0, self.rows_read);
        'turn: for slice in slices {
            while self.rows_read < slice_begin + slice.len() {
                let first = self.rows_read - slice_begin;
                let step = first..slice.len().min(first + self.step_rows);
                let count = step.len();
                self.scan.read(slice, step);
                self.rows_read += count;
                let step_end = Instant::now();
                self.step_rows = step_rows(count, step_end - step_begin);
                step_begin = step_end;
                if step_end - begin >= turn {
                    break 'turn;
                }
            }
            slice_begin += slice.len();
        }
        self.work.saturating_mul((self.rows_read - read_before) as u64)
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
        let part_queries = queries.len().div_ceil(pool_threads()).clamp(1, PART_QUERIES_MAX);
        let part = |queries: &'a [Query]| {
            let mut scan = RecordScan::new(state);
            for query in queries {
                if terms.is_abandoned(Instant::now()) {
                    return None;
                }
                scan.add(query);
            }
            Some(Part { scan, work: work_of(queries), rows_read: 0, step_rows: STEP_ROWS.0 })
        };
        let parts = map_parts(queries.chunks(part_queries).collect(), part);
        Some(Self { parts: parts.into_iter().collect::<Option<_>>()?, terms, part_queries })
    }

    fn begin_slices(&mut self) {
        self.parts.iter_mut().for_each(|part| part.rows_read = 0);
    }
}

fn answers(parts: Vec<Part<'_>>, part_queries: usize, at: (u64, u64, i64)) -> JobAnswers {
    let pages = map_parts(parts, |part| part.scan.finish());
    let count = pages.iter().map(|page| page.heads.len()).sum();
    let place = |query: usize| ((query / part_queries) as u32, (query % part_queries) as u32);
    let set = AnswerSet::new(pages, (0..count).map(place).collect());
    JobAnswers::new(Arc::new(set), 0, count, at, 0)
}

/// Maps parts on the threads of [`pool`], a single part on this thread if a place is free.
fn map_parts<P: Send, T: Send>(parts: Vec<P>, map: impl Fn(P) -> T + Send + Sync) -> Vec<T> {
    let place = if parts.len() == 1 { own_thread_places().try_acquire().ok() } else { None };
    match pool().filter(|_| place.is_none()) {
        Some(pool) => pool.install(|| parts.into_par_iter().map(map).collect()),
        None => parts.into_iter().map(map).collect(),
    }
}

/// Places of single parts that are mapped without the pool: as many as it has threads.
fn own_thread_places() -> &'static Semaphore {
    static PLACES: OnceLock<Semaphore> = OnceLock::new();
    PLACES.get_or_init(|| Semaphore::new(pool_threads()))
}

/// The thread pool of the searches of all fleets. If it cannot be started, returns `None`; then
/// each search runs on its own thread.
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

fn pool_threads() -> usize {
    pool().map_or(1, ThreadPool::current_num_threads)
}

#[cfg(test)]
mod tests {
    use shoal_codec::FixRow;
    use shoal_engine::Projection;
    use shoal_testkit::Random;
    use tokio::sync::oneshot;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::shares::{FairPlaces, Requester};

    fn rectangle(random: &mut Random) -> Query {
        let (x, y) = (random.real(-180.0, 90.0), random.real(-90.0, 45.0));
        let (east, north) = (x + random.real(0.0, 90.0), y + random.real(0.0, 45.0));
        let region = Region::rectangle(&Space::geographic(), x, y, east, north).unwrap();
        let (kind, projection) = (QueryKind::Range(region), Projection::Ids);
        Query { kind, filter: None, projection, limit: None }
    }

    fn job(
        queries: Vec<Query>,
        deadline: Option<Instant>,
    ) -> (QueryJob, oneshot::Receiver<QueryReply>) {
        let (reply, receiver) = oneshot::channel();
        let client = Requester::PROCESS;
        let _permit = FairPlaces::new(8).try_reserve(client, 1).unwrap();
        let (epoch_min, alone, rows_work, was_put_off) = (0, false, 0, false);
        let terms =
            QueryTerms { epoch_min, alone, rows_work, deadline, was_put_off, reply, _permit };
        (QueryJob { client, queries, terms }, receiver)
    }

    /// Answers jobs about this many records from slices that all wait already.
    fn search(records: u64, slices: &[FixColumns], jobs: Vec<QueryJob>, turn: Duration) {
        let (row_sender, rows) = bounded(slices.len());
        slices.iter().for_each(|slice| row_sender.send(slice.clone()).unwrap());
        drop(row_sender);
        let (taken, _taken_receiver) = bounded(1);
        let space = Space::geographic();
        let state = ScannedState { space, clock_ms: 0, records, raster_bytes_max: 0 };
        let end = Instant::now() + Duration::from_secs(3_600);
        let (at, speed) = ((1, 2, 3), Arc::default());
        let (tests, testing) = (0, Duration::ZERO);
        Search { state, rows, taken, at, end, turn, tests, testing, speed }.run(jobs);
    }

    #[test]
    fn slices_that_wait_are_read_whole() {
        let mut random = Random::new(3);
        let mut rows = Vec::new();
        let mut slice = |random: &mut Random| {
            let mut columns = FixColumns::new();
            for _ in 0..random.below(3_000_u32) {
                let place = [180, 90].map(|most| (random.real(-1e7, 1e7) * f64::from(most)) as i32);
                rows.push(FixRow::new(rows.len() as u64, 0, place[0], place[1]));
                columns.push_row(rows[rows.len() - 1]);
            }
            columns
        };
        let slices: Vec<_> = (0..20).map(|_| slice(&mut random)).collect();
        let records = rows.len() as u64;
        // One step in a turn, and all.
        let turns = [Duration::ZERO, Duration::from_secs(3_600)];
        let check = |queries: &[Query], reply: Result<QueryReply, _>| {
            let answers = reply.unwrap().unwrap();
            assert_eq!(answers.len(), queries.len());
            for (number, query) in queries.iter().enumerate() {
                let QueryKind::Range(region) = &query.kind else { panic!("{query:?}") };
                let inside = rows.iter().filter(|row| region.contains(row.x, row.y));
                let inside: Vec<u64> = inside.map(|row| row.object).collect();
                assert_eq!(answers.get(number).objects, inside, "{query:?}");
            }
        };
        let some: [Vec<Query>; 3] =
            [1, 2, 700].map(|count| (0..count).map(|_| rectangle(&mut random)).collect());
        for (queries, turn) in some.iter().flat_map(|queries| turns.map(|turn| (queries, turn))) {
            let (job, mut receiver) = job(queries.clone(), None);
            search(records, &slices, vec![job], turn);
            check(queries, receiver.try_recv());
        }
        // Together, beside one whose caller left and one that is late.
        let (mut jobs, mut receivers): (Vec<_>, Vec<_>) =
            some.iter().map(|queries| job(queries.clone(), None)).unzip();
        jobs.push(job(some[0].clone(), None).0);
        let (late, mut no_answer) = job(some[2].clone(), Some(Instant::now()));
        jobs.push(late);
        search(records, &slices, jobs, turns[0]);
        for (queries, receiver) in some.iter().zip(&mut receivers) {
            check(queries, receiver.try_recv());
        }
        assert_eq!(no_answer.try_recv().unwrap_err(), TryRecvError::Closed);
        // The export ends early.
        let (job, mut receiver) = job(some[1].clone(), None);
        search(records + 1, &slices, vec![job], turns[1]);
        let reply = receiver.try_recv().unwrap();
        assert!(matches!(reply, Err(ServiceError::Busy { .. })), "{reply:?}");
    }

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
    fn a_single_part_without_a_place_uses_the_pool() {
        // Other tests give their places back.
        let all = loop {
            match own_thread_places().try_acquire_many(pool_threads() as u32) {
                Ok(all) => break all,
                Err(_) => std::thread::yield_now(),
            }
        };
        let name = |()| std::thread::current().name().map(str::to_owned).unwrap();
        assert!(map_parts(vec![()], name)[0].starts_with("long-queries-"));
        drop(all);
        assert!(own_thread_places().available_permits() <= pool_threads());
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
