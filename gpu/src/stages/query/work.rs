//! Limits the work of a cycle's queries. A query that exceeds the remaining work gets no answer in
//! the cycle; the caller answers it outside the cycles.
//!
//! The device sums up the candidates of every query from the counts of its cells before anything is
//! answered. Nearest queries are counted again with every circle.

use shoal_engine::layout::Part;
use shoal_engine::{CycleInput, EngineError, Projection, Query, QueryKind};

use super::nearest::enough;
use super::stage::QueryStage;
use crate::launch::{CopyTarget, QueryInput, ViewArgument, fault};
use crate::stages::dispatch::staging::Staged;
use crate::stages::query::batch::QueryBatch;

/// Positions that a device tests per unit of the engine's work; the unit is scaled to two cores of
/// a processor. A conservative guess.
const POSITIONS_EACH: u64 = 16;
/// Work of finding one object by its id.
const GET_WORK: u64 = 8;
/// Work of sorting one match and copying its id to the host, and of copying its record: mostly work
/// of the host.
const ID_WORK: u64 = POSITIONS_EACH;
const RECORD_WORK: u64 = 8 * POSITIONS_EACH;
/// Work of ranking one match of a nearest query.
const RANK_WORK: u64 = 8;
/// Work of the host for one circle of a nearest query.
pub(crate) const CIRCLE_ROUND_WORK: u64 = 1_024;
/// Number of rounds whose work is charged when a nearest query is admitted. Most queries need no
/// more.
pub(crate) const ROUNDS_COUNTED: u32 = 4;

/// The remaining work of each group of queries, and the work used by each query.
#[derive(Debug)]
pub(crate) struct QueryWork {
    /// The initial work of all groups together.
    most: u64,
    left: Vec<u64>,
    /// Ends of the groups.
    ends: Vec<u32>,
    /// By query.
    used: Vec<u64>,
    /// By query: whether it is left to the caller.
    is_unfinished: Vec<bool>,
}

impl QueryWork {
    /// The work of a cycle's queries, if it has a bound.
    pub(crate) fn of(input: &CycleInput) -> Option<Self> {
        let work_max = input.query_work_max?;
        Some(Self::new(work_max, &input.query_groups, input.queries.len()))
    }

    /// Equal shares for the groups with these ends, one share without groups.
    fn new(work_max: u64, ends: &[u32], queries: usize) -> Self {
        let most = work_max.saturating_mul(POSITIONS_EACH);
        let groups = ends.len().max(1);
        let left = vec![most / groups as u64; groups];
        let (ends, used) = (ends.to_vec(), vec![0; queries]);
        Self { most, left, ends, used, is_unfinished: vec![false; queries] }
    }

    /// Takes the work of a query from its group's share; returns false and takes nothing if the
    /// share is too small.
    fn take(&mut self, query: u32, work: u64) -> bool {
        let group = self.ends.partition_point(|end| *end <= query);
        let place = group.min(self.left.len() - 1);
        let Some(left) = self.left[place].checked_sub(work) else { return false };
        self.left[place] = left;
        self.used[query as usize] += work;
        true
    }

    /// Merges the unused shares of all groups into one share for all queries.
    fn share_rest(&mut self) {
        self.left = vec![self.left.iter().fold(0, |sum, left| sum.saturating_add(*left))];
        self.ends.clear();
    }

    /// Admits the queries whose work, listed in `needed`, fits: first into the share of their
    /// group, then into the rest that all groups left.
    fn admit(&mut self, needed: &[u64]) {
        let all = (0..).zip(needed).filter(|(query, work)| !self.take(*query, **work));
        let later: Vec<(u32, &u64)> = all.collect();
        self.share_rest();
        for (query, work) in later {
            if !self.take(query, *work) {
                self.refuse(query, *work);
            }
        }
    }

    /// Takes more work of a query; refuses it if there is not enough.
    pub(crate) fn take_more(&mut self, query: u32, work: u64) -> bool {
        let is_taken = self.take(query, work);
        if !is_taken {
            self.refuse(query, work);
        }
        is_taken
    }

    /// Takes the work of the rows that range queries have matched; `bounds` has the first of each.
    /// Rows in `withheld` are not written. Refuses the queries for which there is not enough: their
    /// rows are withheld too. Returns whether it refuses one.
    pub(crate) fn take_rows(
        &mut self,
        queries: &[Query],
        bounds: &[u64],
        withheld: &mut [u64],
    ) -> bool {
        let mut refuses = false;
        for (number, query) in (0..).zip(queries) {
            let place = number as usize;
            let rows = bounds[place + 1] - bounds[place];
            let written = rows - withheld[place];
            if written > 0 && !self.take_more(number, row_work(query).saturating_mul(written)) {
                withheld[place] = rows;
                refuses = true;
            }
        }
        refuses
    }

    fn refuse(&mut self, query: u32, work: u64) {
        self.is_unfinished[query as usize] = true;
        // The caller charges clients for the used work, so it is limited to the work of a whole
        // cycle.
        let used = &mut self.used[query as usize];
        *used = used.saturating_add(work).min(self.most);
    }

    pub(crate) fn is_unfinished(&self, query: u32) -> bool {
        self.is_unfinished[query as usize]
    }

    /// The work that is left in all shares together.
    pub(crate) fn left(&self) -> u64 {
        self.left.iter().fold(0, |sum, left| sum.saturating_add(*left))
    }

