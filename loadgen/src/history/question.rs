//! Draws a question about the past from the seed, in the form of a call and in the form of the
//! oracle.
//!
//! Objects and regions are drawn in the same way as for queries about the present.

use shoal_client::duration::from_millis;
use shoal_client::{Client, Error, QueryAnswer};
use shoal_engine::{QueryKind, Region, Space};
use shoal_proto::v1::batch_query::Kind;
use shoal_proto::v1::{
    self as proto, AsOfRequest, DensityRequest, HistoryHeader, PassedRequest, Projection,
    ReplayRequest, TimeWindow, TrajectoryRequest,
};

use crate::names::name_of;
use crate::query::Chooser;
use crate::query::chooser::QueryRandom;
use crate::session::Session;
use crate::verify::PastAnswer;

/// Kinds of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastKind {
    /// The fixes of objects in a window.
    Trajectory,
    /// The states at a moment.
    AsOf,
    /// The objects, or their fixes, in a region in a window.
    Passed,
    /// The fixes of a window in the order of time.
    Replay,
    /// Numbers of fixes by square and step.
    Density,
}

impl PastKind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Trajectory, Self::AsOf, Self::Passed, Self::Replay, Self::Density];
}

/// A question as the oracle understands it.
#[derive(Clone, Debug)]
pub enum HistoryQuery {
    /// The fixes of these objects in a window.
    Trajectory(Vec<u64>, (i64, i64)),
    /// The states at a moment: of these objects or all, in a region or anywhere.
    AsOf(i64, Vec<u64>, Option<Region>),
    /// The objects that passed a region in a window; the flag requests their fixes.
    Passed((i64, i64), Region, bool),
    /// The fixes of a window, in a region or anywhere, in the order of time.
    Replay((i64, i64), Option<Region>),
    /// Numbers of these fixes by square and step.
    Density((i64, i64), Option<Region>, PastGrid),
}

/// The squares and time steps of a density.
#[derive(Clone, Copy, Debug)]
pub struct PastGrid {
    /// Side of a square, quanta.
    pub cell: i32,
    /// Length of a step, milliseconds; `None` makes the window one step.
    pub step_ms: Option<i64>,
}

/// A region in both forms.
type DrawnRegion = (proto::Region, Region);

/// A question in the oracle's form, and its region in wire form.
#[derive(Clone, Debug)]
pub(super) struct DrawnQuestion {
    /// The question in the oracle's form.
    pub question: HistoryQuery,
    region: Option<proto::Region>,
}

/// On average, one in this many as-of questions is about all objects.
const EVERYTHING_SHARE: u64 = 32;
/// The same for a run that compares the answers with those of the oracle.
const EVERYTHING_COMPARED_SHARE: u64 = 2;
/// Binary logarithms of the maximum number of squares per side of a density, and of the maximum
/// number of its steps. A density of both maximums is below the server's limit of squares.
const GRID_BITS: (u64, u64) = (7, 4);

impl DrawnQuestion {
    /// Draws a question about times from about `first_ms` to about `last_ms`.
    pub(super) fn draw(
        kind: PastKind,
        first_ms: i64,
        last_ms: i64,
        space: &Space,
        is_compared: bool,
        choosers: &mut Choosers,
        random: &mut QueryRandom,
    ) -> Self {
        let span_ms = last_ms.abs_diff(first_ms) + 1;
        // A moment may be up to a second before `first_ms` or after `last_ms`.
        let moment_ms = first_ms - 1_000 + random.below(span_ms + 2_000) as i64;
        let mut window = || {
            let longest_ms = span_ms >> random.below(12);
            let length_ms = random.below(1 + longest_ms);
            (moment_ms, moment_ms.saturating_add_unsigned(length_ms))
        };
        match kind {
            PastKind::Trajectory => {
                let question = HistoryQuery::Trajectory(choosers.objects(), window());
                Self { question, region: None }
            }
            PastKind::Passed => {
                let ((sent, region), window) = (choosers.region(), window());
                let wants_fixes = random.below(2) == 0;
                let question = HistoryQuery::Passed(window, region, wants_fixes);
                Self { question, region: Some(sent) }
            }
            PastKind::Replay | PastKind::Density => {
                let window = window();
                let (sent, region) = (random.below(2) == 0).then(|| choosers.region()).unzip();
                if kind == PastKind::Replay {
                    return Self { question: HistoryQuery::Replay(window, region), region: sent };
                }
                let side = space.bounds().x_max.abs_diff(space.bounds().x_min);
                let cell = side >> (1 + random.below(GRID_BITS.0));
                // Rounded up, so that the number of steps does not exceed the maximum.
                let steps = 1 + random.below(1 << GRID_BITS.1) as i64;
                let step_ms = (window.1 - window.0) / steps + 1;
                let step_ms = (random.below(2) == 0).then_some(step_ms);
                let grid = PastGrid { cell: cell as i32, step_ms };
                Self { question: HistoryQuery::Density(window, region, grid), region: sent }
            }
            PastKind::AsOf => {
                let share = if is_compared { EVERYTHING_COMPARED_SHARE } else { EVERYTHING_SHARE };
                if random.below(share) == 0 {
                    let question = HistoryQuery::AsOf(moment_ms, Vec::new(), None);
                    return Self { question, region: None };
                }
                let objects = choosers.objects();
                let (sent, region) = match random.below(4) {
                    0 => {
                        let (sent, region) = choosers.region();
                        (Some(sent), Some(region))
                    }
                    _ => (None, None),
                };
                Self { question: HistoryQuery::AsOf(moment_ms, objects, region), region: sent }
            }
        }
    }

