//! Limits each call site to one log line a second, so that a flood of connections or faults does
//! not become a flood of lines.
//!
//! The limit applies to warnings and errors, and to every level in the code that serves
//! connections and calls. Other lines, such as one for each fleet at the start, are never held
//! back. Lines about several fleets are distinct: each fleet has its line a second. A notice says
//! how many lines were suppressed once their second is over.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shoal_service::limits::CALL_SITES_MAX;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, callsite};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Time in which a call site has one line.
const INTERVAL: Duration = Duration::from_secs(1);
/// Modules whose lines are limited at every level, because peers can cause them.
const CAUSED_BY_PEERS: [&str; 3] =
    ["shoal_service::rpc", "shoal_service::connections", "shoal_service::monitoring"];

/// Recently written lines by kind; see the file's head.
#[derive(Clone, Debug, Default)]
pub(super) struct CallSiteLimit(Arc<Mutex<HashMap<Kind, Recent>>>);

/// Lines that share a limit: lines of one call site that name the same fleet, or name none.
type Kind = (callsite::Identifier, Option<String>);

/// Lines of one kind: the first line, the time of the last one written, and counts.
#[derive(Debug)]
struct Recent {
    written: Instant,
    level: Level,
    message: String,
    /// Lines suppressed since `written`.
    suppressed: u64,
    /// Suppressed lines of earlier intervals that no notice has counted yet.
    unreported: u64,
}

/// Suppressed lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    pub(super) level: Level,
    /// Message of the first line of this kind, which was written.
    pub(super) message: String,
    pub(super) fleet: Option<String>,
    pub(super) count: u64,
}