    /// The unfinished queries and the work of each, in the engine's unit.
    pub(crate) fn into_parts(self) -> (Vec<u32>, Vec<u64>) {
        let unfinished =
            (0..).zip(&self.is_unfinished).filter(|(_, is_unfinished)| **is_unfinished);
        let unfinished = unfinished.map(|(query, _)| query).collect();
        // All refused queries together are charged for one cycle at most.
        let mut rest = self.most;
        let used = self.used.iter().zip(&self.is_unfinished).map(|(used, is_unfinished)| {
            let charged = if *is_unfinished { (*used).min(rest) } else { *used };
            rest -= if *is_unfinished { charged } else { 0 };
            charged.div_ceil(POSITIONS_EACH)
        });
        let used = used.collect();
        (unfinished, used)
    }
}

/// The initial work of a query without parts.
fn first_work(query: &Query) -> u64 {
    match &query.kind {
        QueryKind::Get(objects) => GET_WORK * objects.len() as u64,
        QueryKind::Nearest { k, .. } => {
            let k = u64::from(*k);
            u64::from(ROUNDS_COUNTED) * CIRCLE_ROUND_WORK + ranking_work(k, enough(k))
        }
        QueryKind::Range(_) => 0,
    }
}

/// Work of one row of an answer.
fn row_work(query: &Query) -> u64 {
    match query.projection {
        Projection::Count => 0,
        Projection::Ids => ID_WORK,
        Projection::Fixes => RECORD_WORK,
    }
}

/// Work of ranking this number of matches of a nearest query.
pub(crate) fn ranking_work(k: u64, matches: u64) -> u64 {
    RANK_WORK * matches + RECORD_WORK * k.min(matches)
}

impl QueryStage {
    /// Admits the queries for which there is work; the others lose their parts.
    pub(crate) fn admit_queries(
        &mut self,
        staged: &mut Staged,
        view: &ViewArgument,
    ) -> Result<(), EngineError> {
        let Some(mut work) = staged.work.take() else { return Ok(()) };
        let queries = staged.queries.len();
        let mut needed: Vec<u64> = staged.queries.iter().map(first_work).collect();
        let stream = self.batch.stream.clone();
        if staged.query_ranges.parts.length > 0 {
            let mut found = self.bounds.take(queries)?;
            let input = staged.query_input();
            self.batch.work(view, input, self.objects, found.target())?;
            stream.synchronize().map_err(fault)?;
            needed.iter_mut().zip(found.as_ref()).for_each(|(needed, found)| *needed += found);
        }
        work.admit(&needed);
        if work.is_unfinished.contains(&true) {
            staged.retain_parts(&stream, |part: &Part| !work.is_unfinished(part.query))?;
        }
        staged.work = Some(work);
        Ok(())
    }
}

impl QueryBatch {
    /// The work of the parts of every query, for a fleet of `objects` objects. Complete once the
    /// stream has reached this point.
    pub(crate) fn work(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
        objects: u64,
        work: CopyTarget<'_, u64>,
    ) -> Result<(), EngineError> {
        self.work.fit(input.ranges.queries)?;
        self.work.fill(&self.stream, 0, input.ranges.queries)?;
        self.kernels.query_work(&self.stream, view, input, objects, &self.work)?;
        self.work.download(&self.stream, 0, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_shares_and_then_the_rest() {
        let units = |positions: u64| positions * POSITIONS_EACH;
        // Two groups of 100: the first needs 130, the second 60.
        let mut work = QueryWork::new(200, &[3, 4], 4);
        work.admit(&[units(60), units(50), units(20), units(60)]);
        // The first group leaves 20, the second 40: the second query finds its 50 in the rest.
        assert_eq!(work.left(), units(10));
        assert!(!work.take_more(3, units(11)) && work.take_more(0, units(10)));
        let (unfinished, used) = work.into_parts();
        assert_eq!((unfinished, used), (vec![3], vec![70, 50, 20, 71]));
    }

    #[test]
    fn rows_that_are_written_take_work() {
        let query = |projection| Query {
            kind: QueryKind::Get(Vec::new()),
            filter: None,
            projection,
            limit: None,
        };
        let queries = [Projection::Ids, Projection::Fixes, Projection::Count, Projection::Ids];
        let queries = queries.map(query);
        // 100 ids and 10 records; the ids of the last query are withheld by its limit.
        let (bounds, mut withheld) = ([0, 100, 110, 150, 250], [0, 0, 0, 100]);
        let mut work = QueryWork::new(190, &[], 4);
        assert!(!work.take_rows(&queries, &bounds, &mut withheld));
        assert_eq!((withheld, work.left()), ([0, 0, 0, 100], 10 * POSITIONS_EACH));
        assert!(work.take_rows(&queries, &bounds, &mut withheld));
        assert_eq!(withheld, [100, 10, 0, 100]);
        assert_eq!(work.into_parts().0, [0, 1]);
    }

    #[test]
    fn refused_queries_are_charged_for_one_cycle_at_most() {
        let mut work = QueryWork::new(100, &[], 4);
        work.admit(&[u64::MAX, 1_600, u64::MAX, 1]);
        let (unfinished, used) = work.into_parts();
        assert_eq!((unfinished, used), (vec![0, 2, 3], vec![100, 100, 0, 0]));
    }
}
