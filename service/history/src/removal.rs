//! Removals, and returns: fixes that arrived after a removal although their time is in its reach.
//!
//! The live state follows the order of arrival: a fix that arrives after a removal brings its
//! object back, whatever its time. The history keeps that order without a column for each fix: a
//! removal has a number, and a *reach*, the greatest time of all fixes that arrived before it. A
//! fix beyond the reach arrived later. One within it arrived earlier, unless a *return* says
//! otherwise.

/// Stands for all objects in a list of removals; it is no object's id.
pub(crate) const EVERY_OBJECT: u64 = u64::MAX;
/// Range of all objects.
pub(crate) const ALL_OBJECTS: (u64, u64) = (0, EVERY_OBJECT);

/// The removal of one object, or a clear, which removes all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Removal {
    /// The object, or [`EVERY_OBJECT`].
    pub(crate) object: u64,
    /// Time at which the removal acts: the fleet's clock after its cycle, Unix milliseconds.
    pub(crate) clock_ms: i64,
    /// Its number and reach.
    pub(crate) mark: Mark,
}

/// Order and reach of a removal. Of two marks, the later is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Removals are numbered in the order of arrival, from 1.
    pub(crate) number: u64,
    /// No fix that arrived before it has a greater time.
    pub(crate) reach_ms: i64,
}

/// A fix that arrived after a removal of its object with a time within its reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Return {
    /// Object of the fix.
    pub(crate) object: u64,
    /// Event time of the fix, Unix milliseconds.
    pub(crate) time_ms: i64,
    /// Number of the last removal of the object, or of all, before it.
    pub(crate) number: u64,
}

impl Removal {
    /// Time whose partition stores the removal. No fix that the removal can end is later, so the
    /// removal is not dropped before these fixes.
    pub(crate) fn time_ms(&self) -> i64 {
        self.clock_ms.max(self.mark.reach_ms)
    }
}

/// Sorts removals and drops those that no query can distinguish: of the removals of an object with
/// clocks before `from_ms`, the earliest moment that is kept, only the last remains. This bounds
/// the removals in a partition whose fixes are far ahead.
pub(crate) fn drop_replaced(removals: &mut Vec<Removal>, from_ms: i64) {
    let is_asked = |removal: &Removal| removal.clock_ms >= from_ms;
    removals.sort_unstable_by_key(|it| (it.object, is_asked(it), it.mark, it.clock_ms));
    keep_last(removals, |it| (it.object, is_asked(it).then_some((it.mark, it.clock_ms))));
    removals.sort_unstable();
}

/// Sorts returns by identity; of equal identities, keeps the last to arrive.
pub(crate) fn sort_returns(returns: &mut Vec<Return>) {
    returns.sort_unstable();
    keep_last(returns, |returned| (returned.object, returned.time_ms));
}

/// Keeps the last of adjacent elements with equal keys.
pub(crate) fn keep_last<T: Copy, K: PartialEq>(list: &mut Vec<T>, key: impl Fn(&T) -> K) {
    list.dedup_by(|later, earlier| {
        let is_same = key(later) == key(earlier);
        if is_same {
            *earlier = *later;
        }
        is_same
    });
}
