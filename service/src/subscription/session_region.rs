//! The regions of a session, and changes of them.
//!
//! The client chooses the numbers of its regions; the engine's ids are unique in the life of the
//! fleet, so that events of a removed region are never attributed to another.

use std::sync::Arc;

use shoal_engine::{EventKind, QuantaRect, RegionId, Subscription};

use super::region_depth::RegionCells;
use crate::names::NamePattern;

/// A region of a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionRegion {
    /// Its id in the engine.
    pub(crate) id: RegionId,
    /// Whether the client receives a snapshot after messages were lost.
    pub(crate) snapshot: bool,
    /// Whether the client receives move events.
    pub(crate) wants_move: bool,
    /// Vertices of its polygons.
    pub(crate) vertices: usize,
    /// Where it is.
    pub(crate) cells: RegionCells,
    /// Selects its objects by name: the pattern that was last asked for.
    pub(crate) pattern: Option<Arc<NamePattern>>,
    /// True if the engine refused a change after which the pattern in effect may be another one.
    pub(crate) is_unsure: bool,
}

/// What a client follows: a region with its rules.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The part that the engine evaluates.
    pub(crate) subscription: Box<Subscription>,
    /// Whether the client receives a snapshot.
    pub(crate) snapshot: bool,
    /// Selects objects by name.
    pub(crate) pattern: Option<Arc<NamePattern>>,
}

impl SessionRegion {
    pub(super) fn new(id: RegionId, followed: &Followed, bounds: &QuantaRect) -> Self {
        let Followed { subscription, snapshot, pattern } = followed;
        let (snapshot, pattern) = (*snapshot, pattern.clone());
        let vertices = subscription.region.vertices();
        let wants_move = subscription.wanted.contains(EventKind::Move);
        let cells = RegionCells::of(bounds, &subscription.region);
        Self { id, snapshot, wants_move, vertices, cells, pattern, is_unsure: false }
    }
}

/// A change that a client requests.
#[derive(Debug)]
pub(crate) enum RegionRequest {
    /// Adds a region that the session does not have.
    Add { region_id: u64, followed: Followed },
    /// Replaces one that it has.
    Change { region_id: u64, followed: Followed },
    /// Removes one that it has.
    Remove { region_id: u64 },
}

/// A change that is within the limits and is sent to the engine.
#[derive(Debug)]
pub(crate) enum RegionChange {
    Add { region_id: u64, region: SessionRegion, subscription: Box<Subscription> },
    Alter { region_id: u64, region: SessionRegion, subscription: Box<Subscription> },
    Remove { id: RegionId },
}

/// A change without its subscription.
#[derive(Clone, Debug)]
pub(crate) enum SettledChange {
    Add { region_id: u64, region: SessionRegion },
    Alter { region_id: u64, region: SessionRegion },
    Remove { id: RegionId },
}