    /// Asks a server; reads the whole answer.
    ///
    /// # Errors
    /// The error of the call.
    pub(super) async fn ask(
        &self,
        client: &Client,
        session: &Session,
    ) -> Result<(HistoryHeader, PastAnswer), Error> {
        let (fleet, space) = (session.fleet.clone(), &session.space);
        let named = |objects: &[u64]| match &session.names {
            Some(_) => (Vec::new(), objects.iter().map(|object| name_of(*object)).collect()),
            None => (objects.to_vec(), Vec::new()),
        };
        let of = |(from_ms, to_ms): (i64, i64)| Some(TimeWindow { from_ms, to_ms });
        let mut stream = match &self.question {
            HistoryQuery::Trajectory(objects, window_ms) => {
                let ((objects, names), window) = (named(objects), of(*window_ms));
                let request =
                    TrajectoryRequest { fleet, objects, names, window, ..Default::default() };
                client.trajectory(request).await?
            }
            HistoryQuery::AsOf(time_ms, objects, _) => {
                let (time_ms, (objects, names)) = (*time_ms, named(objects));
                let region = self.region.clone();
                let request =
                    AsOfRequest { fleet, time_ms, objects, names, region, ..Default::default() };
                client.as_of(request).await?
            }
            HistoryQuery::Passed(window_ms, _, wants_fixes) => {
                let projection = if *wants_fixes { Projection::Fixes } else { Projection::Ids };
                let request = PassedRequest {
                    fleet,
                    filter: None,
                    region: self.region.clone(),
                    window: of(*window_ms),
                    projection: projection.into(),
                };
                client.passed(request).await?
            }
            HistoryQuery::Replay(window_ms, _) => {
                let (region, window) = (self.region.clone(), of(*window_ms));
                let request = ReplayRequest { fleet, filter: None, region, window, speed: 0.0 };
                client.replay(request).await?
            }
            HistoryQuery::Density(window_ms, _, PastGrid { cell, step_ms }) => {
                let step = step_ms.map(|step_ms| from_millis(step_ms.cast_unsigned()));
                let request = DensityRequest {
                    fleet,
                    filter: None,
                    region: self.region.clone(),
                    window: of(*window_ms),
                    cell: space.to_api(*cell, 0).0,
                    step,
                };
                let counts = client.density(request).await?;
                return Ok((counts.header, PastAnswer::Squares(counts.squares)));
            }
        };
        let mut answer = QueryAnswer::default();
        let header = stream.header().clone();
        while let Some(part) = stream.next().await? {
            answer.objects.extend(part.objects);
            answer.names.extend(part.names);
            answer.fixes.extend(part.fixes);
        }
        Ok((header, PastAnswer::Rows(Box::new(answer))))
    }
}

/// Draws objects and regions in the same way as for queries about the present.
pub struct Choosers {
    /// Draws objects, as for get queries.
    pub objects: Chooser,
    /// Draws regions, as for range, circle and polygon queries.
    pub regions: Chooser,
}

impl Choosers {
    fn objects(&mut self) -> Vec<u64> {
        let message = self.objects.draw(1, false);
        match message.queries.into_iter().next().and_then(|query| query.kind) {
            Some(Kind::Get(objects)) => objects.objects,
            kind => unreachable!("{kind:?} is no get query"),
        }
    }

    fn region(&mut self) -> DrawnRegion {
        let message = self.regions.draw(1, true);
        let sent = message.queries.into_iter().next().and_then(|query| query.kind);
        let engine = message.engine.iter().flat_map(|queries| queries.iter()).next();
        match (sent, engine.map(|query| &query.kind)) {
            (Some(Kind::Range(sent)), Some(QueryKind::Range(region))) => (sent, region.clone()),
            other => unreachable!("{other:?} is no range query"),
        }
    }
}
