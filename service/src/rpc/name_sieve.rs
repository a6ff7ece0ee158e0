//! Queries of objects whose names match a pattern.
//!
//! The engine knows numbers only. A range query asks for all objects of the region, whose names are
//! tested afterwards. If there are too many, the names of the fleet are searched first: for few
//! matches the engine is asked for these objects, and their positions are tested. A nearest query
//! asks for the most neighbours that the engine returns; if too few of them match, it proceeds in
//! the same way, and for many matches it asks for all objects of circles that grow. All queries of
//! a request are asked again together, so that they see one epoch.

use shoal_codec::FixRow;
use shoal_engine::limits::{GET_OBJECTS_MAX, NEAREST_MAX};
use shoal_engine::query::{AnswerHead, AnswerPage};
use shoal_engine::{Answer, Circle, Projection, Query, QueryKind, Ranker, Region, RowLimit, Space};

use super::name_filter::{FoundNames, NameFilter};
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::JobAnswers;
use crate::shares::Requester;

/// Objects of the regions of a request that are tested by name before the names of the fleet are
/// searched, divided among its queries.
const TESTED_MAX: u64 = 1 << 16;
/// Objects of one region that are tested at least.
const TESTED_MIN: u64 = 256;
/// Objects that match, times the queries for which their positions are tested.
const MEMBERS_TESTED_MAX: usize = 1 << 20;
/// How often the members are asked for, while names are added that match.
const ATTEMPTS_MAX: u32 = 4;

/// How one query is asked and its answer made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The engine answers alone: the objects of the query match.
    Exact,
    /// The engine answers without the pattern, for a bounded number of objects.
    Probe,
    /// The positions of all objects that match are tested. Has the rank of the farthest neighbour
    /// that was tested by name, for a nearest query.
    Members(u64),
    /// As [`Way::Probe`] for any number of objects of a region.
    All,
    /// All objects of a circle of this rank around the point are ranked.
    Around(u64),
}

/// The queries of a request and how they are asked.
#[derive(Debug)]
pub(super) struct NameSieve {
    filter: NameFilter,
    space: Space,
    queries: Vec<(Query, Way)>,
    /// The objects that match, as far as the names are searched.
    members: FoundNames,
    attempts: u32,
}

impl Way {
    fn asks_members(self) -> bool {
        matches!(self, Self::Members(_))
    }
}

/// Asks for the objects at up to twice the distance of a rank, and at least a metre.
fn farther(space: &Space, rank: u64, rank_max: u64) -> Way {
    let distance_m = (2.0 * space.distance_m(rank)).max(1.0);
    Way::Around(space.rank_within(distance_m).max(rank.saturating_add(1)).min(rank_max))
}

/// What an engine's answer is worth.
#[derive(Debug)]
pub(super) enum Sieved {
    /// The answers.
    Whole(AnswerPage),
    /// Some queries must be asked in another way; the names must be searched before if this is
    /// true.
    Again { needs_search: bool },
}

/// The rows of an engine's answer that are rows of the answer to a query.
#[derive(Debug, Default)]
struct Picked {
    rows: Vec<u32>,
    /// Their ranks, if the engine's answer has none.
    ranks: Option<Vec<u64>>,
}

impl NameSieve {
    pub(super) fn new(filter: NameFilter, space: &Space, queries: Vec<Query>) -> Self {
        let way = |query: &Query| match query.kind {
            QueryKind::Get(_) => Way::Exact,
            QueryKind::Range(_) | QueryKind::Nearest { .. } => Way::Probe,
        };
        let queries = queries.into_iter().map(|query| (way(&query), query));
        let queries = queries.map(|(way, query)| (query, way)).collect();
        let members = FoundNames::default();
        Self { filter, space: *space, queries, members, attempts: 0 }
    }

    /// The queries for the engine, in the order of the request.
    pub(super) fn asked(&self) -> Vec<Query> {
        self.queries.iter().map(|(query, way)| self.asked_one(query, *way)).collect()
    }

    /// Objects that a probe of each query returns at most.
    fn probe_max(&self) -> u64 {
        (TESTED_MAX / self.queries.len().max(1) as u64).max(TESTED_MIN)
    }

