//! Lists the parts of a cycle's queries on several threads.
//!
//! A range query has the parts of its region (`state/shapes.rs`). Gets and nearest queries have
//! their number but no part.

use rayon::prelude::*;
use shoal_engine::layout::{PART_COUNT, Part, Shape};
use shoal_engine::{EngineError, Projection, Query, QueryKind, Region, RowLimit};

use crate::launch::{Memory, PinnedBuffer};
use crate::stages::workers::in_parallel;
use crate::state::shapes::{Shapes, part};

/// Queries of one chunk of the work.
const CHUNK: usize = 1 << 11;
/// Least number of queries for several threads.
const MANY: usize = 1 << 15;

/// The queries of a cycle, in consecutive chunks.
#[derive(Debug, Default)]
pub(crate) struct QueryParts {
    /// The chunks in use are first; later cycles reuse the allocations of all.
    chunks: Vec<Shapes>,
    used: usize,
    /// Parts of all queries.
    pub(crate) parts: usize,
    /// Written in place of shape number 0, which means no test.
    pub(crate) no_shape: [Shape; 1],
    /// By query: the limit of its rows; empty if no query has one.
    pub(crate) limits: Vec<Option<RowLimit>>,
    /// True if all queries are ranges that request ids: the host then builds no answers.
    pub(crate) are_plain: bool,
}

/// The parts of a chunk of queries.
#[derive(Clone, Copy, Debug)]
struct Listed {
    parts: usize,
    are_plain: bool,
    are_limited: bool,
}

impl QueryParts {
    /// Checks a cycle's queries and lists them, their parts in `parts`; gets and nearest queries
    /// have none.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    pub(crate) fn list(
        &mut self,
        memory: &Memory,
        queries: &[Query],
        parts: &mut PinnedBuffer<Part>,
    ) -> Result<(), EngineError> {
        self.used = queries.len().div_ceil(CHUNK);
        if self.chunks.len() < self.used {
            self.chunks.resize_with(self.used, Shapes::default);
        }
        parts.fit(memory, queries.len())?;
        // Most regions have one part, so chunks are first listed with a capacity of one part per
        // query. If the parts of a chunk differ from that, all chunks are listed again with exact
        // capacities.
        let mut capacities: Vec<usize> = queries.chunks(CHUNK).map(<[Query]>::len).collect();
        let mut listed = self.list_into(queries, parts.as_mut_slice(), &capacities)?;
        if listed.iter().zip(&capacities).any(|(listed, capacity)| listed.parts != *capacity) {
            capacities = listed.iter().map(|listed| listed.parts).collect();
            parts.fit(memory, capacities.iter().sum())?;
            listed = self.list_into(queries, parts.as_mut_slice(), &capacities)?;
        }
        self.parts = capacities.iter().sum();
        self.shift(parts.as_mut_slice(), &capacities);
        self.are_plain = listed.iter().all(|listed| listed.are_plain);
        self.limits.clear();
        if listed.iter().any(|listed| listed.are_limited) {
            self.limits.extend(queries.iter().map(|query| query.limit));
        }
        Ok(())
    }

    /// Lists all chunks, each with its capacity in parts; parts beyond it are only counted.
    fn list_into(
        &mut self,
        queries: &[Query],
        parts: &mut [Part],
        capacities: &[usize],
    ) -> Result<Vec<Listed>, EngineError> {
        let places = split(parts, capacities);
        let chunks = self.chunks[..self.used].iter_mut();
        let work = chunks.zip(places).zip(queries.chunks(CHUNK)).enumerate();
        let work: Vec<_> = work.collect();
        let list = |(chunk, ((shapes, parts), queries)): (usize, ((&mut Shapes, _), &[Query]))| {
            shapes.list(chunk, queries, parts)
        };
        if queries.len() < MANY {
            work.into_iter().map(list).collect()
        } else {
            in_parallel(|| work.into_par_iter().map(list).collect())
        }
    }

    /// Adds to the indexes in each chunk the lengths of the lists of all chunks before it.
    fn shift(&mut self, parts: &mut [Part], capacities: &[usize]) {
        let mut base = Base::default();
        for (shapes, parts) in self.chunks[..self.used].iter_mut().zip(split(parts, capacities)) {
            let next = base.after(shapes);
            shapes.shift(base, parts);
            base = next;
        }
    }

    /// The shapes of the chunks in use.
    pub(crate) fn chunks(&self) -> &[Shapes] {
        &self.chunks[..self.used]
    }
}

/// Consecutive ranges of these lengths.
fn split<'a>(mut parts: &'a mut [Part], lengths: &[usize]) -> Vec<&'a mut [Part]> {
    let mut ranges = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (range, rest) = parts.split_at_mut(*length);
        ranges.push(range);
        parts = rest;
    }
    ranges
}

/// The lengths of the lists of all chunks before one.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    shapes: u32,
    slabs: u32,
    edges: u32,
}

impl Base {
    fn after(self, before: &Shapes) -> Self {
        Self {
            shapes: self.shapes + before.shapes.len() as u32,
            slabs: self.slabs + before.slabs.len() as u32,
            edges: self.edges + before.edges.len() as u32,
        }
    }
}

impl Shapes {
    /// Lists a chunk, its parts in `parts` up to its capacity.
    fn list(
        &mut self,
        chunk: usize,
        queries: &[Query],
        parts: &mut [Part],
    ) -> Result<Listed, EngineError> {
        self.shapes.clear();
        self.slabs.clear();
        self.edges.clear();
        let mut listed = Listed { parts: 0, are_plain: true, are_limited: false };
        for (query, number) in queries.iter().zip((chunk * CHUNK) as u32..) {
            query.check()?;
            listed.are_limited |= query.limit.is_some();
            if let QueryKind::Range(region) = &query.kind {
                listed.are_plain &= query.projection == Projection::Ids;
                // The common query: a window of one rectangle.
                if let Region::Rectangle(rectangle) = region
                    && let [rect] = rectangle.as_slice()
                    && query.filter.is_none()
                    && query.projection != Projection::Count
                {
                    if let Some(place) = parts.get_mut(listed.parts) {
                        *place = part(rect, number, 0);
                    }
                    listed.parts += 1;
                    continue;
                }
                let count = query.projection == Projection::Count;
                for part in self.parts_of(number, region, query.filter.as_deref(), count) {
                    if let Some(place) = parts.get_mut(listed.parts) {
                        *place = part;
                    }
                    listed.parts += 1;
                }
            } else {
                listed.are_plain = false;
            }
        }
        Ok(listed)
    }

    /// Adds `base` to the indexes in its shapes and parts.
    fn shift(&mut self, base: Base, parts: &mut [Part]) {
        if base.shapes > 0 && !self.shapes.is_empty() {
            for part in parts.iter_mut().filter(|part| part.shape & !PART_COUNT != 0) {
                part.shape += base.shapes;
            }
        }
        for shape in &mut self.shapes {
            shape.slabs_at += base.slabs;
            shape.edges_at += base.edges;
        }
    }
}
