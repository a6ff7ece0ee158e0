//! The settling rules of rows: which row of an object becomes its record.
//!
//! The rules of [`crate::Backend`], step 4, as predicates that every host code shares; the kernels
//! repeat them (`dispatch.cuh`). Times are event times in milliseconds.

/// The clock after a cycle: the later of `before_ms`, the clock when the cycle began, and `now_ms`,
/// the time of the clock's source.
#[must_use]
pub fn clock_after_ms(before_ms: i64, now_ms: Option<i64>) -> i64 {
    now_ms.map_or(before_ms, |now_ms| now_ms.max(before_ms))
}

/// The time to which the newest row moves an event clock: at most `max_ms`; `None` without rows.
#[must_use]
pub fn event_clock_ms(newest_ms: Option<i64>, max_ms: Option<i64>) -> Option<i64> {
    newest_ms.map(|newest_ms| max_ms.map_or(newest_ms, |max_ms| newest_ms.min(max_ms)))
}

/// Whether a row is late: older than the record at the start of the cycle, which is absent once a
/// removal or clear has arrived.
#[inline(always)]
#[must_use]
pub fn is_late(start_ms: Option<i64>, time_ms: i64) -> bool {
    start_ms.is_some_and(|start_ms| time_ms < start_ms)
}

/// True if a row replaces the newest row that arrived before it. The row with the greatest (time,
/// arrival) wins; the other row is superseded.
#[inline(always)]
#[must_use]
pub fn supersedes(newest_ms: Option<i64>, time_ms: i64) -> bool {
    newest_ms.is_none_or(|newest_ms| time_ms >= newest_ms)
}

/// The earliest clock at which a record with this deadline ([`shoal_codec::deadline_ms`]) has
/// expired; `None` if it never does.
#[must_use]
pub fn due_ms(deadline_ms: i64) -> Option<i64> {
    deadline_ms.checked_add(1)
}