/// The fields of an event that the limit uses.
#[derive(Default)]
struct Fields {
    message: String,
    fleet: Option<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "fleet" => self.fleet = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if matches!(field.name(), "message" | "fleet") {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

impl CallSiteLimit {
    /// Returns whether a line may be written; otherwise counts it as suppressed.
    fn admit(&self, metadata: &Metadata<'_>, fields: Fields, now: Instant) -> bool {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kind = (metadata.callsite(), fields.fleet);
        // Clients choose fleet names, so the number of kinds must be bounded.
        if sites.len() >= CALL_SITES_MAX && !sites.contains_key(&kind) {
            kind.1 = None;
        }
        let Some(recent) = sites.get_mut(&kind) else {
            let (level, message) = (*metadata.level(), fields.message);
            let recent = Recent { written: now, level, message, suppressed: 0, unreported: 0 };
            sites.insert(kind, recent);
            return true;
        };
        if now.duration_since(recent.written) < INTERVAL {
            recent.suppressed += 1;
            return false;
        }
        recent.written = now;
        recent.unreported += std::mem::take(&mut recent.suppressed);
        true
    }

    /// Returns the counts of suppressed lines whose second is over at `now`; with `is_last`, of all
    /// suppressed lines. Each line is counted in one result only.
    pub(super) fn take_suppressed(&self, now: Instant, is_last: bool) -> Vec<Suppressed> {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        sites.retain(|(_, fleet), recent| {
            let is_over = now.duration_since(recent.written) >= INTERVAL;
            let mut count = std::mem::take(&mut recent.unreported);
            if is_over || is_last {
                count += std::mem::take(&mut recent.suppressed);
            }
            if count > 0 {
                let (level, message) = (recent.level, recent.message.clone());
                taken.push(Suppressed { level, message, fleet: fleet.clone(), count });
            }
            !is_over
        });
        taken
    }
}

fn is_limited(metadata: &Metadata<'_>) -> bool {
    let is_caused_by_peers = CAUSED_BY_PEERS.iter().any(|of| metadata.target().starts_with(of));
    *metadata.level() <= Level::WARN || is_caused_by_peers
}

impl<S: Subscriber> Layer<S> for CallSiteLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if !is_limited(event.metadata()) {
            return true;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.admit(event.metadata(), fields, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Counts the lines that pass the limit.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<Level>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
    }

    fn lines_of(log: impl FnOnce()) -> (Vec<Level>, CallSiteLimit) {
        let (limit, lines) = (CallSiteLimit::default(), Lines::default());
        let subscriber = tracing_subscriber::registry().with(limit.clone()).with(lines.clone());
        tracing::subscriber::with_default(subscriber, log);
        let levels = lines.0.lock().unwrap().clone();
        (levels, limit)
    }

    #[test]
    fn a_call_site_has_one_line_until_its_second_is_over() {
        let (lines, limit) = lines_of(|| {
            for number in 0..5 {
                tracing::warn!(number, "flood");
            }
            tracing::error!("another call site");
        });
        // The loop takes less than a second, unless the machine stalls: then more are written.
        let written = lines.iter().filter(|level| **level == Level::WARN).count() as u64;
        assert_eq!(lines.last(), Some(&Level::ERROR));
        let now = Instant::now();
        let suppressed = limit.take_suppressed(now + INTERVAL, false);
        let count: u64 = suppressed.iter().map(|of| of.count).sum();
        assert_eq!(written + count, 5);
        assert!(suppressed.iter().all(|of| of.message == "flood" && of.level == Level::WARN));
        assert_eq!(limit.take_suppressed(now + 2 * INTERVAL, true), []);
        assert!(limit.0.lock().unwrap().is_empty());
    }

    /// Metadata and call site of a warning.
    fn warning() -> &'static Metadata<'static> {
        static METADATA: Mutex<Option<&'static Metadata<'static>>> = Mutex::new(None);
        struct Keep;
        impl<S: Subscriber> Layer<S> for Keep {
            fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
                *METADATA.lock().unwrap() = Some(event.metadata());
            }
        }
        let subscriber = tracing_subscriber::registry().with(Keep);
        tracing::subscriber::with_default(subscriber, || tracing::warn!("kept"));
        METADATA.lock().unwrap().unwrap()
    }

    #[test]
    fn a_line_is_written_each_second_and_every_suppressed_one_is_reported_once() {
        let (limit, start) = (CallSiteLimit::default(), Instant::now());
        let admit = |millis| {
            let fields = Fields { message: "full".to_owned(), fleet: None };
            limit.admit(warning(), fields, start + Duration::from_millis(millis))
        };
        let counts = |millis, is_last| {
            let now = start + Duration::from_millis(millis);
            limit.take_suppressed(now, is_last).iter().map(|of| of.count).collect::<Vec<_>>()
        };
        assert!(admit(0));
        assert!(!admit(1));
        assert!(!admit(999));
        assert_eq!(counts(999, false), [0; 0]);
        assert!(admit(1_000));
        assert_eq!(counts(1_001, false), [2]);
        assert!(!admit(1_500));
        assert_eq!(counts(1_600, true), [1]);
        assert_eq!(counts(2_000, false), [0; 0]);
        assert!(admit(2_001));
    }

    #[test]
    fn each_fleet_has_its_line_until_the_table_is_full() {
        let (limit, now) = (CallSiteLimit::default(), Instant::now());
        let admit = |fleet: usize| {
            let fields = Fields { fleet: Some(fleet.to_string()), ..Fields::default() };
            limit.admit(warning(), fields, now)
        };
        for fleet in 0..CALL_SITES_MAX {
            assert!(admit(fleet));
            assert!(!admit(fleet));
        }
        assert!(admit(CALL_SITES_MAX), "the rest share one kind");
        assert!(!admit(CALL_SITES_MAX + 1));
        assert_eq!(limit.0.lock().unwrap().len(), CALL_SITES_MAX + 1);
    }

    #[test]
    fn lines_that_no_peer_causes_are_not_limited_below_warnings() {
        let (lines, _) = lines_of(|| {
            for fleet in 0..50 {
                tracing::info!(fleet, "recovered");
                tracing::info!(target: "shoal_service::rpc::follow", "followed");
            }
        });
        // All 50 lines of the first call site, and one line per second of the second call site.
        assert!((51..100).contains(&lines.len()));
        let (lines, _) = lines_of(|| (0..50).for_each(|_| tracing::info!("recovered")));
        assert_eq!(lines.len(), 50);
    }
}
