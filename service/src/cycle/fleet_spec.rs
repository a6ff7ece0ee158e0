//! The properties of a fleet that its creator, or the settings of the server, choose.

use std::sync::Arc;

use shoal_engine::{Clock, Space};

use super::durability::Durability;
use crate::limits::{EVENT_CLOCK_LEAD_MS, EVENT_CLOCK_LEAD_TTL_DIVISOR};
use crate::names::NameTable;

/// What identifies the objects of a fleet to its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FleetKind {
    /// Numbers that clients choose.
    #[default]
    Numeric,
    /// Names; the server numbers them.
    Named,
}

impl FleetKind {
    /// Returns the empty name table of a new fleet; `None` if its objects have no names. With a
    /// log, the table collects its changes for the log.
    pub(crate) fn names(self, names_max: usize, has_log: bool) -> Option<Arc<NameTable>> {
        let make = if has_log { NameTable::logged } else { NameTable::new };
        (self == Self::Named).then(|| Arc::new(make(names_max)))
    }
}

/// The properties of a new fleet.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// What identifies its objects.
    pub kind: FleetKind,
    /// The space of its objects.
    pub space: Space,
    /// Whether system time or event times advance its clock.
    pub clock: Clock,
    /// Time to live of its records, milliseconds.
    pub ttl_ms: Option<i64>,
    /// Maximum number of objects.
    pub objects_max: u64,
    /// Default durability of acknowledgements; `None` for the highest that the server offers.
    pub durability: Option<Durability>,
    /// How far an event clock may be ahead of a confirmed time, milliseconds; `None` for the
    /// default.
    pub event_clock_lead_ms: Option<i64>,
}

impl FleetSpec {
    /// The lead of the event clock, milliseconds: the specified one or the default.
    pub(crate) fn lead_ms(&self) -> i64 {
        let default_ms = || event_clock_lead_ms(EVENT_CLOCK_LEAD_MS, self.ttl_ms);
        self.event_clock_lead_ms.unwrap_or_else(default_ms)
    }
}

/// The lead of an event clock, milliseconds: `lead_ms`, limited to a fraction of the TTL if there
/// is one.
#[must_use]
pub fn event_clock_lead_ms(lead_ms: i64, ttl_ms: Option<i64>) -> i64 {
    ttl_ms.map_or(lead_ms, |ttl_ms| lead_ms.min(ttl_ms / EVENT_CLOCK_LEAD_TTL_DIVISOR))
}
