//! Builds answers of every kind from the device's results.
//!
//! Ids of ranges arrive sorted by id, and neighbours sorted by rank (`nearest.rs`). Gets arrive as
//! records, from which the engine's filter selects.

use shoal_codec::FixRow;
use shoal_engine::layout::Part;
use shoal_engine::query::{AnswerHead, AnswerPage};
use shoal_engine::{AnswerSet, EngineError, Projection, Query, QueryKind, Space};

use crate::launch::{DeviceBuffer, IndexArgument, QueryInput, QueryRanges, ViewArgument, fault};
use crate::stages::dispatch::packing::Packing;
use crate::stages::dispatch::staging::{Staged, distinct};
use crate::stages::query::batch::{QueryBatch, Sorted};
use crate::stages::query::nearest::Neighbours;
use crate::stages::query::work::QueryWork;
use crate::state::record::row;
use crate::state::shapes::Shapes;

/// The inputs of answers.
pub(crate) struct AnswerBuilder<'a> {
    pub(crate) space: &'a Space,
    pub(crate) query_batch: &'a mut QueryBatch,
    pub(crate) sorted: &'a mut Sorted,
    pub(crate) view: ViewArgument,
    pub(crate) index: IndexArgument,
    pub(crate) clock_ms: i64,
    /// Number of objects of the fleet, for an initial estimate of distances.
    pub(crate) objects: u64,
    /// The work of the queries, if it has a bound.
    pub(crate) work: Option<QueryWork>,
}

impl AnswerBuilder<'_> {
    /// True if a query exceeds the bound of its work, so that the caller must answer it.
    pub(crate) fn leaves(&self, query: u32) -> bool {
        self.work.as_ref().is_some_and(|work| work.is_unfinished(query))
    }

    /// Builds the answers of a cycle whose matches are counted. `bounds` has the first match of
    /// each query; `totals` has the totals of answers without rows: of queries that only count, and
    /// of withheld answers.
    pub(crate) fn make(
        &mut self,
        staged: &Staged,
        bounds: &[u64],
        totals: &[u64],
    ) -> Result<AnswerSet, EngineError> {
        let mut page = AnswerPage::default();
        let matches = bounds.last().copied().unwrap_or(0) as usize;
        let (mut objects, mut fixes) = (Vec::new(), Vec::new());
        if matches > 0 {
            let input = staged.query_input();
            self.query_batch.write(&self.view, input, matches, self.sorted)?;
            let is_range = |query: &&Query| matches!(query.kind, QueryKind::Range(_));
            let wants_fixes = |query: &Query| query.projection == Projection::Fixes;
            if staged.queries.iter().filter(is_range).any(wants_fixes) {
                fixes = self.query_batch.fixes(&self.view, self.sorted, matches)?;
            }
            objects = self.query_batch.take_objects(self.sorted, matches)?;
        }
        let mut found = Vec::new();
        if staged.gets.length > 0 {
            let input = &staged.arena.device;
            found = self.query_batch.get(&self.view, &self.index, input, staged.gets)?;
        }
        let neighbours = self.nearest(&staged.queries)?;
        let (mut next_get, mut next_nearest) = (0, neighbours.bounds.windows(2));
        for (number, query) in staged.queries.iter().enumerate() {
            match &query.kind {
                QueryKind::Range(_) => {
                    let range = bounds[number] as usize..bounds[number + 1] as usize;
                    let total = totals[number] + range.len() as u64;
                    let rows = fixes.get(range.clone()).unwrap_or(&[]).iter().map(row);
                    append(&mut page, query, total, &objects[range], rows);
                }
                QueryKind::Get(wanted) => {
                    let count = distinct(wanted).len();
                    let rows = found[next_get..next_get + count].iter().filter(|it| it.found != 0);
                    next_get += count;
                    let is_left = self.leaves(number as u32);
                    let rows =
                        rows.map(row).filter(|row| !is_left && query.passes(row, self.clock_ms));
                    append_rows(&mut page, query, &rows.collect::<Vec<_>>());
                }
                QueryKind::Nearest { .. } => {
                    let bounds = next_nearest.next().map_or([0, 0], |it| [it[0], it[1]]);
                    append_nearest(&mut page, query, &neighbours, bounds);
                }
            }
        }
        let places = (0..staged.queries.len() as u32).map(|head| (0, head)).collect();
        Ok(AnswerSet::new(vec![page], places))
    }
}

/// Queries that are not those of a cycle, on the device.
pub(crate) struct UploadedQueries {
    bytes: DeviceBuffer<u8>,
    ranges: QueryRanges,
}

impl UploadedQueries {
    pub(crate) fn input(&self) -> QueryInput<'_> {
        QueryInput { bytes: &self.bytes, ranges: &self.ranges }
    }
}

/// Uploads queries that are not part of a cycle's input.
pub(crate) fn upload(
    query_batch: &QueryBatch,
    parts: &[Part],
    queries: usize,
    shapes: &Shapes,
) -> Result<UploadedQueries, EngineError> {
    let mut packing = Packing::default();
    let ranges = QueryRanges {
        queries,
        parts: packing.push(parts),
        shapes: packing.push(&shapes.shapes),
        slabs: packing.push(&shapes.slabs),
        edges: packing.push(&shapes.edges),
    };
    let mut packed = vec![0; packing.bytes];
    packing.copy(&mut packed);
    let bytes = DeviceBuffer::new(query_batch.memory(), packed.len())?;
    bytes.upload(&query_batch.stream, 0, &packed)?;
    query_batch.stream.synchronize().map_err(fault)?;
    Ok(UploadedQueries { bytes, ranges })
}

/// Appends an answer with this total: its ids, unless only counted, and its rows with
/// [`Projection::Fixes`]. If the answer returns no row, `rows` may be empty.
fn append(
    page: &mut AnswerPage,
    query: &Query,
    total: u64,
    objects: &[u64],
    rows: impl Iterator<Item = FixRow>,
) {
    let mut head = AnswerHead { total, ..AnswerHead::default() };
    let returned = query.returned(total as usize);
    head.objects.0 = page.objects.len();
    head.fixes.0 = page.fixes.len();
    if query.projection != Projection::Count {
        page.objects.extend_from_slice(&objects[..returned]);
        head.truncated = (returned as u64) < total;
    }
    if query.projection == Projection::Fixes {
        page.fixes.extend(rows.take(returned));
    }
    head.objects.1 = page.objects.len();
    head.fixes.1 = page.fixes.len();
    page.heads.push(head);
}

fn append_rows(page: &mut AnswerPage, query: &Query, rows: &[FixRow]) {
    let objects: Vec<u64> = rows.iter().map(|row| row.object).collect();
    append(page, query, rows.len() as u64, &objects, rows.iter().copied());
}

fn append_nearest(
    page: &mut AnswerPage,
    query: &Query,
    neighbours: &Neighbours,
    [first, end]: [u64; 2],
) {
    let range = first as usize..end as usize;
    let rows: Vec<FixRow> = neighbours.fixes[range.clone()].iter().map(row).collect();
    let first = page.ranks.len();
    if query.projection != Projection::Count {
        page.ranks.extend(&neighbours.ranks[range][..query.returned(rows.len())]);
    }
    append_rows(page, query, &rows);
    if let Some(head) = page.heads.last_mut() {
        head.ranks = (first, page.ranks.len());
    }
}
