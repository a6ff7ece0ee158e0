//! Types that both `fleet`, which runs cycles, and `persistence`, which stores them, use: cycle
//! sinks, names and properties of fleets, producers, terms, the clock.

mod cycle_sink;
mod durability;
mod fleet_name;
mod fleet_spec;
mod numbered_engine;
mod producers;
mod shared_terms;
mod wall_clock;

pub(crate) use cycle_sink::ExportCapacity;
pub use cycle_sink::{CycleRecord, CycleSink, ExportRows, SettledCycle, SinkCapacity, SinkFactory};
pub use durability::Durability;
pub use fleet_name::{CurrentName, DEFAULT, FleetName};
pub use fleet_spec::{FleetKind, FleetSpec, event_clock_lead_ms};
pub(crate) use numbered_engine::{CycleNumber, NumberedEngine};
pub use producers::BatchId;
pub(crate) use producers::{Producers, Verdict};
pub(crate) use shared_terms::SharedTerms;
pub use wall_clock::WallClock;
