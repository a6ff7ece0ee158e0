//! Runs work over items on all cores, or on this thread when the work is too small to be worth
//! waking others.
//!
//! Waking a pool costs tens of microseconds (weak evidence: 2 cores); a small cycle takes less.

use rayon::prelude::*;

/// Rows or operations below which a stage runs on the calling thread.
pub(super) const SMALL_WORK: usize = 4096;
/// Items, mostly ids, from which sorting is spread over the cores.
pub(super) const PARALLEL_SORT: usize = 1 << 17;

/// Sorts items ascending by their keys; equal ones in any order.
pub(super) fn sort<T: Send, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K + Sync) {
    if items.len() < PARALLEL_SORT {
        items.sort_unstable_by_key(key);
    } else {
        items.par_sort_unstable_by_key(key);
    }
}

/// Calls `work` once for each item with its place; `size` is the amount of work in all items.
pub(super) fn for_each_mut<T: Send>(
    items: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut T) + Sync + Send,
) {
    if size < SMALL_WORK {
        items.iter_mut().enumerate().for_each(|(place, item)| work(place, item));
    } else {
        items.par_iter_mut().enumerate().for_each(|(place, item)| work(place, item));
    }
}
