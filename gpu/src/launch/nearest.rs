//! Launches that rank neighbours; part of stage query.
//!
//! One safe function per kernel.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{AnswerRecord, Shape};

use super::memory::DeviceBuffer;
use super::module::{Kernels, enqueue};

/// Matches of all queries, by query: their records, and the first match of each query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NearestRanking<'a> {
    pub(crate) fixes: &'a DeviceBuffer<AnswerRecord>,
    pub(crate) length: u32,
    pub(crate) bounds: &'a DeviceBuffer<u64>,
    pub(crate) queries: u32,
}

impl NearestRanking<'_> {
    fn check(&self) {
        assert!(self.fixes.len() >= self.length as usize, "a record a match");
        assert!(self.bounds.len() > self.queries as usize, "a bound a query and one more");
    }
}

impl Kernels {
    /// Writes the rank of each match from the centre of its query, and its place.
    pub(crate) fn nearest_rank(
        &self,
        stream: &CudaStream,
        centres: &DeviceBuffer<Shape>,
        of: NearestRanking<'_>,
        ranks: &DeviceBuffer<u64>,
        places: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        of.check();
        let NearestRanking { length, queries, .. } = of;
        assert!(centres.len() >= queries as usize, "a centre a query");
        assert!(ranks.len().min(places.len()) >= length as usize, "a rank a match");
        enqueue!(self.nearest_rank, stream, length; centres, of.bounds, queries, of.fixes, length,
            ranks, places)
    }

    /// Writes the query of the match at each of `places`.
    pub(crate) fn nearest_owners(
        &self,
        stream: &CudaStream,
        of: NearestRanking<'_>,
        places: &DeviceBuffer<u32>,
        owners: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        of.check();
        let NearestRanking { length, queries, .. } = of;
        assert!(places.len().min(owners.len()) >= length as usize, "an owner a match");
        enqueue!(self.nearest_owners, stream, length; of.bounds, queries, places, length, owners)
    }

    /// Writes the first matches of each query with their ranks, `taken` in all. `takes` has, for
    /// each query, the number taken by the queries before it.
    pub(crate) fn nearest_take(
        &self,
        stream: &CudaStream,
        of: NearestRanking<'_>,
        (takes, taken): (&DeviceBuffer<u64>, u32),
        (places, ranks): (&DeviceBuffer<u32>, &DeviceBuffer<u64>),
        (neighbours, neighbour_ranks): (&DeviceBuffer<AnswerRecord>, &DeviceBuffer<u64>),
    ) -> Result<(), EngineError> {
        of.check();
        let queries = of.queries;
        assert!(taken <= of.length, "at most all matches");
        assert!(takes.len() > queries as usize, "a sum a query and one more");
        assert!(places.len().min(ranks.len()) >= of.length as usize, "a rank a match");
        let shortest = neighbours.len().min(neighbour_ranks.len());
        assert!(shortest >= taken as usize, "capacity for every neighbour");
        enqueue!(self.nearest_take, stream, taken; of.bounds, takes, queries, places, of.fixes,
            ranks, taken, neighbours, neighbour_ranks)
    }
}
