//! The load generator's workloads as arriving batches: fixes of a whole fleet, in time order.

use shoal_workload::Params;

use super::data_set::{Content, DataSet};
use crate::error::BenchmarkError;
use crate::harness::source::{Attributes, Source};

/// The workloads that need no file.
const NAMES: [&str; 4] = ["uniform", "gauss", "network", "hub"];

/// A number of rows of each workload, with speed and heading. The first reports of all objects are
/// skipped: they are the initial placement, not the stream.
pub(super) fn data_sets(
    objects: u64,
    rows: usize,
    seed: u64,
) -> impl Iterator<Item = Result<DataSet, BenchmarkError>> {
    NAMES.into_iter().map(move |name| {
        let params = Params { objects, seed, ..Params::default() };
        let mut source = Source::open(name, &params, Attributes::Motion)?;
        source.columns(objects as usize)?;
        let fixes = Box::new(source.columns(rows)?);
        let content = Content::Fixes(fixes, source.space().tag());
        Ok(DataSet { name: name.to_owned(), content })
    })
}
