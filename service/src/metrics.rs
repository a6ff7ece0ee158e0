//! The counters, gauges and histograms of `/metrics`, all under the prefix `shoal_`.
//!
//! Each metric is declared once, in the tables below. The series of a fleet are looked up when the
//! fleet is created, updated once per message or cycle (never per row), and removed with the fleet.
//! The gauges of fleets are set when a client requests `/metrics`.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use shoal_engine::{CycleOutput, Query, QueryKind, Refusal, RequestOutcome};

use crate::cycle::CurrentName;
use crate::line_queue;

type FloatGauge = Gauge<f64, std::sync::atomic::AtomicU64>;
/// Labels of a series: the fleet, then the label of the metric, if it has one.
type Labels = Vec<(&'static str, LabelValue)>;
type Series<M> = Family<Labels, M, fn() -> M>;

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelValue {
    /// The current name of a fleet: its series stay its own when it is renamed.
    Fleet(CurrentName),
    /// Any text.
    Text(String),
}

impl EncodeLabelValue for LabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Fleet(name) => name.get().as_str().encode(encoder),
            Self::Text(text) => text.as_str().encode(encoder),
        }
    }
}

fn labels(fleet: &CurrentName, label: Option<(&'static str, &str)>) -> Labels {
    let label = label.map(|(key, value)| (key, LabelValue::Text(value.to_owned())));
    [("fleet", LabelValue::Fleet(fleet.clone()))].into_iter().chain(label).collect()
}

/// A histogram of seconds with bounds that double from 50 us to 26 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(50e-6, 2.0, 20))
}

/// A family of counters, one for each set of labels.
fn counters() -> Series<Counter> {
    Series::new_with_constructor(Counter::default as fn() -> _)
}

/// Adds a metric to a registry.
fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

macro_rules! gauges {
    ($($name:ident $help:literal;)+) => {
        /// The state of a fleet that its gauges show.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct FleetReading {
            $(#[doc = $help] pub $name: u64,)+
        }

        /// Name, help and value of a gauge of a fleet.
        type FleetGauge = (&'static str, &'static str, fn(&FleetReading) -> u64);

        const FLEET_GAUGES: [FleetGauge; [$($help),+].len()] =
            [$((stringify!($name), $help, |fleet| fleet.$name)),+];
    };
}

gauges! {
    objects "Objects after the last cycle";
    epoch "Last cycle applied";
    clock_milliseconds "The fleet's clock, Unix milliseconds";
    clock_rewinds "How often the fleet's clock was set back since the start";
    memory_bytes "Bytes of state";
    grid_cycles_applied "Cycles whose moves were applied to the grid";
    grid_cycles_rebuilt "Cycles that rebuilt the grid";
    queue_rows "Rows queued or in a cycle";
    queue_messages "Messages queued or in a cycle";
    queue_queries "Queries queued or in a cycle";
    cycles_in_flight "Cycles submitted and not finished";
    sessions "Sessions of subscribers";
    regions "Subscribed regions of all sessions";
    session_bytes "Bytes of messages that sessions hold, read and unread";
    log_bytes "Bytes of the segments of the log";
    log_pending_bytes "Bytes of cycles that wait for the log";
    log_pending_cycles "Cycles with changes that wait for the log";
    log_durable_epoch "Last epoch that a crash does not lose";
    checkpoint_epoch "Epoch of the newest checkpoint";
    followers "Connected followers";
    follower_lag_epochs "Durable epochs that the slowest follower does not have";
    lag_epochs "Durable epochs of the leader that this follower has not applied";
    stale_milliseconds "Time since this follower was up to date";
    history_epoch "Last epoch that is part of the history";
    history_clock_milliseconds "Clock of the history's last epoch, Unix milliseconds";
    history_backlog_bytes "Bytes of the log that the history has not taken";
    history_runs "Runs of the history";
    history_rows "Rows of these runs";
    history_bytes "Bytes of these runs";
    history_sealed_rows "Rows that became part of runs";
    history_dropped_rows "Rows that were too old to be kept when they arrived";
    history_merges "Merges of runs";
    history_retries "Writes of the history that failed for lack of space";
    history_failed "1 if an error has stopped the history";
}

