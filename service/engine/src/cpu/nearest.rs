//! Finds the k nearest objects by searching circles of growing radius until one holds k of them.
//!
//! A circle holds exactly the objects up to its rank. If at least k of them pass the filter, the k
//! nearest are therefore among them, ties included, and the answer is complete. The first radius
//! comes from the density around the centre; none exceeds the rank that the query allows.

use super::query_work::Meter;
use super::view::{RECORDS_AHEAD, View};
use crate::query::Filter;
use crate::rank::Ranker;
use crate::region::{Circle, Region};
use crate::sphere;

/// One neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Neighbour {
    pub(super) rank: u64,
    pub(super) object: u64,
    pub(super) slot: u32,
}

/// The first `k` objects by (rank, object) that pass the filter and have a rank of at most
/// `rank_max`; `None` if the work exceeds the meter's limit.
pub(super) fn nearest(
    view: &View<'_>,
    filter: Option<&Filter>,
    x: i32,
    y: i32,
    k: usize,
    rank_max: u64,
    meter: &mut Meter,
) -> Option<Vec<Neighbour>> {
    if k == 0 {
        return Some(Vec::new());
    }
    let ranker = Ranker::new(view.space, x, y);
    let mut radius_m = first_radius_m(view, x, y, k);
    let mut found = Vec::new();
    loop {
        let circle = Circle::bounded(view.space, &ranker, radius_m, rank_max);
        let is_widest = circle.rank_max() >= rank_max;
        collect(view, filter, &ranker, circle, &mut found, meter)?;
        if found.len() >= k || is_widest {
            break;
        }
        // Aim at 2k objects by area; grow the radius by a factor of 2 to 8.
        let wanted = 2.0 * k as f64 / found.len().max(1) as f64;
        radius_m *= wanted.sqrt().clamp(2.0, 8.0);
    }
    if found.len() > k {
        found.select_nth_unstable(k - 1);
        found.truncate(k);
    }
    found.sort_unstable();
    Some(found)
}

fn collect(
    view: &View<'_>,
    filter: Option<&Filter>,
    ranker: &Ranker,
    circle: Circle,
    found: &mut Vec<Neighbour>,
    meter: &mut Meter,
) -> Option<()> {
    found.clear();
    let add = |slot, x, y| found.push(Neighbour { rank: ranker.rank(x, y), object: 0, slot });
    let region = Region::Circle(Box::new(circle));
    if !view.slots_within(&view.prepare(&region), meter, add) {
        return None;
    }
    meter.look_up(found.len());
    if meter.is_over() {
        return None;
    }
    for at in 0..found.len() {
        if let Some(ahead) = found.get(at + RECORDS_AHEAD) {
            view.prefetch(ahead.slot);
        }
        found[at].object = view.record(found[at].slot).object;
    }
    if filter.is_some() {
        found.retain(|neighbour| view.passes(filter, neighbour.slot));
    }
    Some(())
}

/// A radius that holds about 2k objects if the density around the centre is that of its cell.
fn first_radius_m(view: &View<'_>, x: i32, y: i32, k: usize) -> f64 {
    let grid = view.cells.grid;
    let (objects, share) = view.cells.crowd(x, y);
    let extent = grid.extent();
    let side = |min: i32, max: i32| f64::from(max.abs_diff(min)) + 1.0;
    let cell_quanta2 = share * side(extent.x_min, extent.x_max) * side(extent.y_min, extent.y_max)
        / grid.cells() as f64;
    let area_quanta2 = 2.0 * k as f64 * cell_quanta2 / f64::from(objects.max(1));
    let quantum_m = if view.space.is_geographic() {
        view.space.quantum().to_radians() * sphere::EARTH_RADIUS_M
    } else {
        view.space.quantum()
    };
    (area_quanta2 / std::f64::consts::PI).sqrt() * quantum_m
}
