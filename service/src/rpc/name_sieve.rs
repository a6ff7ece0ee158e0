//! Queries of objects whose names match a pattern.
//!
//! The engine knows numbers only. A range query asks for all objects of the region, whose names are
//! tested afterwards. If there are too many, the names of the fleet are searched first: for few
//! matches the engine is asked for these objects, and their positions are tested. A nearest query
//! asks for the most neighbours that the engine returns; if too few of them match, it proceeds in
//! the same way. All queries of a request are asked again together, so that they see one epoch.

use shoal_codec::FixRow;
use shoal_engine::limits::{GET_OBJECTS_MAX, NEAREST_MAX};
use shoal_engine::query::{AnswerHead, AnswerPage};
use shoal_engine::{Answer, Circle, Projection, Query, QueryKind, Ranker, Region, RowLimit, Space};

use super::name_filter::{FoundNames, NameFilter};
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::JobAnswers;
use crate::shares::Requester;

/// Objects of a region that are tested by name before the names of the fleet are searched.
const TESTED_MAX: u64 = 1 << 16;

/// How often the members are asked for, while names are added that match.
const ATTEMPTS_MAX: u32 = 4;

/// How one query is asked and its answer made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The engine answers alone: the objects of the query match.
    Exact,
    /// The engine answers without the pattern; at most [`TESTED_MAX`] objects of a region.
    Probe,
    /// The engine is asked for all objects that match, whose positions are tested.
    Members,
    /// As [`Way::Probe`] for any number of objects.
    All,
}

/// The queries of a request and how they are asked.
#[derive(Debug)]
pub(super) struct NameSieve {
    filter: NameFilter,
    space: Space,
    queries: Vec<(Query, Way)>,
    /// The objects that match, as far as the names are searched.
    members: FoundNames,
    /// How often queries were asked for the members.
    attempts: u32,
}

impl NameSieve {
    pub(super) fn new(filter: NameFilter, space: &Space, queries: Vec<Query>) -> Self {
        let way = |query: &Query| match query.kind {
            QueryKind::Get(_) => Way::Exact,
            QueryKind::Range(_) | QueryKind::Nearest { .. } => Way::Probe,
        };
        let queries = queries.into_iter().map(|query| (way(&query), query));
        let queries = queries.map(|(way, query)| (query, way)).collect();
        Self { filter, space: *space, queries, members: FoundNames::default(), attempts: 0 }
    }

    /// The queries for the engine.
    pub(super) fn asked(&self) -> Vec<Query> {
        self.queries.iter().map(|(query, way)| self.asked_one(query, *way)).collect()
    }

    fn asked_one(&self, query: &Query, way: Way) -> Query {
        let with_rows = |projection| match projection {
            Projection::Count => Projection::Ids,
            projection => projection,
        };
        let asked = Query { projection: with_rows(query.projection), limit: None, ..query.clone() };
        match (way, &query.kind) {
            (Way::Exact, _) => query.clone(),
            (Way::Probe, QueryKind::Nearest { x, y, rank_max, .. }) => {
                let (x, y, k, rank_max) = (*x, *y, NEAREST_MAX as u32, *rank_max);
                Query { kind: QueryKind::Nearest { x, y, k, rank_max }, ..asked }
            }
            (Way::Probe, _) => Query { limit: Some(RowLimit::AllOrNone(TESTED_MAX)), ..asked },
            (Way::Members, _) => {
                let objects = self.members.objects.clone();
                Query { kind: QueryKind::Get(objects), projection: Projection::Fixes, ..asked }
            }
            (Way::All, QueryKind::Nearest { x, y, rank_max, .. }) => {
                let circle = Circle::reaching(&self.space, &self.ranker(*x, *y), *rank_max);
                let kind = QueryKind::Range(Region::Circle(Box::new(circle)));
                Query { kind, projection: Projection::Fixes, ..asked }
            }
            (Way::All, _) => asked,
        }
    }

    fn ranker(&self, x: i32, y: i32) -> Ranker {
        Ranker::new(&self.space, x, y)
    }

