//! Stage query for cycles whose queries all request ids and have short answers: a warp answers a
//! whole query without items, and sorts its matches before they are written.
//!
//! The choice never changes an answer: blocks write longer ones. Warp queries are cheaper while the
//! answers of the previous cycle were short.

use shoal_engine::EngineError;
use shoal_engine::layout::{Lengths, WARP_QUERY_MATCHES};

use crate::launch::{CopyTarget, MatchesArgument, QueryInput, ViewArgument};
use crate::stages::query::batch::{QueryBatch, Sorted};

/// Most matches for which one warp does not delay the cycle. A guess: 128 per lane.
const LONGEST: u64 = 4_096;
/// Least number of queries per long answer; long answers are searched twice. A guess.
const QUERIES_EACH_LONG: u64 = 64;

impl QueryBatch {
    /// Whether warp queries are likely to be cheaper, by the answers that were counted last.
    pub(crate) fn prefers_warp_queries(&self) -> bool {
        let counted = self.lengths_counted.unwrap_or(self.lengths_host.as_slice()[0]);
        let Lengths { longest, long_queries, longer_queries } = counted;
        let long = u64::from(long_queries) + u64::from(longer_queries);
        longest <= LONGEST && long * QUERIES_EACH_LONG <= self.queries_counted as u64
    }

    /// Counts the matches of every query into `bounds`, and stores those of short answers. Complete
    /// once the stream has reached this point.
    pub(crate) fn count_by_warp(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
        bounds: CopyTarget<'_, u64>,
    ) -> Result<(), EngineError> {
        let queries = input.ranges.queries;
        self.queries_counted = queries;
        self.lengths_counted = None;
        self.counts.fit(queries + 1)?;
        self.kept_objects.fit(WARP_QUERY_MATCHES as usize * queries)?;
        self.bounds.fit(queries + 1)?;
        self.long_queries.fit(queries)?;
        let stream = &self.stream;
        self.lengths.fill(stream, 0, 1)?;
        self.kernels.warp_query_count(
            stream,
            view,
            input,
            &self.counts,
            &self.kept_objects,
            &self.lengths,
            &self.long_queries,
        )?;
        let length = queries as u32 + 1;
        self.scratch.sum_before(stream, &self.counts, &self.bounds, length)?;
        self.lengths.download(stream, 0, self.lengths_host.first(1))?;
        self.bounds.download(stream, 0, bounds)
    }

    /// Writes all `matches` in the order of their ids, without slots. The counts must be complete.
    pub(crate) fn write_by_warp(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
        matches: usize,
        sorted: &mut Sorted,
    ) -> Result<(), EngineError> {
        let queries = input.ranges.queries;
        sorted.objects.fit(matches)?;
        let (stream, bounds) = (&self.stream, &self.bounds);
        let (kept, into) = (&self.kept_objects, &sorted.objects);
        self.kernels.warp_query_write(stream, bounds, queries, kept, into, matches)?;
        let lengths: Lengths = self.lengths_host.as_slice()[0];
        if lengths.long_queries + lengths.longer_queries == 0 {
            return Ok(());
        }
        self.fit_matches(matches, sorted)?;
        let (stream, bounds, long_queries) = (&self.stream, &self.bounds, &self.long_queries);
        self.kernels.warp_query_write_many(
            stream,
            view,
            input,
            bounds,
            &lengths,
            long_queries,
            &self.objects,
            &self.slots,
            matches,
        )?;
        let found = MatchesArgument::new(&self.objects, &self.slots, matches);
        let into = MatchesArgument::new(&sorted.objects, &sorted.slots, matches);
        let queries = queries as u32;
        self.kernels.sort_listed(stream, bounds, queries, &lengths, long_queries, &found, &into)
    }
}
