//! Draws queries: windows from the workload, kinds from the mix, everything from the seed.
//!
//! Each query has a wire form and, for the oracle, an engine form, built from the same doubles.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use shoal_engine::{Query, QueryKind, Region, Space};
use shoal_proto::v1::batch_query::Kind;
use shoal_proto::v1::{self as proto, BatchQuery, GetQuery, NearestQuery, QueryOptions, region};
use shoal_workload::{Window, Workload};

use super::options::Conditions;
use super::seen_objects::SeenObjects;
use crate::names::name_of;
use crate::plan::QueryPlan;
use crate::shares::DrawnKind;

/// Metres of a degree of latitude.
const DEGREE_M: f64 = 111_195.0;
/// Vertices of a drawn polygon: few, so that edges cross often.
const VERTICES: usize = 7;
/// One of this many windows is widened for large answers, if conditions vary.
const WIDE_SHARE: u64 = 256;

/// Seeded random numbers.
#[derive(Clone, Debug)]
pub struct QueryRandom(Xoshiro256PlusPlus);

impl QueryRandom {
    /// The random numbers of one connection's queries.
    #[must_use]
    pub fn new(seed: u64, connection: u32) -> Self {
        // Streams of different connections with the same seed are distinct.
        let mixed = seed.rotate_left(32) ^ (u64::from(connection) << 40) ^ 0x5045_5354_494f_4e53;
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A random integer below `end` (above 0), by multiplication (bias below `end` / 2^64).
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A double in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The queries of one message.
#[derive(Clone, Debug)]
pub struct QueryMessage {
    /// Common options, without fleet and token.
    pub options: QueryOptions,
    /// Wire form.
    pub queries: Vec<BatchQuery>,
    /// Engine form, if these answers are verified. Objects are those of the workload.
    pub engine: Option<Arc<[Query]>>,
}

/// Draws the queries of one connection.
pub struct Chooser {
    workload: Box<dyn Workload>,
    space: Space,
    plan: QueryPlan,
    step_ms: i64,
    seen: Arc<SeenObjects>,
    random: QueryRandom,
}

impl Chooser {
    /// A chooser with a separate workload, used for windows only.
    #[must_use]
    pub fn new(
        workload: Box<dyn Workload>,
        space: Space,
        plan: QueryPlan,
        step_ms: i64,
        seen: Arc<SeenObjects>,
        random: QueryRandom,
    ) -> Self {
        Self { workload, space, plan, step_ms, seen, random }
    }

    /// Draws whether the next message belongs to the given share of the messages.
    pub fn falls_into(&mut self, share: f64) -> bool {
        self.random.unit() < share
    }

    /// A message of `count` queries; `is_verified` adds their form for the oracle.
    pub fn draw(&mut self, count: usize, is_verified: bool) -> QueryMessage {
        let conditions = Conditions::draw(self.plan.wanted, self.step_ms, &mut self.random);
        let mut queries = Vec::with_capacity(count);
        let mut engine = Vec::new();
        while queries.len() < count {
            let kind = self.kind(conditions.options.after_object.is_some());
            if is_verified {
                // Regions that the engine would reject (a polygon without area) are not sent.
                let Some(kind) = engine_kind(&self.space, &kind) else {
                    continue;
                };
                engine.push(Query {
                    kind,
                    filter: conditions.filter.boxed(),
                    projection: conditions.projection,
                    limit: conditions.limit,
                });
            }
            let kind = if self.plan.is_named { by_name(kind) } else { kind };
            queries.push(BatchQuery { kind: Some(kind) });
        }
        let engine = is_verified.then(|| engine.into());
        QueryMessage { options: conditions.options, queries, engine }
    }

    /// Draws one query. A nearest query has no cursor, so with a cursor a circle replaces it.
    fn kind(&mut self, has_cursor: bool) -> Kind {
        let draw = self.random.below(self.plan.mix.total());
        let window = self.window();
        let (x, y) = centre(&window);
        let drawn = self.plan.mix.pick(draw);
        let is_nearest = matches!(drawn, DrawnKind::Nearest);
        let kind = if is_nearest && has_cursor { DrawnKind::Circle } else { drawn };
        match kind {
            DrawnKind::Range => range(region::Kind::Rectangle(proto::Rectangle {
                west: window.west,
                south: window.south,
                east: window.east,
                north: window.north,
            })),
            DrawnKind::Circle => {
                let radius_m = self.half_height_m(&window);
                range(region::Kind::Circle(proto::Circle { x, y, radius_m }))
            }
            DrawnKind::Polygon => range(self.polygons(&window)),
            DrawnKind::Nearest => {
                let is_bounded = self.is_mixed() && self.random.below(4) == 0;
                let distance_max_m = is_bounded.then(|| self.half_height_m(&window));
                Kind::Nearest(NearestQuery { x, y, k: self.plan.nearest_k, distance_max_m })
            }
            DrawnKind::Get => Kind::Get(GetQuery { objects: self.objects(), ..Default::default() }),
        }
    }

    /// Whether conditions vary, for verification.
    fn is_mixed(&self) -> bool {
        self.plan.wanted == crate::args::Wanted::Mixed
    }

    fn half_height_m(&self, window: &Window) -> f64 {
        let half = (window.north - window.south) / 2.0;
        if self.space.is_geographic() { half * DEGREE_M } else { half }
    }

    /// The workload's next window, occasionally a wide one.
    fn window(&mut self) -> Window {
        let window = self.workload.window();
        if !self.is_mixed() || self.random.below(WIDE_SHARE) != 0 {
            return window;
        }
        let bounds = self.space.bounds();
        let (west, south) = self.space.to_api(bounds.x_min, bounds.y_min);
        let (east, north) = self.space.to_api(bounds.x_max, bounds.y_max);
        let (x, y) = centre(&window);
        let widened = |centre: f64, low: f64, high: f64| {
            let half = (high - low) / 16.0;
            ((centre - half).max(low), (centre + half).min(high))
        };
        let (west, east) = widened(x, west, east);
        let (south, north) = widened(y, south, north);
        Window { west, south, east, north }
    }

    /// A polygon, or occasionally several that overlap.
    fn polygons(&mut self, window: &Window) -> region::Kind {
        if !self.is_mixed() || self.random.below(4) != 0 {
            return region::Kind::Polygon(self.polygon(window));
        }
        let polygons = (0..3).map(|_| self.polygon(window)).collect();
        region::Kind::MultiPolygon(proto::MultiPolygon { polygons })
    }

    /// A closed ring through random points of a window; it may cross itself.
    fn polygon(&mut self, window: &Window) -> proto::Polygon {
        let mut side = |low: f64, high: f64| {
            (0..VERTICES).map(|_| low + self.random.unit() * (high - low)).collect()
        };
        let x = side(window.west, window.east);
        let y = side(window.south, window.north);
        proto::Polygon { rings: vec![proto::Ring { x, y }] }
    }

    /// Ids, mostly of sent objects, sometimes of a nonexistent one.
    fn objects(&mut self) -> Vec<u64> {
        let count = 1 + self.random.below(self.plan.get_objects.into());
        let mut object = || {
            let draw = self.random.bits();
            if self.random.below(16) == 0 { draw >> 1 } else { self.seen.pick(draw) }
        };
        (0..count).map(|_| object()).collect()
    }
}

/// The middle of a window.
fn centre(window: &Window) -> (f64, f64) {
    ((window.west + window.east) / 2.0, (window.south + window.north) / 2.0)
}

/// The query with names in place of objects.
fn by_name(kind: Kind) -> Kind {
    match kind {
        Kind::Get(get) => {
            let names = get.objects.into_iter().map(name_of).collect();
            Kind::Get(GetQuery { objects: Vec::new(), names })
        }
        kind => kind,
    }
}

/// A region as a range query.
fn range(kind: region::Kind) -> Kind {
    Kind::Range(proto::Region { kind: Some(kind) })
}

/// A query in the engine's form; `None` for an invalid region.
fn engine_kind(space: &Space, kind: &Kind) -> Option<QueryKind> {
    match kind {
        Kind::Get(objects) => Some(QueryKind::Get(objects.objects.clone())),
        Kind::Nearest(point) => {
            let (x, y) = space.quantise(point.x, point.y).ok()?;
            let rank_max = point.distance_max_m.map_or(u64::MAX, |of| space.rank_within(of));
            Some(QueryKind::Nearest { x, y, k: point.k, rank_max })
        }
        Kind::Range(region) => {
            let region = match region.kind.as_ref()? {
                region::Kind::Rectangle(side) => {
                    Region::rectangle(space, side.west, side.south, side.east, side.north)
                }
                region::Kind::Circle(circle) => {
                    Region::circle(space, circle.x, circle.y, circle.radius_m)
                }
                region::Kind::Polygon(polygon) => Region::polygon(space, &rings(polygon)),
                region::Kind::MultiPolygon(union) => {
                    let polygons: Vec<_> = union.polygons.iter().map(rings).collect();
                    Region::multi_polygon(space, &polygons)
                }
            };
            region.ok().map(QueryKind::Range)
        }
    }
}

fn rings(polygon: &proto::Polygon) -> Vec<Vec<(f64, f64)>> {
    let ring = |ring: &proto::Ring| ring.x.iter().copied().zip(ring.y.iter().copied()).collect();
    polygon.rings.iter().map(ring).collect()
}

#[cfg(test)]
mod tests {
    use shoal_workload::Params;

    use super::*;
    use crate::args::Wanted;

    fn chooser(mix: &str, wanted: Wanted, seed: u64) -> Chooser {
        let params = Params { seed, ..Params::default() };
        let workload = shoal_workload::open("uniform", &params).unwrap();
        let plan = QueryPlan {
            mix: mix.parse().unwrap(),
            wanted,
            nearest_k: 5,
            get_objects: 3,
            is_named: false,
        };
        let space = Space::planar(1e5, 1e5, 0.01).unwrap();
        let seen = Arc::new(SeenObjects::default());
        Chooser::new(workload, space, plan, 1_000, seen, QueryRandom::new(seed, 0))
    }

    #[test]
    fn the_mix_decides_the_kinds() {
        let mut chooser = chooser("range:50,nearest:25,get:25", Wanted::Ids, 3);
        let message = chooser.draw(4_000, true);
        let engine = message.engine.unwrap();
        assert_eq!((message.queries.len(), engine.len()), (4_000, 4_000));
        let share = |is_kind: fn(&QueryKind) -> bool| {
            engine.iter().filter(|query| is_kind(&query.kind)).count()
        };
        let ranges = share(|kind| matches!(kind, QueryKind::Range(_)));
        let gets = share(|kind| matches!(kind, QueryKind::Get(_)));
        assert!((1_900..2_100).contains(&ranges), "{ranges}");
        assert!((900..1_100).contains(&gets), "{gets}");
    }

    #[test]
    fn a_seed_gives_the_same_questions_verified_or_not() {
        let mix = "range:1,circle:1,polygon:1,nearest:1,get:1";
        let one = chooser(mix, Wanted::Mixed, 5).draw(500, true);
        let other = chooser(mix, Wanted::Mixed, 5).draw(500, true);
        assert_eq!((&one.options, &one.queries), (&other.options, &other.queries));
        let plain = chooser("range:1,circle:1,nearest:1,get:1", Wanted::Mixed, 5);
        let again = chooser("range:1,circle:1,nearest:1,get:1", Wanted::Mixed, 5).draw(500, true);
        let (mut plain, again) = (plain, again.queries);
        assert_eq!(plain.draw(500, false).queries, again);
        assert_ne!(chooser(mix, Wanted::Mixed, 6).draw(500, true).queries, one.queries);
    }

    #[test]
    fn only_checking_varies_the_conditions() {
        let mut plain = chooser("range:1", Wanted::Count, 1);
        for _ in 0..100 {
            let options = plain.draw(1, false).options;
            assert_eq!(options.projection, i32::from(proto::Projection::Count));
            assert_eq!((options.filter, options.limit), (None, 0));
        }
        let mut mixed = chooser("range:1", Wanted::Mixed, 1);
        let drawn: Vec<_> = (0..100).map(|_| mixed.draw(1, true).options).collect();
        assert!(drawn.iter().any(|options| options.filter.is_some()));
        assert!(drawn.iter().any(|options| options.limit > 0));
    }
}
