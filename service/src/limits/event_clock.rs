//! Limits of event clocks (`fleet/event_clock.rs`).

/// Default lead of an event clock, milliseconds. With a TTL, the default is at most the TTL divided
/// by [`EVENT_CLOCK_LEAD_TTL_DIVISOR`].
pub const EVENT_CLOCK_LEAD_MS: i64 = 1_000;
/// See [`EVENT_CLOCK_LEAD_MS`].
pub const EVENT_CLOCK_LEAD_TTL_DIVISOR: i64 = 10;
/// An event clock with at least this lead (100 years, in milliseconds) is not bounded.
pub const EVENT_CLOCK_LEAD_FREE_MS: i64 = 36_525 * 86_400_000;
/// A client that has not reported for more than this time, milliseconds, does not affect the bound
/// of an event clock.
pub const EVENT_CLOCK_CLIENT_MS: u64 = 10_000;
/// Maximum number of clients whose newest times an event clock compares.
pub const EVENT_CLOCK_CLIENTS_MAX: usize = 1_024;
