//! The k nearest objects: circles that hold at least k and not many more, counted and ranked on the
//! device.
//!
//! An object outside a circle that holds k passing objects is farther than those k, so the answer
//! is complete, ties included. No circle exceeds the rank that its query allows. The host only
//! adjusts radii between counts.

use cudarc::driver::CudaStream;
use shoal_engine::layout::{AnswerRecord, Shape};
use shoal_engine::{Circle, EngineError, Filter, Query, QueryKind, Ranker, Region, Space};

use crate::launch::{CopyTarget, DeviceBuffer, Kernels, Memory, NearestRanking, Scratch, fault};
use crate::stages::query::answers::{AnswerBuilder, UploadedQueries, upload};
use crate::stages::query::batch::QueryBatch;
use crate::stages::query::work::{CIRCLE_ROUND_WORK, ROUNDS_COUNTED, ranking_work};
use crate::state::shapes::{Shapes, of_circle};

/// Least and greatest factor on the radius of a circle that holds too few objects.
const WIDER: (f64, f64) = (2.0, 8.0);
/// Greatest factor on the radius of a circle that holds far too many objects.
const NARROWER: f64 = 0.75;
/// Most work of one candidate of a circle; see `test_work` of the kernels.
const CIRCLE_WORK_MAX: u64 = 8;
/// Radii whose ratio is at most this count as equal.
const SAME: f64 = 1.0625;

/// The neighbours of all nearest queries, those of each ascending by (rank, object).
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    pub(crate) ranks: Vec<u64>,
    pub(crate) fixes: Vec<AnswerRecord>,
    /// By query its first neighbour, and the end.
    pub(crate) bounds: Vec<u64>,
}

/// The search of a circle for a nearest query.
struct Search<'a> {
    /// The number of the query.
    number: u32,
    ranker: Ranker,
    k: u64,
    /// Objects of a greater rank are not requested.
    rank_max: u64,
    filter: Option<&'a Filter>,
    radius_m: f64,
    /// [`Circle::bounded`].
    circle: Circle,
    /// The greatest radius that was too small; and the least radius that was large enough, with its
    /// circle.
    narrow_m: f64,
    wide: Option<(f64, Circle)>,
    /// Objects in the circle that is ranked.
    matches: u64,
    /// Circles so far.
    rounds: u32,
}

