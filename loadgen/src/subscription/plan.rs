//! The validated flags of subscribers, and the division of regions over sessions.

use shoal_proto::v1::EventKind;
use shoal_workload::RegionParams;

use crate::args::{ReportedEvents, SubscriptionArgs};
use crate::error::LoadError;
use crate::limits::{KILLS_MAX, SESSION_REGIONS_MAX, SESSIONS_MAX};

/// Subscribers of a run.
#[derive(Clone, Debug)]
pub struct SubscriptionPlan {
    /// Circles of all reading sessions together.
    pub regions: RegionParams,
    /// The events to receive.
    pub events: ReportedEvents,
    /// Maximum number of circles of one session.
    pub session_regions: u32,
    /// Total number of streams that are broken at random and resumed.
    pub kills: u32,
    /// Sessions that read nothing until all rows are sent.
    pub silent: u32,
}

impl SubscriptionPlan {
    /// The subscribers according to the flags, if any.
    ///
    /// # Errors
    /// [`LoadError::Usage`] names the flag and its permitted values.
    pub fn new(args: &SubscriptionArgs, seconds: Option<f64>) -> Result<Option<Self>, LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        let SubscriptionArgs { subscriptions, session_regions, kill_subscribers, .. } = *args;
        if !(1..=SESSION_REGIONS_MAX).contains(&session_regions) {
            return usage(format!(
                "--session-regions is {session_regions}, it must be 1 to {SESSION_REGIONS_MAX}"
            ));
        }
        let silent = args.silent_subscribers;
        if subscriptions == 0 {
            let more = kill_subscribers > 0 || silent > 0 || args.follows || args.churn > 0.0;
            return match more {
                true => usage("subscribers need --subscriptions above 0".to_owned()),
                false => Ok(None),
            };
        }
        let sessions = subscriptions.div_ceil(session_regions.into()) + u64::from(silent);
        if sessions > SESSIONS_MAX.into() {
            return usage(format!(
                "--subscriptions {subscriptions} of {session_regions} a session, {silent} silent, \
                 make {sessions} sessions, at most {SESSIONS_MAX}: raise --session-regions"
            ));
        }
        if kill_subscribers > KILLS_MAX {
            return usage(format!("--kill-subscribers is {kill_subscribers}, at most {KILLS_MAX}"));
        }
        if kill_subscribers > 0 && seconds.is_none() {
            return usage("--kill-subscribers needs --seconds to happen in".to_owned());
        }
        Ok(Some(Self {
            regions: RegionParams {
                regions: subscriptions,
                radius_m: args.radius,
                churn: args.churn,
                follows: args.follows,
            },
            events: args.delivered_events,
            session_regions,
            kills: kill_subscribers,
            silent,
        }))
    }

    /// Sessions that read.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        // Validated on creation of the plan.
        u32::try_from(self.regions.regions.div_ceil(self.session_regions.into()))
            .unwrap_or(SESSIONS_MAX)
    }

    /// The kinds of event to receive; an empty list means all.
    #[must_use]
    pub fn event_kinds(&self) -> Vec<EventKind> {
        match self.events {
            ReportedEvents::WithMove => Vec::new(),
            ReportedEvents::EnterLeave => vec![
                EventKind::Enter,
                EventKind::Left,
                EventKind::Removed,
                EventKind::Expired,
                EventKind::Filtered,
                EventKind::RegionChanged,
                EventKind::Cleared,
            ],
        }
    }
}