    /// Makes the answers to the queries from what the engine answered; `None` if some must be asked
    /// in another way, which the next call of [`NameSieve::asked`] gives.
    pub(super) async fn answers(
        &mut self,
        context: &ServiceContext,
        client: Requester,
        answered: &JobAnswers,
    ) -> Result<Option<AnswerPage>, ServiceError> {
        let mut page = AnswerPage::default();
        let mut open = Vec::new();
        {
            let names = self.filter.reader();
            for (at, ((query, way), answer)) in self.queries.iter().zip(answered.iter()).enumerate()
            {
                let found = Found::of(&answer);
                let is_match = |row: &Row| names.matches(row.object);
                let found = match (way, &query.kind) {
                    (Way::Exact, _) => {
                        page.add(&answer);
                        continue;
                    }
                    (Way::Probe, QueryKind::Range(_)) if answer.total > TESTED_MAX => {
                        open.push(at);
                        continue;
                    }
                    (Way::Probe | Way::All, QueryKind::Range(_)) => {
                        found.filter(is_match).collect()
                    }
                    (Way::Probe, QueryKind::Nearest { k, .. }) => {
                        let rows: Vec<_> = found.filter(is_match).take(*k as usize).collect();
                        if rows.len() < *k as usize && answer.total >= NEAREST_MAX as u64 {
                            open.push(at);
                        }
                        rows
                    }
                    (Way::Members, QueryKind::Range(region)) => {
                        found.filter(|row| row.lies_in(region)).collect()
                    }
                    (Way::Members | Way::All, QueryKind::Nearest { x, y, k, rank_max }) => {
                        let ranker = self.ranker(*x, *y);
                        let mut rows: Vec<_> = found
                            .filter(is_match)
                            .filter_map(|row| row.ranked(&ranker))
                            .filter(|row| row.rank.is_some_and(|rank| rank <= *rank_max))
                            .collect();
                        rows.sort_unstable_by_key(|row| (row.rank, row.object));
                        rows.truncate(*k as usize);
                        rows
                    }
                    (_, QueryKind::Get(_)) => Vec::new(),
                };
                page.add_rows(query, &found);
            }
        }
        // Names that were added since the search may be in the answer.
        let by_members = |(_, way): &(Query, Way)| *way == Way::Members;
        let asks_members = self.queries.iter().any(by_members);
        if open.is_empty() && !asks_members {
            return Ok(Some(page));
        }
        let known = self.members.objects.len();
        let members = std::mem::take(&mut self.members);
        self.members = self.filter.search(context, client, members, GET_OBJECTS_MAX).await?;
        let count = self.members.objects.len();
        if open.is_empty() && count == known {
            return Ok(Some(page));
        }
        self.attempts += 1;
        let are_few = count <= GET_OBJECTS_MAX && self.attempts <= ATTEMPTS_MAX;
        let way = if are_few { Way::Members } else { Way::All };
        for (at, query) in self.queries.iter_mut().enumerate() {
            if open.contains(&at) || by_members(query) {
                query.1 = way;
            }
        }
        Ok(None)
    }
}

/// A row of an answer.
#[derive(Clone, Copy)]
struct Row<'a> {
    object: u64,
    fix: Option<&'a FixRow>,
    rank: Option<u64>,
}

impl Row<'_> {
    fn lies_in(&self, region: &Region) -> bool {
        self.fix.is_some_and(|fix| region.contains(fix.x, fix.y))
    }

    fn ranked(self, ranker: &Ranker) -> Option<Self> {
        let fix = self.fix?;
        Some(Self { rank: Some(ranker.rank(fix.x, fix.y)), ..self })
    }
}

/// The rows of an answer.
struct Found;

impl Found {
    fn of<'a>(answer: &Answer<'a>) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let Answer { objects, fixes, ranks, .. } = *answer;
        (0..objects.len()).map(move |at| Row {
            object: objects[at],
            fix: fixes.get(at),
            rank: ranks.get(at).copied(),
        })
    }
}

/// Collects answers.
trait Page {
    /// Adds an answer as it is.
    fn add(&mut self, answer: &Answer<'_>);
    /// Adds the answer to a query whose matches are these.
    fn add_rows(&mut self, query: &Query, found: &[Row<'_>]);
}

impl Page for AnswerPage {
    fn add(&mut self, answer: &Answer<'_>) {
        let place = |before: usize, rows: usize| (before, before + rows);
        self.heads.push(AnswerHead {
            total: answer.total,
            truncated: answer.truncated,
            objects: place(self.objects.len(), answer.objects.len()),
            fixes: place(self.fixes.len(), answer.fixes.len()),
            ranks: place(self.ranks.len(), answer.ranks.len()),
        });
        self.objects.extend_from_slice(answer.objects);
        self.fixes.extend_from_slice(answer.fixes);
        self.ranks.extend_from_slice(answer.ranks);
    }

    fn add_rows(&mut self, query: &Query, found: &[Row<'_>]) {
        let has_rows = query.projection != Projection::Count;
        let rows = if has_rows { &found[..query.returned(found.len())] } else { &[] };
        let with_fixes = query.projection == Projection::Fixes;
        let is_nearest = matches!(query.kind, QueryKind::Nearest { .. });
        let objects: Vec<u64> = rows.iter().map(|row| row.object).collect();
        let fixes = rows.iter().filter(|_| with_fixes).filter_map(|row| row.fix.copied());
        let ranks = rows.iter().filter(|_| is_nearest).filter_map(|row| row.rank);
        self.add(&Answer {
            total: found.len() as u64,
            truncated: has_rows && rows.len() < found.len(),
            objects: &objects,
            fixes: &fixes.collect::<Vec<_>>(),
            ranks: &ranks.collect::<Vec<_>>(),
        });
    }
}
