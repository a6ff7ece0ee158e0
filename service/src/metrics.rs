//! What does the server count about itself?
//!
//! Counters and histograms are resolved once per fleet and touched once per message or cycle, never
//! per row; gauges are read when somebody asks. Names are those of `/metrics`, prefix `shoal_`. A
//! dropped fleet takes its series with it.

use std::fmt;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use shoal_engine::{CycleOutput, Query, QueryKind, Refusal, RequestOutcome};

use crate::fleet::{FleetView, QueueDepth};
use crate::subscription::SubscriptionDepth;

/// Outcomes of rows that were not refused.
const ROW_OUTCOMES: [&str; 4] = ["applied", "duplicate", "superseded", "late"];
/// Outcomes of report messages and removals.
const MESSAGE_OUTCOMES: [&str; 3] = ["applied", "duplicate", "failed"];
/// Kinds of query.
const QUERY_KINDS: [&str; 3] = ["get", "range", "nearest"];
/// What becomes of events on their way to subscribers.
const EVENT_OUTCOMES: [&str; 2] = ["told", "coalesced"];
/// Names of the gauges of a fleet, with their help.
const FLEET_GAUGES: [(&str, &str); 11] = [
    ("objects", "Objects after the last cycle"),
    ("epoch", "Last cycle applied"),
    ("clock_milliseconds", "The fleet's clock, Unix milliseconds"),
    ("memory_bytes", "Bytes of state"),
    ("queue_rows", "Rows queued and under way"),
    ("queue_messages", "Messages queued and under way"),
    ("queue_queries", "Queries queued and under way"),
    ("cycles_in_flight", "Cycles submitted and not finished"),
    ("sessions", "Sessions of subscribers"),
    ("regions", "Standing regions of all sessions"),
    ("session_bytes", "Bytes of messages that sessions hold, read and unread"),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFleet {
    fleet: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WithOutcome {
    fleet: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WithReason {
    fleet: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WithKind {
    fleet: String,
    kind: &'static str,
}

type HistogramFamily = Family<OfFleet, Histogram, fn() -> Histogram>;

/// From 50 us to 26 s, doubling.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(50e-6, 2.0, 20))
}

/// All series of a server.
pub struct Metrics {
    registry: Registry,
    rows: Family<WithOutcome, Counter>,
    refused: Family<WithReason, Counter>,
    removed: Family<WithReason, Counter>,
    messages: Family<WithOutcome, Counter>,
    queries: Family<WithKind, Counter>,
    cycles: Family<OfFleet, Counter>,
    events: Family<WithOutcome, Counter>,
    lagged: Family<OfFleet, Counter>,
    cycle_seconds: HistogramFamily,
    ack_seconds: HistogramFamily,
    query_seconds: HistogramFamily,
    gauges: [Family<OfFleet, Gauge>; FLEET_GAUGES.len()],
    /// Open connections.
    pub connections: Gauge,
    /// Open report, batch and subscribe streams.
    pub streams: Gauge,
    /// Bytes of answers held for clients.
    pub answer_bytes: Gauge,
    /// Bytes of partly read messages.
    pub message_bytes: Gauge,
    /// Calls refused because something was full.
    pub busy: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("shoal"),
            rows: Family::default(),
            refused: Family::default(),
            removed: Family::default(),
            messages: Family::default(),
            queries: Family::default(),
            cycles: Family::default(),
            events: Family::default(),
            lagged: Family::default(),
            cycle_seconds: Family::new_with_constructor(seconds),
            ack_seconds: Family::new_with_constructor(seconds),
            query_seconds: Family::new_with_constructor(seconds),
            gauges: Default::default(),
            connections: Gauge::default(),
            streams: Gauge::default(),
            answer_bytes: Gauge::default(),
            message_bytes: Gauge::default(),
            busy: Counter::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("rows", "Rows by what became of them", self.rows.clone());
        registry.register("rows_refused", "Refused rows by reason", self.refused.clone());
        registry.register("objects_removed", "Objects removed by cause", self.removed.clone());
        registry.register("messages", "Report messages and removals", self.messages.clone());
        registry.register("queries", "Queries answered by kind", self.queries.clone());
        registry.register("cycles", "Cycles applied", self.cycles.clone());
        let events = "Events told to sessions, and those of them that were coalesced";
        registry.register("events", events, self.events.clone());
        let lagged = "Times that a session lost messages and was told its members anew";
        registry.register("sessions_lagged", lagged, self.lagged.clone());
        registry.register(
            "cycle_seconds",
            "Time from the start of a cycle to its output",
            self.cycle_seconds.clone(),
        );
        registry.register(
            "ack_seconds",
            "Time from a message's arrival to its acknowledgement",
            self.ack_seconds.clone(),
        );
        registry.register(
            "query_seconds",
            "Time from a request's arrival to its answers",
            self.query_seconds.clone(),
        );
        for ((name, help), gauge) in FLEET_GAUGES.into_iter().zip(&self.gauges) {
            registry.register(name, help, gauge.clone());
        }
        registry.register("connections", "Open connections", self.connections.clone());
        let streams = "Open report, batch and subscribe streams";
        registry.register("streams", streams, self.streams.clone());
        registry.register(
            "answer_bytes",
            "Bytes of answers and large snapshots held for clients",
            self.answer_bytes.clone(),
        );
        registry.register(
            "message_bytes",
            "Bytes of large messages that are being read",
            self.message_bytes.clone(),
        );
        registry.register("busy", "Calls refused because something was full", self.busy.clone());
    }

    /// The series of one fleet.
    #[must_use]
    pub fn fleet(&self, name: &str) -> FleetMetrics {
        let fleet = || name.to_owned();
        let of = OfFleet { fleet: fleet() };
        let outcome = |outcome| WithOutcome { fleet: fleet(), outcome };
        let reason = |reason| WithReason { fleet: fleet(), reason };
        FleetMetrics {
            rows: ROW_OUTCOMES.map(|name| self.rows.get_or_create_owned(&outcome(name))),
            refused: Refusal::ALL
                .map(|refusal| self.refused.get_or_create_owned(&reason(refusal.name()))),
            removed: ["request", "expired"]
                .map(|cause| self.removed.get_or_create_owned(&reason(cause))),
            messages: MESSAGE_OUTCOMES
                .map(|name| self.messages.get_or_create_owned(&outcome(name))),
            queries: QUERY_KINDS
                .map(|kind| self.queries.get_or_create_owned(&WithKind { fleet: fleet(), kind })),
            cycles: self.cycles.get_or_create_owned(&of),
            events: EVENT_OUTCOMES.map(|name| self.events.get_or_create_owned(&outcome(name))),
            lagged: self.lagged.get_or_create_owned(&of),
            cycle_seconds: self.cycle_seconds.get_or_create_owned(&of),
            ack_seconds: self.ack_seconds.get_or_create_owned(&of),
            query_seconds: self.query_seconds.get_or_create_owned(&of),
        }
    }

    /// Forgets the series of a dropped fleet.
    pub fn forget(&self, name: &str) {
        let fleet = || name.to_owned();
        let of = OfFleet { fleet: fleet() };
        for outcome in ROW_OUTCOMES {
            self.rows.remove(&WithOutcome { fleet: fleet(), outcome });
        }
        for refusal in Refusal::ALL {
            self.refused.remove(&WithReason { fleet: fleet(), reason: refusal.name() });
        }
        for reason in ["request", "expired"] {
            self.removed.remove(&WithReason { fleet: fleet(), reason });
        }
        for outcome in MESSAGE_OUTCOMES {
            self.messages.remove(&WithOutcome { fleet: fleet(), outcome });
        }
        for kind in QUERY_KINDS {
            self.queries.remove(&WithKind { fleet: fleet(), kind });
        }
        self.cycles.remove(&of);
        for outcome in EVENT_OUTCOMES {
            self.events.remove(&WithOutcome { fleet: fleet(), outcome });
        }
        self.lagged.remove(&of);
        for family in [&self.cycle_seconds, &self.ack_seconds, &self.query_seconds] {
            family.remove(&of);
        }
        for gauge in &self.gauges {
            gauge.remove(&of);
        }
    }

    /// Sets the gauges of one fleet.
    pub fn show_fleet(
        &self,
        name: &str,
        view: &FleetView,
        depth: QueueDepth,
        subscriptions: SubscriptionDepth,
    ) {
        let of = OfFleet { fleet: name.to_owned() };
        let values: [u64; FLEET_GAUGES.len()] = [
            view.objects,
            view.epoch,
            view.clock_ms.max(0) as u64,
            view.memory_bytes,
            depth.rows,
            depth.messages,
            depth.queries,
            view.cycles_in_flight,
            subscriptions.sessions,
            subscriptions.regions,
            subscriptions.bytes,
        ];
        for (gauge, value) in self.gauges.iter().zip(values) {
            gauge.get_or_create(&of).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// Everything in the text format of Prometheus.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail; an encoder that fails gives what it had.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The series of one fleet, resolved.
#[derive(Clone, Debug)]
pub struct FleetMetrics {
    rows: [Counter; ROW_OUTCOMES.len()],
    refused: [Counter; Refusal::ALL.len()],
    removed: [Counter; 2],
    messages: [Counter; MESSAGE_OUTCOMES.len()],
    queries: [Counter; QUERY_KINDS.len()],
    cycles: Counter,
    events: [Counter; EVENT_OUTCOMES.len()],
    lagged: Counter,
    /// Seconds of a cycle.
    pub cycle_seconds: Histogram,
    /// Seconds from a message's arrival to its acknowledgement.
    pub ack_seconds: Histogram,
    /// Seconds from a request's arrival to its answers.
    pub query_seconds: Histogram,
}

impl FleetMetrics {
    /// Counts what one request brought.
    pub fn count_outcome(&self, outcome: &RequestOutcome) {
        let rows = [outcome.applied, outcome.duplicate, outcome.superseded, outcome.late];
        for (counter, rows) in self.rows.iter().zip(rows) {
            counter.inc_by(rows);
        }
        for (_, refusal) in &outcome.refused {
            self.refused[*refusal as usize - 1].inc();
        }
        self.removed[0].inc_by(outcome.removed);
        let failed = outcome.block_error.is_some();
        self.messages[if failed { 2 } else { 0 }].inc();
    }

    /// Counts a message that its producer had sent before.
    pub fn count_duplicate(&self) {
        self.messages[1].inc();
    }

    /// Counts a message that failed at the door.
    pub fn count_failed(&self) {
        self.messages[2].inc();
    }

    /// Counts answered queries.
    pub fn count_queries(&self, queries: &[Query]) {
        for query in queries {
            let kind = match query.kind {
                QueryKind::Get(_) => 0,
                QueryKind::Range(_) => 1,
                QueryKind::Nearest { .. } => 2,
            };
            self.queries[kind].inc();
        }
    }

    /// Counts events told to a session.
    pub fn count_events(&self, events: u64) {
        self.events[0].inc_by(events);
    }

    /// Counts events that a slow reader is not told one by one.
    pub fn count_coalesced(&self, events: u64) {
        self.events[1].inc_by(events);
    }

    /// Counts a session that lost messages.
    pub fn count_lagged(&self) {
        self.lagged.inc();
    }

    /// Counts a cycle.
    pub fn count_cycle(&self, output: &CycleOutput, seconds: f64) {
        self.cycles.inc();
        self.removed[1].inc_by(output.expired);
        self.cycle_seconds.observe(seconds);
    }
}