macro_rules! metrics {
    (
        labelled { $($labelled:ident: $key:literal in $values:expr, $labelled_help:literal;)* }
        fleet { $($vis:vis $plain:ident: $type:ty = $new:path, $plain_help:literal;)* }
        server { $($server:ident: $server_type:ty = $server_new:path, $server_help:literal;)* }
    ) => {
        /// All metrics of a server.
        pub struct Metrics {
            registry: Registry,
            gauges: [Series<Gauge>; FLEET_GAUGES.len()],
            $($labelled: Series<Counter>,)*
            $($plain: Series<$type>,)*
            $(#[doc = $server_help] pub $server: $server_type,)*
        }

        /// The series of one fleet. They are looked up once, when the fleet is created.
        #[derive(Clone, Debug)]
        pub struct FleetMetrics {
            $($labelled: [Counter; $values.len()],)*
            $(#[doc = $plain_help] $vis $plain: $type,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("shoal");
                $(let $labelled = Series::new_with_constructor(Counter::default as fn() -> _);
                let name = stringify!($labelled);
                let $labelled = registered(&mut registry, name, $labelled_help, $labelled);)*
                $(let $plain = Series::new_with_constructor($new as fn() -> _);
                let $plain = registered(&mut registry, stringify!($plain), $plain_help, $plain);)*
                let gauges = FLEET_GAUGES.map(|(name, help, _)| {
                    let gauge = Series::new_with_constructor(Gauge::default as fn() -> _);
                    registered(&mut registry, name, help, gauge)
                });
                $(let name = stringify!($server);
                let $server = $server_new();
                let $server = registered(&mut registry, name, $server_help, $server);)*
                Self { registry, gauges, $($labelled,)* $($plain,)* $($server,)* }
            }
        }

        impl Metrics {
            /// The series of one fleet.
            #[must_use]
            pub fn fleet(&self, name: &CurrentName) -> FleetMetrics {
                FleetMetrics {
                    $($labelled: $values.map(|value| {
                        self.$labelled.get_or_create_owned(&labels(name, Some(($key, value))))
                    }),)*
                    $($plain: self.$plain.get_or_create_owned(&labels(name, None)),)*
                }
            }

            /// Removes the series of a dropped fleet.
            pub fn forget(&self, name: &CurrentName) {
                $(for value in $values {
                    self.$labelled.remove(&labels(name, Some(($key, value))));
                })*
                $(self.$plain.remove(&labels(name, None));)*
                for gauge in &self.gauges {
                    gauge.remove(&labels(name, None));
                }
            }
        }
    };
}

metrics! {
    labelled {
        rows: "outcome" in ["applied", "duplicate", "superseded", "late", "expired"], "Rows by outcome";
        rows_refused: "reason" in Refusal::NAMES, "Refused rows by reason";
        measures_dropped: "measure" in ["speed", "heading", "altitude", "validity"],
            "Measures that could not be stored, dropped from rows at the wish of their sender";
        objects_removed: "reason" in ["request", "expired"], "Objects removed by cause";
        messages: "outcome" in ["applied", "duplicate", "failed"], "Report messages and removals";
        queries: "kind" in ["get", "range", "nearest"], "Queries answered by kind";
        events: "outcome" in ["delivered", "coalesced"],
            "Events delivered to sessions, and those of them that were coalesced";
    }
    fleet {
        cycles: Counter = Counter::default, "Cycles applied";
        rows_ahead: Counter = Counter::default,
            "Rows later than the event clock after their cycle";
        sessions_lagged: Counter = Counter::default,
            "Times that a session lost messages and received its members again";
        cycle_seconds: Histogram = seconds, "Time from the start of a cycle to its output";
        pub log_groups: Counter = Counter::default, "Groups of cycles synced in the log";
        pub log_sync_seconds: Histogram = seconds, "Time to write and sync a group of the log";
        pub checkpoint_seconds: Histogram = seconds, "Time to write a checkpoint";
        pub recovery_seconds: FloatGauge = FloatGauge::default, "Duration of the last recovery";
        pub ack_seconds: Histogram = seconds,
            "Time from a message's arrival to its acknowledgement";
        pub query_seconds: Histogram = seconds, "Time from a request's arrival to its answers";
        pub query_requests_put_off: Counter = Counter::default,
            "Requests whose queries waited for a later cycle, since others took the work of theirs";
        pub query_requests_long: Counter = Counter::default,
            "Requests whose queries were answered beside the cycles";
    }
    server {
        connections: Gauge = Gauge::default, "Open connections";
        large_window_connections: Gauge = Gauge::default,
            "Open connections with large HTTP/2 windows";
        connections_refused: Counter = Counter::default,
            "Connections beyond the limit of the server";
        address_connections_refused: Counter = Counter::default,
            "Connections beyond the limit of their address";
        handshakes_closed: Counter = Counter::default,
            "TLS handshakes that waited for their peer and were closed to begin newer ones";
        streams: Gauge = Gauge::default, "Open report, batch and subscribe streams";
        answer_bytes: Gauge = Gauge::default,
            "Bytes of answers and large snapshots held for clients";
        message_bytes: Gauge = Gauge::default, "Bytes of large messages in memory";
        history_page_bytes: Gauge = Gauge::default, "Bytes of pages of histories in memory";
        busy: Counter = Counter::default, "Calls refused because a queue or a budget was full";
        metrics_connections_refused: Counter = Counter::default,
            "Connections to the monitoring address beyond its limit";
        http_connections: Gauge = Gauge::default, "Open connections to the HTTP listener";
        http_connections_refused: Counter = Counter::default,
            "Connections to the HTTP listener beyond a limit";
        http_requests: Series<Counter> = counters, "Requests over HTTP by route and status";
        log_lines_lost: Counter = line_queue::lines_lost,
            "Lines that standard error or standard output did not take, of this process";
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Sets the gauges of one fleet.
    pub fn show_fleet(&self, name: &CurrentName, fleet: &FleetReading) {
        for (gauge, (.., value)) in self.gauges.iter().zip(FLEET_GAUGES) {
            let value = i64::try_from(value(fleet)).unwrap_or(i64::MAX);
            gauge.get_or_create(&labels(name, None)).set(value);
        }
    }

    /// Counts a request over HTTP.
    pub(crate) fn count_http(&self, route: &str, status: u16) {
        let text = |value: String| LabelValue::Text(value);
        let labels = vec![("route", text(route.to_owned())), ("status", text(status.to_string()))];
        self.http_requests.get_or_create(&labels).inc();
    }

    /// All metrics in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail; if the encoder fails, the text ends there.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl FleetMetrics {
    /// Counts the outcome of one request, and its refused rows by reason.
    pub fn count_outcome(&self, outcome: &RequestOutcome, refused: &[u64; Refusal::COUNT]) {
        let RequestOutcome { applied, duplicate, superseded, late, expired, .. } = *outcome;
        let rows = [applied, duplicate, superseded, late, expired];
        for (counter, rows) in self.rows.iter().zip(rows) {
            counter.inc_by(rows);
        }
        for (counter, rows) in self.rows_refused.iter().zip(&refused[1..]) {
            counter.inc_by(*rows);
        }
        self.objects_removed[0].inc_by(outcome.removed);
        self.rows_ahead.inc_by(outcome.ahead);
        let failed = outcome.block_error.is_some();
        self.messages[if failed { 2 } else { 0 }].inc();
    }

    /// Counts dropped measures by the reason for which they would refuse their row.
    pub(crate) fn count_dropped(&self, dropped: &[u64; Refusal::COUNT]) {
        let reasons = [Refusal::Speed, Refusal::Heading, Refusal::Altitude, Refusal::Validity];
        for (counter, reason) in self.measures_dropped.iter().zip(reasons) {
            counter.inc_by(dropped[reason as usize]);
        }
    }

    /// Counts a message that is a duplicate.
    pub fn count_duplicate(&self) {
        self.messages[1].inc();
    }

    /// Counts a message that failed before it reached the engine.
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

    /// Counts events delivered to a session.
    pub fn count_events(&self, events: u64) {
        self.events[0].inc_by(events);
    }

    /// Counts events that a slow reader does not receive one by one.
    pub fn count_coalesced(&self, events: u64) {
        self.events[1].inc_by(events);
    }

    /// Counts a session that lost messages.
    pub fn count_lagged(&self) {
        self.sessions_lagged.inc();
    }

    /// Counts a cycle.
    pub fn count_cycle(&self, output: &CycleOutput, seconds: f64) {
        self.cycles.inc();
        self.objects_removed[1].inc_by(output.expired);
        self.cycle_seconds.observe(seconds);
    }
}