    /// Neighbours that a probe of a nearest query asks for.
    fn neighbours(&self, k: u32) -> u32 {
        u64::from(k).max(self.probe_max()).min(NEAREST_MAX as u64) as u32
    }

    fn asked_one(&self, query: &Query, way: Way) -> Query {
        let projection = match query.projection {
            Projection::Count => Projection::Ids,
            projection => projection,
        };
        let asked = Query { projection, limit: None, ..query.clone() };
        match (way, &query.kind) {
            (Way::Exact, _) => query.clone(),
            (Way::Probe, QueryKind::Nearest { x, y, k, rank_max }) => {
                let (x, y, k, rank_max) = (*x, *y, self.neighbours(*k), *rank_max);
                Query { kind: QueryKind::Nearest { x, y, k, rank_max }, ..asked }
            }
            (Way::Probe, _) => {
                Query { limit: Some(RowLimit::AllOrNone(self.probe_max())), ..asked }
            }
            (Way::Members(_), _) => {
                let kind = QueryKind::Get(self.members.objects.clone());
                Query { kind, projection: Projection::Fixes, ..asked }
            }
            (Way::Around(rank), QueryKind::Nearest { x, y, .. }) => {
                let circle = Circle::reaching(&self.space, &self.ranker(*x, *y), rank);
                let kind = QueryKind::Range(Region::Circle(Box::new(circle)));
                Query { kind, projection: Projection::Fixes, ..asked }
            }
            (Way::Around(_) | Way::All, _) => asked,
        }
    }

    fn ranker(&self, x: i32, y: i32) -> Ranker {
        Ranker::new(&self.space, x, y)
    }

    /// Makes the answers to the queries from what the engine answered to [`NameSieve::asked`].
    pub(super) fn sieve(&mut self, answered: &JobAnswers) -> Sieved {
        let mut page = AnswerPage::default();
        let mut open = Vec::new();
        for (at, ((query, way), answer)) in self.queries.iter().zip(answered.iter()).enumerate() {
            match self.pick(query, *way, &answer) {
                Ok(None) => add(&mut page, &answer),
                Ok(Some(picked)) => add_picked(&mut page, query, &answer, &picked),
                Err(way) => open.push((at, way)),
            }
        }
        // The answer may have objects whose names were added after the search.
        let by_members = self.queries.iter().any(|(_, way)| way.asks_members());
        let has_new = by_members && self.filter.catch_up(&mut self.members, GET_OBJECTS_MAX);
        if open.is_empty() && !has_new {
            return Sieved::Whole(page);
        }
        self.attempts += u32::from(has_new);
        let needs_search = open.iter().any(|(_, way)| way.asks_members());
        open.into_iter().for_each(|(at, way)| self.queries[at].1 = way);
        self.settle_ways();
        Sieved::Again { needs_search }
    }

    /// Searches the names of the fleet.
    ///
    /// # Errors
    /// [`ServiceError::ShuttingDown`].
    pub(super) async fn search(
        &mut self,
        context: &ServiceContext,
        client: Requester,
    ) -> Result<(), ServiceError> {
        let members = std::mem::take(&mut self.members);
        self.members = self.filter.search(context, client, members, GET_OBJECTS_MAX).await?;
        self.settle_ways();
        Ok(())
    }

    /// Asks no more for the members if they are too many, or if names are added all the time.
    fn settle_ways(&mut self) {
        let members = self.members.objects.len();
        let asking = self.queries.iter().filter(|(_, way)| way.asks_members()).count();
        let are_few = members <= GET_OBJECTS_MAX && members * asking <= MEMBERS_TESTED_MAX;
        if are_few && self.attempts <= ATTEMPTS_MAX {
            return;
        }
        for (query, way) in &mut self.queries {
            if let Way::Members(reach) = *way {
                *way = match query.kind {
                    QueryKind::Nearest { rank_max, .. } => farther(&self.space, reach, rank_max),
                    QueryKind::Get(_) | QueryKind::Range(_) => Way::All,
                };
            }
        }
    }