impl<'a> Search<'a> {
    /// The search of a nearest query, which begins with `first_radius_m`; `None` for other queries.
    fn new(
        space: &Space,
        (number, query): (u32, &'a Query),
        first_radius_m: impl Fn(u32) -> f64,
    ) -> Option<Self> {
        let QueryKind::Nearest { x, y, k, rank_max } = query.kind else { return None };
        let ranker = Ranker::new(space, x, y);
        let (radius_m, filter) = (first_radius_m(k), query.filter.as_deref());
        let circle = Circle::bounded(space, &ranker, radius_m, rank_max);
        let (k, narrow_m, wide, matches, rounds) = (u64::from(k), 0.0, None, 0, 0);
        let mut search = Self {
            number,
            ranker,
            k,
            rank_max,
            filter,
            radius_m,
            circle,
            narrow_m,
            wide,
            matches,
            rounds,
        };
        search.stay_within(space);
        Some(search)
    }

    /// Ends the search without neighbours; the caller answers the query.
    fn leave(&mut self) {
        self.k = 0;
    }

    /// Sets the circle to the current radius.
    fn draw(&mut self, space: &Space) {
        self.circle = Circle::bounded(space, &self.ranker, self.radius_m, self.rank_max);
        self.stay_within(space);
    }

    /// If the circle reaches the rank bound, limits the radius to that bound, so that it can
    /// shrink.
    fn stay_within(&mut self, space: &Space) {
        if self.is_widest() {
            self.radius_m = self.radius_m.min(space.distance_m(self.rank_max));
        }
    }

    /// Whether its circle holds every object that may be returned.
    fn is_widest(&self) -> bool {
        self.circle.rank_max() >= self.rank_max
    }

    /// Records the count of its circle; false when the search has ended. Radii that differ by less
    /// than `unit_m` are equal.
    fn continues(&mut self, total: u64, unit_m: f64) -> bool {
        let aim = (2.0 * self.k as f64 / total.max(1) as f64).sqrt();
        if total < self.k && !self.is_widest() {
            self.narrow_m = self.radius_m;
            self.radius_m *= aim.clamp(WIDER.0, WIDER.1);
        } else {
            self.wide = Some((self.radius_m, self.circle));
            self.matches = total;
            if total <= enough(self.k) {
                return false;
            }
            self.radius_m *= aim.min(NARROWER);
        }
        let Some((wide_m, _)) = self.wide else { return true };
        if self.radius_m <= self.narrow_m || self.radius_m >= wide_m {
            self.radius_m = (self.narrow_m.max(unit_m / 4.0) * wide_m).sqrt();
        }
        wide_m > self.narrow_m * SAME && wide_m - self.narrow_m > unit_m
    }
}

/// Uploads circles as queries.
fn upload_circles(
    query_batch: &QueryBatch,
    circles: &[(Circle, Option<&Filter>)],
    count: bool,
) -> Result<UploadedQueries, EngineError> {
    let (mut parts, mut shapes) = (Vec::new(), Shapes::default());
    for ((circle, filter), number) in circles.iter().zip(0..) {
        let region = Region::Circle(Box::new(*circle));
        parts.extend(shapes.parts_of(number, &region, *filter, count));
    }
    shapes.shapes.insert(0, Default::default());
    upload(query_batch, &parts, circles.len(), &shapes)
}

/// Matches up to which ranking costs less than another count. A guess.
pub(super) fn enough(k: u64) -> u64 {
    4 * k + 64
}

/// The lists of ranking; they grow, never shrink.
#[derive(Debug)]
pub(crate) struct Ranking {
    bounds: DeviceBuffer<u64>,
    takes: DeviceBuffer<u64>,
    centres: DeviceBuffer<Shape>,
    ranks: DeviceBuffer<u64>,
    sorted_ranks: DeviceBuffer<u64>,
    places: DeviceBuffer<u32>,
    by_rank: DeviceBuffer<u32>,
    owners: DeviceBuffer<u32>,
    sorted_owners: DeviceBuffer<u32>,
    neighbours: DeviceBuffer<AnswerRecord>,
    scratch: Scratch,
}

impl Ranking {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        let words = || DeviceBuffer::<u64>::new(memory, 1);
        let numbers = || DeviceBuffer::<u32>::new(memory, 1);
        Ok(Self {
            bounds: words()?,
            takes: words()?,
            centres: DeviceBuffer::new(memory, 1)?,
            ranks: words()?,
            sorted_ranks: words()?,
            places: numbers()?,
            by_rank: numbers()?,
            owners: numbers()?,
            sorted_owners: numbers()?,
            neighbours: DeviceBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    /// The first `ks[query]` matches of each query by rank. `bounds` has the ranges of the
    /// queries in `fixes`, where the matches of a query ascend by object. Waits.
    pub(crate) fn rank(
        &mut self,
        kernels: &Kernels,
        stream: &CudaStream,
        fixes: &DeviceBuffer<AnswerRecord>,
        bounds: &[u64],
        centres: &[Shape],
        ks: &[u64],
    ) -> Result<Neighbours, EngineError> {
        let mut takes = vec![0];
        for (bound, k) in bounds.windows(2).zip(ks) {
            takes.push(takes[takes.len() - 1] + k.min(&(bound[1] - bound[0])));
        }
        let (length, taken) = (bounds[ks.len()] as u32, takes[ks.len()] as usize);
        let (queries, matches) = (ks.len(), length as usize);
        self.fit(queries, matches, taken)?;
        self.bounds.upload(stream, 0, bounds)?;
        self.takes.upload(stream, 0, &takes)?;
        self.centres.upload(stream, 0, centres)?;
        let bounds = &self.bounds;
        let of = NearestRanking { fixes, length, bounds, queries: queries as u32 };
        kernels.nearest_rank(stream, &self.centres, of, &self.ranks, &self.places)?;
        // Sorts stably by rank, then stably by query, so the order is (query, rank, object).
        let (from, to) = ((&self.ranks, &self.places), (&self.sorted_ranks, &self.by_rank));
        self.scratch.sort_pairs(stream, from, to, length, u64::BITS)?;
        kernels.nearest_owners(stream, of, &self.by_rank, &self.owners)?;
        let from = (&self.owners, &self.by_rank);
        let to = (&self.sorted_owners, &self.places);
        let bits = u32::BITS - of.queries.leading_zeros();
        self.scratch.sort_pairs(stream, from, to, length, bits)?;
        let (sorted, ranked) = ((&self.places, &self.ranks), (&self.takes, taken as u32));
        let into = (&self.neighbours, &self.sorted_ranks);
        kernels.nearest_take(stream, of, ranked, sorted, into)?;
        let mut found = Neighbours {
            ranks: vec![0; taken],
            fixes: vec![AnswerRecord::default(); taken],
            bounds: takes,
        };
        self.sorted_ranks.download(stream, 0, &mut found.ranks)?;
        self.neighbours.download(stream, 0, &mut found.fixes)?;
        stream.synchronize().map_err(fault)?;
        Ok(found)
    }

    fn fit(&mut self, queries: usize, matches: usize, taken: usize) -> Result<(), EngineError> {
        self.bounds.fit(queries + 1)?;
        self.takes.fit(queries + 1)?;
        self.centres.fit(queries)?;
        self.ranks.fit(matches)?;
        self.sorted_ranks.fit(matches)?;
        self.places.fit(matches)?;
        self.by_rank.fit(matches)?;
        self.owners.fit(matches)?;
        self.sorted_owners.fit(matches)?;
        self.neighbours.fit(taken).map(drop)
    }

    /// Frees the memory that grows with matches.
    pub(crate) fn shrink(&mut self) -> Result<(), EngineError> {
        self.ranks.shrink()?;
        self.sorted_ranks.shrink()?;
        self.places.shrink()?;
        self.by_rank.shrink()?;
        self.owners.shrink()?;
        self.sorted_owners.shrink()?;
        self.neighbours.shrink()
    }
}

impl AnswerBuilder<'_> {
    /// The neighbours of all nearest queries.
    pub(crate) fn nearest(&mut self, queries: &[Query]) -> Result<Neighbours, EngineError> {
        let first_radius_m = |k| self.first_radius_m(k);
        let search = |query| Search::new(self.space, query, first_radius_m);
        let mut searches: Vec<Search<'_>> = (0..).zip(queries).filter_map(search).collect();
        searches.iter_mut().filter(|search| self.leaves(search.number)).for_each(Search::leave);
        if searches.is_empty() {
            return Ok(Neighbours::default());
        }
        let open = (0..searches.len()).filter(|at| searches[*at].k > 0).collect();
        self.settle_circles(&mut searches, open)?;
        self.admit_ranking(&mut searches);
        let circle = |search: &Search<'_>| search.wide.map_or(search.circle, |(_, circle)| circle);
        // Queries for 0 objects need no circle.
        let wanted: Vec<_> = searches.iter().filter(|search| search.k > 0).collect();
        let circles: Vec<_> = wanted.iter().map(|it| (circle(it), it.filter)).collect();
        let mut bounds = vec![0; searches.len() + 1];
        if !circles.is_empty() {
            let (found, _) = self.query_circles(&circles, false)?;
            let mut found = found.windows(2);
            for (at, search) in searches.iter().enumerate() {
                let bound = if search.k == 0 { None } else { found.next() };
                bounds[at + 1] = bounds[at] + bound.map_or(0, |bound| bound[1] - bound[0]);
            }
        }
        let matches = bounds[searches.len()] as usize;
        if matches == 0 {
            return Ok(Neighbours { bounds, ..Neighbours::default() });
        }
        let centre = |search: &Search<'_>| of_circle(&search.circle, Shape::default());
        let centres: Vec<Shape> = searches.iter().map(centre).collect();
        let ks: Vec<u64> = searches.iter().map(|search| search.k).collect();
        self.query_batch.rank(&self.view, self.sorted, &bounds, matches, &centres, &ks)
    }

    /// Adjusts the radii of `open` searches until each circle holds enough objects or every object
    /// that may be returned.
    fn settle_circles(
        &mut self,
        searches: &mut [Search<'_>],
        mut open: Vec<usize>,
    ) -> Result<(), EngineError> {
        let unit_m = self.unit_m();
        loop {
            open = self.admit_circles(searches, open)?;
            if open.is_empty() {
                return Ok(());
            }
            let circles: Vec<_> =
                open.iter().map(|at| (searches[*at].circle, searches[*at].filter)).collect();
            let (_, totals) = self.query_circles(&circles, true)?;
            let mut still = Vec::new();
            for (at, total) in open.into_iter().zip(totals) {
                let search = &mut searches[at];
                if search.continues(total, unit_m) {
                    search.draw(self.space);
                    still.push(at);
                }
            }
            open = still;
        }
    }

    /// Ends the searches whose matches take more than the remaining work to rank.
    fn admit_ranking(&mut self, searches: &mut [Search<'_>]) {
        let Some(work) = &mut self.work else { return };
        for search in searches.iter_mut().filter(|search| search.matches > enough(search.k)) {
            // Enough matches were counted when the query was admitted.
            let counted = ranking_work(search.k, enough(search.k));
            let more = ranking_work(search.k, search.matches) - counted;
            if search.k > 0 && !work.take_more(search.number, more) {
                search.leave();
            }
        }
    }

    /// Returns the searches of `open` whose circles fit into the remaining work; ends the others.
    fn admit_circles(
        &mut self,
        searches: &mut [Search<'_>],
        mut open: Vec<usize>,
    ) -> Result<Vec<usize>, EngineError> {
        let Some(work) = &mut self.work else { return Ok(open) };
        open.retain(|at| {
            let search = &mut searches[*at];
            search.rounds += 1;
            let is_admitted =
                search.rounds <= ROUNDS_COUNTED || work.take_more(search.number, CIRCLE_ROUND_WORK);
            if !is_admitted {
                search.leave();
            }
            is_admitted
        });
        let most = CIRCLE_WORK_MAX.saturating_mul(self.objects);
        if (open.len() as u64).saturating_mul(most) <= work.left() || open.is_empty() {
            return Ok(open);
        }
        let circles = open.iter().map(|at| (searches[*at].circle, searches[*at].filter));
        let circles: Vec<_> = circles.collect();
        let uploaded = upload_circles(self.query_batch, &circles, true)?;
        let mut needed = vec![0; circles.len()];
        let target = CopyTarget::from(&mut needed[..]);
        self.query_batch.work(&self.view, uploaded.input(), self.objects, target)?;
        self.query_batch.stream.synchronize().map_err(fault)?;
        let mut admitted = open;
        let mut needed = needed.into_iter();
        admitted.retain(|at| {
            let search = &mut searches[*at];
            let is_admitted = needed.next().is_some_and(|need| work.take_more(search.number, need));
            if !is_admitted {
                search.leave();
            }
            is_admitted
        });
        Ok(admitted)
    }

    /// Approximate length of one quantum.
    fn unit_m(&self) -> f64 {
        if self.space.is_geographic() { 0.011 } else { self.space.quantum() }
    }

    /// The radius that almost surely holds `k` objects if objects are evenly distributed over the
    /// space.
    fn first_radius_m(&self, k: u32) -> f64 {
        let (bounds, unit_m) = (self.space.bounds(), self.unit_m());
        let side = |min: i32, max: i32| f64::from(max.abs_diff(min)) + 1.0;
        let (width, height) = (side(bounds.x_min, bounds.x_max), side(bounds.y_min, bounds.y_max));
        let area_m2 = width * unit_m * height * unit_m;
        let expected = f64::from(k) + 6.0 * f64::from(k).sqrt() + 4.0;
        let share = expected / self.objects.max(1) as f64;
        (area_m2 * share / std::f64::consts::PI).sqrt().max(unit_m)
    }

    /// Queries circles: counted only, or written and sorted as well. Waits.
    fn query_circles(
        &mut self,
        circles: &[(Circle, Option<&Filter>)],
        count: bool,
    ) -> Result<(Vec<u64>, Vec<u64>), EngineError> {
        let uploaded = upload_circles(self.query_batch, circles, count)?;
        let input = uploaded.input();
        let cut = self.query_batch.cut(&self.view, input)?;
        cut.synchronize().map_err(fault)?;
        let mut bounds = vec![0; circles.len() + 1];
        let mut totals = vec![0; circles.len()];
        self.query_batch.count(&self.view, input, &mut bounds, count.then_some(&mut totals[..]))?;
        self.query_batch.stream.synchronize().map_err(fault)?;
        let matches = bounds[circles.len()] as usize;
        if matches > 0 {
            self.query_batch.write(&self.view, input, matches, self.sorted)?;
            self.query_batch.stream.synchronize().map_err(fault)?;
        }
        Ok((bounds, totals))
    }
}
