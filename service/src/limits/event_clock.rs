//! Limits of the bound of an event clock (`fleet/event_clock.rs`).

/// Lead of an event clock, unless a fleet states another or this part of its TTL is less.
pub const EVENT_CLOCK_LEAD_MS: i64 = 1_000;
/// See [`EVENT_CLOCK_LEAD_MS`].
pub const EVENT_CLOCK_LEAD_TTL_DIVISOR: i64 = 10;
/// From this lead on, any row moves an event clock: 100 years.
pub const EVENT_CLOCK_LEAD_FREE_MS: i64 = 36_525 * 86_400_000;
/// A client that has not reported for this long has no say in how far an event clock moves.
pub const EVENT_CLOCK_CLIENT_MS: u64 = 10_000;
/// Clients whose times an event clock compares; the two newest decide.
pub const EVENT_CLOCK_CLIENTS_MAX: usize = 1_024;
