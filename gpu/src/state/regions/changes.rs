//! The subscription changes of a cycle, with the cells of the regions that they add.
//!
//! The caller's thread finds the cells, on all cores.

use rayon::prelude::*;
use shoal_engine::stage::subscription::Class;
use shoal_engine::{Space, SubscriptionChange};

use crate::state::regions::cells;
use crate::state::regions::query_table::is_quiet;

/// The cells of one added region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filing {
    /// Numbers of cells, and flags of the references.
    pub(crate) cells: Vec<(u64, u32)>,
    /// The level, by bit.
    pub(crate) levels: u32,
}

/// Changes, each with the cells that it adds.
pub(crate) type Changes = Vec<(SubscriptionChange, Filing)>;

/// Finds the cells that changes add.
pub(crate) fn file(space: &Space, changes: Vec<SubscriptionChange>) -> Changes {
    let filed = |change: SubscriptionChange| {
        let mut filing = Filing::default();
        if let SubscriptionChange::Set { subscription, .. } = &change {
            let quiet = is_quiet(subscription);
            let level = cells::file(space, &subscription.region, quiet, &mut filing.cells);
            filing.levels = level.map_or(0, |level| 1 << level);
        }
        (change, filing)
    };
    changes.into_par_iter().map(filed).collect()
}

/// Whether changes add a query that the host evaluates.
pub(crate) fn adds_host_query(changes: &Changes) -> bool {
    changes.iter().any(|(change, _)| match change {
        SubscriptionChange::Set { subscription, .. } => Class::of(subscription) != Class::Plain,
        SubscriptionChange::Snapshot(_) | SubscriptionChange::Remove(_) => false,
    })
}