    /// The rows of an answer that are those of the query; `None` for all. `Err` is another way to
    /// ask.
    fn pick(&self, query: &Query, way: Way, answer: &Answer<'_>) -> Result<Option<Picked>, Way> {
        let matching = || self.filter.matching(answer.objects);
        match (way, &query.kind) {
            (Way::Exact, _) | (_, QueryKind::Get(_)) => Ok(None),
            (Way::Probe, QueryKind::Range(_)) if answer.total > self.probe_max() => {
                Err(Way::Members(0))
            }
            (Way::Members(_), QueryKind::Range(region)) => {
                let is_inside = |fix: &FixRow| region.contains(fix.x, fix.y);
                let rows = (0..).zip(answer.fixes).filter(|(_, fix)| is_inside(fix));
                Ok(Some(Picked { rows: rows.map(|(row, _)| row).collect(), ranks: None }))
            }
            (_, QueryKind::Range(_)) => Ok(Some(Picked { rows: matching(), ranks: None })),
            (Way::Probe, QueryKind::Nearest { k, .. }) => {
                let mut rows = matching();
                rows.truncate(*k as usize);
                if rows.len() < *k as usize && answer.total >= u64::from(self.neighbours(*k)) {
                    return Err(Way::Members(answer.ranks.last().copied().unwrap_or(0)));
                }
                Ok(Some(Picked { rows, ranks: None }))
            }
            (_, QueryKind::Nearest { x, y, k, rank_max }) => {
                let ranker = self.ranker(*x, *y);
                let reach = if let Way::Around(reach) = way { reach } else { *rank_max };
                let mut ranked: Vec<(u64, u64, u32)> = matching()
                    .into_iter()
                    .filter_map(|row| {
                        let fix = answer.fixes.get(row as usize)?;
                        Some((ranker.rank(fix.x, fix.y), answer.objects[row as usize], row))
                    })
                    .filter(|(rank, ..)| *rank <= reach.min(*rank_max))
                    .collect();
                if ranked.len() < *k as usize && reach < *rank_max {
                    return Err(farther(&self.space, reach, *rank_max));
                }
                ranked.sort_unstable();
                ranked.truncate(*k as usize);
                let rows = ranked.iter().map(|(.., row)| *row).collect();
                let ranks = Some(ranked.into_iter().map(|(rank, ..)| rank).collect());
                Ok(Some(Picked { rows, ranks }))
            }
        }
    }
}

/// Adds an answer as it is.
fn add(page: &mut AnswerPage, answer: &Answer<'_>) {
    let place = |before: usize, rows: usize| (before, before + rows);
    page.heads.push(AnswerHead {
        total: answer.total,
        truncated: answer.truncated,
        objects: place(page.objects.len(), answer.objects.len()),
        fixes: place(page.fixes.len(), answer.fixes.len()),
        ranks: place(page.ranks.len(), answer.ranks.len()),
    });
    page.objects.extend_from_slice(answer.objects);
    page.fixes.extend_from_slice(answer.fixes);
    page.ranks.extend_from_slice(answer.ranks);
}

/// Adds the answer to a query whose rows are some of an answer.
fn add_picked(page: &mut AnswerPage, query: &Query, answer: &Answer<'_>, picked: &Picked) {
    let has_rows = query.projection != Projection::Count;
    let count = if has_rows { query.returned(picked.rows.len()) } else { 0 };
    let with_fixes = query.projection == Projection::Fixes;
    let with_ranks = matches!(query.kind, QueryKind::Nearest { .. });
    let [objects, fixes, ranks] = [page.objects.len(), page.fixes.len(), page.ranks.len()];
    for (place, row) in picked.rows[..count].iter().enumerate() {
        let row = *row as usize;
        page.objects.push(answer.objects[row]);
        if with_fixes {
            page.fixes.push(answer.fixes[row]);
        }
        if with_ranks {
            page.ranks
                .push(picked.ranks.as_ref().map_or_else(|| answer.ranks[row], |it| it[place]));
        }
    }
    page.heads.push(AnswerHead {
        total: picked.rows.len() as u64,
        truncated: has_rows && count < picked.rows.len(),
        objects: (objects, page.objects.len()),
        fixes: (fixes, page.fixes.len()),
        ranks: (ranks, page.ranks.len()),
    });
}
