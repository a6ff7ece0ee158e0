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
    /// The table of the names that a fleet of this kind begins with, with a log or without.
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
    /// What drives its clock.
    pub clock: Clock,
    /// Time to live of its records, milliseconds.
    pub ttl_ms: Option<i64>,
    /// Objects at most.
    pub objects_max: u64,
    /// Default durability of acknowledgements; `None` for the highest that the server offers.
    pub durability: Option<Durability>,
    /// How far an event clock may lead a confirmed time, milliseconds; `None` for the default.
    pub event_clock_lead_ms: Option<i64>,
}

impl FleetSpec {
    /// The lead that a fleet of this specification has.
    pub(crate) fn lead_ms(&self) -> i64 {
        let default_ms = || event_clock_lead_ms(EVENT_CLOCK_LEAD_MS, self.ttl_ms);
        self.event_clock_lead_ms.unwrap_or_else(default_ms)
    }
}

/// The lead of a clock that may be `lead_ms`, in a fleet with this TTL.
#[must_use]
pub fn event_clock_lead_ms(lead_ms: i64, ttl_ms: Option<i64>) -> i64 {
    ttl_ms.map_or(lead_ms, |ttl_ms| lead_ms.min(ttl_ms / EVENT_CLOCK_LEAD_TTL_DIVISOR))
}
