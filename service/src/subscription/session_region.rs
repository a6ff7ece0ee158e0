//! What does a session know of its regions, and how do they change?
//!
//! The client's number of a region is its session's own; the engine's is used once in the life of
//! the fleet, so that what is on its way of a region that ended is never taken for another's.

use shoal_engine::{EventKind, Region, RegionId, Subscription};

/// A region of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// What the engine calls it.
    pub(crate) region: RegionId,
    /// All members are told when messages were lost.
    pub(crate) snapshot: bool,
    /// Moves are told.
    pub(crate) wants_move: bool,
    /// Vertices of its polygons.
    pub(crate) vertices: usize,
}

impl Standing {
    pub(super) fn new(region: RegionId, subscription: &Subscription, snapshot: bool) -> Self {
        let vertices = match &subscription.region {
            Region::Polygon(polygon) => polygon.vertices(),
            Region::Rectangle(_) | Region::Circle(_) => 0,
        };
        let wants_move = subscription.wanted.contains(EventKind::Move);
        Self { region, snapshot, wants_move, vertices }
    }
}

/// What a client wants of one region.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// A region that the session does not have.
    Add { region_id: u64, subscription: Box<Subscription>, snapshot: bool },
    /// One that it has.
    Change { region_id: u64, subscription: Box<Subscription>, snapshot: bool },
    /// One that is to end.
    Remove { region_id: u64 },
}

/// A change that the session has room for, on its way to the engine.
#[derive(Debug)]
pub(crate) enum Change {
    Add { region_id: u64, standing: Standing, subscription: Box<Subscription> },
    Alter { region_id: u64, standing: Standing, subscription: Box<Subscription> },
    Remove { region: RegionId },
}
