//! Answers queries that need more work than a cycle allows.
//!
//! They are answered from an export of the state, which the engine's thread delivers in slices
//! between cycles. So all answers of a request show one epoch, and updates continue meanwhile. A
//! thread tests each slice against the queries, on at most half of the cores. Clients are served in
//! turn, each with one request at a time. The thread checks for expired deadlines and for callers
//! that left between parts of a slice.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use shoal_codec::FixColumns;
use shoal_engine::{AnswerSet, EngineError, ExportHeader, RecordScan, Space};
use tokio::time::{Duration, Instant};

use super::job_answers::JobAnswers;
use super::jobs::{QueryJob, QueryReply, QueryTerms};
use crate::cycle::{ExportRows, FleetName};
use crate::error::ServiceError;
use crate::limits::{
    BUSY_RETRY_MS, EXPORT_SLICES_WAITING, LONG_QUERIES_AT_ONCE, LONG_QUERY_MS_MAX,
    LONG_REQUESTS_AT_ONCE,
};
use crate::shares::FairQueue;
use crate::threads::{enter_background, spawn_background};

/// Rows that are tested between two checks of deadlines.
const ROWS_AT_ONCE: usize = 1 << 10;
/// Maximum number of queries in one part. A part is tested by one core; its queries share the order
/// of the rows.
const PART_QUERIES_MAX: usize = 512;

/// Requests that wait for an export.
#[derive(Debug, Default)]
pub(super) struct LongQueries {
    waiting: FairQueue<QueryJob>,
}

/// The requests of one export.
struct Search {
    jobs: Vec<QueryJob>,
    space: Space,
    requests: Vec<LongRequest>,
    rows: Receiver<FixColumns>,
    /// Receives a message whenever rows were taken.
    taken: Sender<()>,
    rows_missing: u64,
    /// Term, epoch and clock of the answers.
    at: (u64, u64, i64),
    end: Instant,
}

/// A request in progress.
struct LongRequest {
    terms: QueryTerms,
    /// Its queries in order, `part_queries` in each but the last.
    parts: Vec<RecordScan>,
    part_queries: usize,
}

impl LongQueries {
    /// Whether requests wait for an export.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a request; drops waiting requests that were abandoned.
    pub(super) fn add(&mut self, job: QueryJob) {
        let now = Instant::now();
        self.waiting.retain(|job| !job.terms.is_abandoned(now));
        self.waiting.push(job.client, job.queries.len() as u64, job);
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
        let (mut jobs, mut queries) = (Vec::new(), 0);
        while jobs.len() < LONG_REQUESTS_AT_ONCE {
            let fits = |job: &QueryJob| {
                jobs.is_empty() || queries + job.queries.len() <= LONG_QUERIES_AT_ONCE
            };
            let Some((_, job)) = self.waiting.pop_if(fits) else { break };
            if !job.terms.is_abandoned(now) {
                queries += job.queries.len();
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
        let (space, requests, rows_missing) = (*space, Vec::new(), state.objects);
        let search = Search { jobs, space, requests, rows, taken, rows_missing, at, end };
        spawn_background(format!("queries-{name}"), || search.run())?;
        Ok(Some(ExportRows::new(row_sender, taken_receiver)))
    }
}

impl Search {
    fn run(mut self) {
        for job in std::mem::take(&mut self.jobs) {
            self.requests.push(LongRequest::new(job, &self.space, self.at.2, self.rows_missing));
            self.drop_late();
        }
        while self.rows_missing > 0 {
            let Ok(rows) = self.rows.recv() else { return self.abandon() };
            // An error means that a message is there already, or that the engine sends no more.
            let _ = self.taken.try_send(());
            self.rows_missing = self.rows_missing.saturating_sub(rows.len() as u64);
            self.read(&rows);
            if self.requests.is_empty() {
                return;
            }
        }
        for request in self.requests {
            let LongRequest { terms, parts, part_queries } = request;
            let _ = terms.reply.send(Ok(answers(parts, part_queries, self.at)));
        }
    }

    /// Tests rows against all queries.
    fn read(&mut self, rows: &FixColumns) {
        let mut first = 0;
        while first < rows.len() && !self.requests.is_empty() {
            let piece = first..rows.len().min(first + ROWS_AT_ONCE);
            first = piece.end;
            let parts = self.requests.iter_mut().flat_map(|request| &mut request.parts);
            let mut parts: Vec<&mut RecordScan> = parts.collect();
            let mut read = || parts.par_iter_mut().for_each(|scan| scan.read(rows, piece.clone()));
            match pool() {
                Some(pool) => pool.install(read),
                None => read(),
            }
            self.drop_late();
        }
    }

    /// Drops abandoned requests, and ends those that take too long with an error.
    fn drop_late(&mut self) {
        let now = Instant::now();
        self.requests.retain(|request| !request.terms.is_abandoned(now));
        if self.end <= now {
            let what = "milliseconds for the queries of a request";
            let (value, limit) = (LONG_QUERY_MS_MAX, LONG_QUERY_MS_MAX);
            self.refuse(|| ServiceError::Limit { what, value, limit });
        }
    }

    /// Fails all requests: the engine abandoned the export.
    fn abandon(&mut self) {
        let what = "the memory for long queries beside updates";
        self.refuse(|| ServiceError::Busy { what, limit: 0, retry_ms: BUSY_RETRY_MS });
    }

    fn refuse(&mut self, error: impl Fn() -> ServiceError) {
        for request in self.requests.drain(..) {
            let _ = request.terms.reply.send(QueryReply::Err(error()));
        }
    }
}

impl LongRequest {
    fn new(job: QueryJob, space: &Space, clock_ms: i64, records: u64) -> Self {
        let QueryJob { queries, terms, .. } = job;
        let cores = pool().map_or(1, ThreadPool::current_num_threads);
        let part_queries = queries.len().div_ceil(cores).clamp(1, PART_QUERIES_MAX);
        let part = |queries: &[_]| RecordScan::new(space, queries.to_vec(), clock_ms, records);
        Self { terms, parts: queries.chunks(part_queries).map(part).collect(), part_queries }
    }
}

fn answers(parts: Vec<RecordScan>, part_queries: usize, at: (u64, u64, i64)) -> JobAnswers {
    let pages: Vec<_> = parts.into_iter().map(RecordScan::finish).collect();
    let count = pages.iter().map(|page| page.heads.len()).sum();
    let place = |query: usize| ((query / part_queries) as u32, (query % part_queries) as u32);
    let set = AnswerSet::new(pages, (0..count).map(place).collect());
    JobAnswers::new(Arc::new(set), 0, count, at, 0)
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
        builder.start_handler(|_| enter_background()).build().ok()
    };
    POOL.get_or_init(start).as_ref()
}
