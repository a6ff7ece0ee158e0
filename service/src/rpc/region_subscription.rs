//! Converts the region subscriptions of a request to the engine's subscriptions.
//!
//! Regions and filters follow the rules of queries; dwell times and hysteresis distances are
//! checked here. Field paths in errors start at the subscription.

use shoal_engine::limits::DWELL_MS_MAX;
use shoal_engine::{Circle, EvaluationMode, EventKind, EventKinds, Ranker, Space, Subscription};
use shoal_proto::v1;

use super::filter::filter;
use super::name_filter::pattern;
use super::region;
use crate::duration::millis;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::subscription::Followed;

/// Converts a subscription and its pattern of names.
///
/// # Errors
/// [`ServiceError::Field`].
pub(super) fn followed(
    fleet: &Fleet,
    sent: &v1::RegionSubscription,
) -> Result<Followed, ServiceError> {
    let pattern = pattern(fleet, sent.filter.as_ref()).map_err(|error| error.under("filter"))?;
    let subscription = subscription(fleet.space(), sent)?;
    Ok(Followed { subscription, snapshot: sent.snapshot, pattern })
}

/// Converts a subscription to quanta and milliseconds.
///
/// # Errors
/// [`ServiceError::Field`].
fn subscription(
    space: &Space,
    sent: &v1::RegionSubscription,
) -> Result<Box<Subscription>, ServiceError> {
    let with_fixes = match v1::Projection::try_from(sent.projection) {
        Ok(v1::Projection::Unspecified | v1::Projection::Ids) => false,
        Ok(v1::Projection::Fixes) => true,
        Ok(v1::Projection::Count) | Err(_) => {
            let problem = format!(
                "{} is not PROJECTION_IDS ({}) or PROJECTION_FIXES ({})",
                sent.projection,
                v1::Projection::Ids as i32,
                v1::Projection::Fixes as i32
            );
            return Err(ServiceError::field("projection", problem));
        }
    };
    Ok(Box::new(Subscription {
        region: region::region(space, sent.region.as_ref())
            .map_err(|error| error.under("region"))?,
        filter: filter(sent.filter.as_ref()).map_err(|error| error.under("filter"))?.boxed(),
        wanted: event_kinds(&sent.events)?,
        with_fixes,
        evaluation_mode: evaluation_mode(sent.evaluation)?,
        move_interval_ms: dwell_ms("move_interval", sent.move_interval.as_ref())?,
        enter_dwell_ms: dwell_ms("enter_dwell", sent.enter_dwell.as_ref())?,
        leave_dwell_ms: dwell_ms("leave_dwell", sent.leave_dwell.as_ref())?,
        hysteresis_rank_max: hysteresis(space, sent.hysteresis_m)?,
    }))
}

/// See [`region::work`].
pub(super) fn work(sent: &v1::RegionSubscription) -> usize {
    sent.region.as_ref().map_or(region::REGION_WORK, region::work)
}

fn dwell_ms(field: &str, sent: Option<&prost_types::Duration>) -> Result<u32, ServiceError> {
    let sent_ms = millis(field, sent)?.unwrap_or(0);
    match u32::try_from(sent_ms) {
        Ok(dwell_ms) if dwell_ms <= DWELL_MS_MAX => Ok(dwell_ms),
        _ => {
            let problem = format!("{sent_ms} ms exceeds the limit of {DWELL_MS_MAX} ms");
            Err(ServiceError::field(field, problem))
        }
    }
}

fn event_kinds(sent: &[i32]) -> Result<EventKinds, ServiceError> {
    if sent.is_empty() {
        return Ok(EventKinds::ALL);
    }
    let mut kinds = EventKinds::NONE;
    for (index, number) in sent.iter().enumerate() {
        let kind = u8::try_from(*number).ok().and_then(EventKind::of);
        let Some(kind) = kind.filter(|kind| *kind != EventKind::Present) else {
            let problem = format!("unknown event kind: {number}");
            return Err(ServiceError::field(format!("events[{index}]"), problem));
        };
        kinds.0 |= EventKinds::of(&[kind]).0;
    }
    Ok(kinds)
}

