//! Stage query for cycles whose queries all request ids and have short answers: a warp answers a
//! whole query without candidate rows, and sorts its matches before they are written.
//!
//! The choice never changes an answer: blocks write longer ones. Warp queries are cheaper while the
//! answers of the previous cycle were short. Short and medium answers are written without the host,
//! into memory that had room for the answers of earlier cycles.

use shoal_engine::EngineError;
use shoal_engine::layout::{Lengths, WARP_QUERY_MATCHES};

use crate::launch::{CopyTarget, MatchesArgument, QueryInput, ViewArgument};
use crate::stages::query::batch::{QueryBatch, Sorted};

/// Most matches for which one warp does not delay a cycle of few queries. A guess: 128 per lane.
const LONGEST: u64 = 4_096;
/// Queries that delay a cycle as much as a match of its longest answer. A guess: a warp tests 64
/// candidates in a sixth of the time of a short query, and several thousand warps are resident.
const QUERIES_EACH_MATCH: u64 = 8;
/// Least number of queries per long answer; long answers are searched twice. A guess.
const QUERIES_EACH_LONG: u64 = 64;
/// Most matches of medium answers that are stored, on average over all queries.
const MEDIUM_MATCHES_EACH: usize = 16;

impl QueryBatch {
    /// Whether warp queries are likely to be cheaper, by the answers that were counted last.
    pub(crate) fn prefers_warp_queries(&self) -> bool {
        let Lengths { longest, medium_matches, long_queries, longer_queries, .. } =
            self.last_lengths();
        let long = u64::from(long_queries) + u64::from(longer_queries);
        let queries = self.queries_counted as u64;
        longest <= LONGEST.max(queries / QUERIES_EACH_MATCH)
            && medium_matches as usize <= MEDIUM_MATCHES_EACH * self.queries_counted
            && long * QUERIES_EACH_LONG <= queries
    }

    /// The lengths of the answers that were counted last, as if none had been withheld.
    fn last_lengths(&self) -> Lengths {
        self.lengths_counted.unwrap_or(self.lengths_host.as_slice()[0])
    }

    /// Counts the matches of every query, and stores those of short answers, and of medium ones as
    /// far as there is room, which is fitted to the medium answers that were counted last.
    pub(crate) fn count_by_warp(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
    ) -> Result<(), EngineError> {
        let queries = input.ranges.queries;
        let medium_matches = self.last_lengths().medium_matches as usize;
        self.queries_counted = queries;
        self.lengths_counted = None;
        self.counts.fit(queries + 1)?;
        self.kept_objects.fit(WARP_QUERY_MATCHES as usize * queries)?;
        self.kept.fit(medium_matches.min(MEDIUM_MATCHES_EACH * queries))?;
        self.bounds.fit(queries + 1)?;
        self.lists.fit(queries)?;
        let stream = &self.stream;
        self.lists.clear(stream)?;
        self.kernels.warp_query_count(
            stream,
            view,
            input,
            &self.counts,
            &self.kept_objects,
            &self.kept,
            &self.lists.argument(queries),
        )?;
        self.scratch.sum_before(stream, &self.counts, &self.bounds, queries as u32 + 1)
    }

    /// Writes the short and medium answers that [`Self::count_by_warp`] counted, in the order of
    /// their ids and without slots, if `sorted` has room for all answers. Returns the number of
    /// matches for which it has room. The host need not know the counts.
    pub(crate) fn write_short(
        &self,
        view: &ViewArgument,
        queries: usize,
        sorted: &Sorted,
    ) -> Result<usize, EngineError> {
        self.kernels.warp_query_write(
            &self.stream,
            view,
            &self.bounds,
            queries,
            &self.kept_objects,
            &self.kept,
            &self.lists.argument(queries),
            &sorted.objects,
        )?;
        Ok(sorted.objects.len())
    }

    /// Copies the counts to the host, the first match of every query to `bounds`. Complete once the
    /// stream has reached this point.
    pub(crate) fn take_counts(&mut self, bounds: CopyTarget<'_, u64>) -> Result<(), EngineError> {
        self.lists.lengths.download(&self.stream, 0, self.lengths_host.first(1))?;
        self.bounds.download(&self.stream, 0, bounds)
    }

    /// Writes what is left of `matches` matches after [`Self::write_short`], which had `room`. The
    /// counts must be complete.
    pub(crate) fn write_by_warp(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
        matches: usize,
        room: usize,
        sorted: &mut Sorted,
    ) -> Result<(), EngineError> {
        let queries = input.ranges.queries;
        if matches > room {
            sorted.objects.fit(matches)?;
            self.write_short(view, queries, sorted)?;
        }
        let lengths: Lengths = self.lengths_host.as_slice()[0];
        if lengths.long_queries + lengths.longer_queries == 0 {
            return Ok(());
        }
        self.fit_matches(matches, sorted)?;
        let (stream, bounds, lists) = (&self.stream, &self.bounds, self.lists.argument(queries));
        self.kernels.warp_query_write_many(
            stream,
            view,
            input,
            bounds,
            &lengths,
            &lists,
            &self.objects,
            &self.slots,
            matches,
        )?;
        let found = MatchesArgument::new(&self.objects, &self.slots, matches);
        let into = MatchesArgument::new(&sorted.objects, &sorted.slots, matches);
        let queries = queries as u32;
        self.kernels.sort_long_lists(stream, bounds, queries, &lengths, &lists, &found, &into)
    }
}