fn evaluation_mode(sent: i32) -> Result<EvaluationMode, ServiceError> {
    match v1::Evaluation::try_from(sent) {
        Ok(v1::Evaluation::Unspecified | v1::Evaluation::PerCycle) => Ok(EvaluationMode::Cycle),
        Ok(v1::Evaluation::EveryFix) => Ok(EvaluationMode::EveryFix),
        Ok(v1::Evaluation::Crossing) => Ok(EvaluationMode::Crossing),
        Err(_) => Err(ServiceError::field("evaluation", format!("unknown evaluation: {sent}"))),
    }
}

fn hysteresis(space: &Space, distance_m: f64) -> Result<Option<u64>, ServiceError> {
    if !(distance_m.is_finite() && distance_m >= 0.0) {
        let problem = format!("{distance_m} m must be finite and 0 or greater");
        return Err(ServiceError::field("hysteresis_m", problem));
    }
    // The rank of a distance does not depend on the centre, so any centre will do.
    let ranker = Ranker::new(space, 0, 0);
    Ok((distance_m > 0.0).then(|| Circle::within(space, &ranker, distance_m).rank_max()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> v1::RegionSubscription {
        let circle = v1::Circle { x: 10.0, y: 50.0, radius_m: 500.0 };
        let region = v1::Region { kind: Some(v1::region::Kind::Circle(circle)) };
        v1::RegionSubscription { region: Some(region), ..Default::default() }
    }

    #[test]
    fn defaults_report_every_event_of_the_state_after_each_cycle() {
        let space = Space::geographic();
        let found = subscription(&space, &sent()).unwrap();
        assert_eq!((found.wanted, found.with_fixes), (EventKinds::ALL, false));
        assert_eq!(
            (found.evaluation_mode, found.hysteresis_rank_max),
            (EvaluationMode::Cycle, None)
        );
        let sent = v1::RegionSubscription {
            events: vec![v1::EventKind::Enter as i32, v1::EventKind::Left as i32],
            evaluation: v1::Evaluation::Crossing as i32,
            hysteresis_m: 25.0,
            ..sent()
        };
        let found = subscription(&space, &sent).unwrap();
        assert_eq!(found.wanted, EventKinds::of(&[EventKind::Enter, EventKind::Left]));
        assert_eq!(found.evaluation_mode, EvaluationMode::Crossing);
        // Compute ranks far from the centre for which the threshold was computed. A metre is about
        // 89.9 quanta of latitude.
        let (x, y) = space.quantise(10.0, 50.0).unwrap();
        let rank = |north_m: f64| Ranker::new(&space, x, y).rank(x, y + (north_m * 89.9) as i32);
        assert!((rank(25.0)..rank(26.0)).contains(&found.hysteresis_rank_max.unwrap()));
    }

    #[test]
    fn errors_name_the_field() {
        let space = Space::geographic();
        let too_long = std::time::Duration::from_millis(u64::from(DWELL_MS_MAX) + 1);
        let leave_dwell = Some(too_long.try_into().unwrap());
        let cases = [
            (v1::RegionSubscription { region: None, ..sent() }, "region"),
            (v1::RegionSubscription { events: vec![1, 10], ..sent() }, "events[1]"),
            (v1::RegionSubscription { events: vec![0], ..sent() }, "events[0]"),
            (
                v1::RegionSubscription { projection: v1::Projection::Count.into(), ..sent() },
                "projection",
            ),
            (v1::RegionSubscription { evaluation: 4, ..sent() }, "evaluation"),
            (v1::RegionSubscription { leave_dwell, ..sent() }, "leave_dwell"),
            (v1::RegionSubscription { hysteresis_m: f64::NAN, ..sent() }, "hysteresis_m"),
            (v1::RegionSubscription { hysteresis_m: -1.0, ..sent() }, "hysteresis_m"),
        ];
        for (sent, named) in cases {
            match subscription(&space, &sent) {
                Err(ServiceError::Field { field, .. }) => assert_eq!(field, named),
                other => panic!("{named}: {other:?}"),
            }
        }
    }
}
