//! Fleets as messages, and the specification of a new fleet.
//!
//! Zero and absent fields mean the defaults of the server; errors name the field.

use std::time::Duration;

use shoal_engine::{Clock, PLANAR_QUANTUM_M, Space};
use shoal_history::Gap;
use shoal_proto::v1;
use shoal_proto::v1::space::Kind;

use super::ack_range::row_counts;
use super::duration::millis;
use super::report_message::{durability_of, durability_value};
use crate::error::ServiceError;
use crate::fleet::{Fleet, FleetKind, FleetName, FleetSpec, Role, Staleness};
use crate::limits::ServerLimits;
use crate::persistence::{FleetLog, HistoryReading, LogCondition, LogReading};

/// The specification of a new fleet.
///
/// # Errors
/// [`ServiceError::Field`].
pub(crate) fn spec(
    request: &v1::CreateFleetRequest,
    limits: &ServerLimits,
) -> Result<FleetSpec, ServiceError> {
    let clock = match v1::Clock::try_from(request.clock) {
        Ok(v1::Clock::Unspecified | v1::Clock::System) => Clock::System,
        Ok(v1::Clock::Event) => Clock::Event,
        Err(_) => {
            let problem = format!("unknown clock: {}", request.clock);
            return Err(ServiceError::field("clock", problem));
        }
    };
    let ttl_ms = millis("ttl", request.ttl.as_ref())?.filter(|&ttl_ms| ttl_ms > 0);
    let objects_max = request.limits.as_ref().map_or(0, |limits| limits.objects_max);
    if objects_max > limits.fleet_objects_max {
        let problem = format!("{objects_max} exceeds the limit of {}", limits.fleet_objects_max);
        return Err(ServiceError::field("limits.objects_max", problem));
    }
    let durability = durability_of(request.durability.cast_unsigned().into())?;
    let kind = match v1::FleetKind::try_from(request.kind) {
        Ok(v1::FleetKind::Unspecified | v1::FleetKind::Numeric) => FleetKind::Numeric,
        Ok(v1::FleetKind::Named) => FleetKind::Named,
        Err(_) => {
            let problem = format!("unknown kind: {}", request.kind);
            return Err(ServiceError::field("kind", problem));
        }
    };
    Ok(FleetSpec {
        kind,
        space: space(request.space.as_ref())?,
        clock,
        ttl_ms,
        objects_max: if objects_max == 0 { limits.fleet_objects_max } else { objects_max },
        durability,
        event_clock_lead_ms: millis("event_clock_lead", request.event_clock_lead.as_ref())?,
    })
}

fn space(sent: Option<&v1::Space>) -> Result<Space, ServiceError> {
    match sent.and_then(|space| space.kind.as_ref()) {
        None | Some(Kind::Geographic(_)) => Ok(Space::geographic()),
        Some(Kind::Planar(planar)) => {
            let v1::PlanarSpace { width_m, height_m, quantum_m } = *planar;
            let quantum_m = if quantum_m == 0.0 { PLANAR_QUANTUM_M } else { quantum_m };
            Space::planar(width_m, height_m, quantum_m)
                .map_err(|error| ServiceError::geometry("space.planar", &error))
        }
    }
}

/// The current state of a fleet; see `FleetReplication.unfenced_leader`.
pub(super) fn message(fleet: &Fleet, engine: &str, unfenced_leader: String) -> v1::Fleet {
    let (view, options) = (fleet.view(), fleet.options());
    let clock = clock_value(options.clock);
    v1::Fleet {
        name: fleet.name().as_str().to_owned(),
        space: Some(space_message(&options.space)),
        clock: clock.into(),
        ttl: duration_message(options.ttl_ms),
        limits: Some(v1::FleetLimits { objects_max: options.objects_max }),
        term: fleet.term(),
        epoch: view.epoch,
        clock_ms: view.clock_ms,
        clock_set_back_count: view.clock_rewinds,
        object_count: view.objects,
        memory_bytes: view.memory_bytes,
        engine: engine.to_owned(),
        row_counts: Some(row_counts(&view.rows)),
        query_count: view.queries,
        durability: durability_value(fleet.durability()).into(),
        event_clock_lead: lead_message(options.clock, Some(fleet.event_clock_lead_ms())),
        log: fleet.log().map(|log| log_message(log)),
        replication: fleet.log().map(|log| replication_message(fleet, log, unfenced_leader)),
        history: fleet.history_reading().map(history_message),
        kind: kind_value(fleet.kind()).into(),
        name_count: fleet.names().map_or(0, |names| names.len() as u64),
    }
}

/// The request that creates a fleet of this specification.
pub(crate) fn create_request(name: &FleetName, spec: &FleetSpec) -> v1::CreateFleetRequest {
    v1::CreateFleetRequest {
        name: name.as_str().to_owned(),
        space: Some(space_message(&spec.space)),
        clock: clock_value(spec.clock).into(),
        ttl: duration_message(spec.ttl_ms),
        limits: Some(v1::FleetLimits { objects_max: spec.objects_max }),
        durability: spec.durability.map(durability_value).unwrap_or_default().into(),
        event_clock_lead: lead_message(spec.clock, spec.event_clock_lead_ms),
        kind: kind_value(spec.kind).into(),
    }
}

fn kind_value(kind: FleetKind) -> v1::FleetKind {
    match kind {
        FleetKind::Numeric => v1::FleetKind::Numeric,
        FleetKind::Named => v1::FleetKind::Named,
    }
}

fn clock_value(clock: Clock) -> v1::Clock {
    match clock {
        Clock::System => v1::Clock::System,
        Clock::Event => v1::Clock::Event,
    }
}

/// A system clock has no lead.
fn lead_message(clock: Clock, lead_ms: Option<i64>) -> Option<prost_types::Duration> {
    duration_message(lead_ms.filter(|_| clock == Clock::Event))
}

fn duration_message(ttl_ms: Option<i64>) -> Option<prost_types::Duration> {
    let ttl = Duration::from_millis(ttl_ms?.unsigned_abs());
    ttl.try_into().ok()
}

fn log_message(log: &FleetLog) -> v1::FleetLog {
    let (reading, syncs) = (log.reading(), log.syncs());
    let LogReading { durable_epoch, position, checkpoint_epoch, bytes, condition, .. } = reading;
    let duration = |time: Duration| time.try_into().ok();
    let tail_rows = log.tail().rows(checkpoint_epoch);
    v1::FleetLog {
        durable_epoch,
        segment: position.segment,
        offset: position.offset,
        checkpoint_epoch,
        byte_count: bytes,
        pending_byte_count: log.pending_bytes(),
        problem: match condition {
            LogCondition::Running => String::new(),
            LogCondition::NoSpace(why) | LogCondition::Failed(why) => why.to_string(),
        },
        pending_cycle_count: log.pending_cycles(),
        group_count: syncs.groups,
        sync_p50: syncs.p50.and_then(duration),
        sync_p99: syncs.p99.and_then(duration),
        recovery_duration: duration(reading.recovery),
        checkpoint_ms: reading.checkpoint_ms,
        checkpoint_duration: duration(reading.checkpoint_time)
            .filter(|_| reading.checkpoint_ms > 0),
        tail_row_count: tail_rows,
        tail_duration: duration(log.tail().replay_time(tail_rows)),
    }
}

fn history_message(reading: HistoryReading) -> v1::HistoryState {
    v1::HistoryState {
        watermark_epoch: reading.watermark.position.epoch,
        watermark_ms: reading.watermark.clock_ms,
        backlog_byte_count: reading.backlog_bytes,
        run_count: reading.runs,
        fix_count: reading.rows,
        byte_count: reading.bytes,
        sealed_fix_count: reading.sealed_rows,
        merge_count: reading.merges,
        retry_count: reading.retries,
        problem: reading.failed.map(|why| why.to_string()).unwrap_or_default(),
        erasing_count: reading.erasing,
        dropped_fix_count: reading.dropped_rows,
        kept_from_ms: reading.kept_from_ms,
        gaps: reading.gaps.iter().map(gap_message).collect(),
    }
}

/// Cycles that a history lacks.
pub(super) fn gap_message(gap: &Gap) -> v1::HistoryGap {
    v1::HistoryGap {
        first_epoch: gap.first_epoch,
        last_epoch: gap.last_epoch,
        from_ms: (gap.from_ms != i64::MIN).then_some(gap.from_ms),
        to_ms: gap.to_ms,
    }
}

fn replication_message(
    fleet: &Fleet,
    log: &FleetLog,
    unfenced_leader: String,
) -> v1::FleetReplication {
    let (role, leader) = match fleet.role() {
        Role::Leader { .. } => (v1::ReplicationRole::Leader, String::new()),
        Role::Follower(following) => (v1::ReplicationRole::Follower, following.leader.to_string()),
        Role::Fenced { .. } => (v1::ReplicationRole::Fenced, String::new()),
    };
    let follower = |(address, durable_epoch)| v1::FleetFollower { address, durable_epoch };
    v1::FleetReplication {
        role: role.into(),
        leader,
        staleness: fleet.staleness().map(staleness_message),
        followers: log.followers().connected().into_iter().map(follower).collect(),
        unfenced_leader,
    }
}

pub(super) fn staleness_message(staleness: Staleness) -> v1::Staleness {
    let Staleness { leader_epoch, stale_ms } = staleness;
    v1::Staleness { leader_epoch, stale_ms }
}

fn space_message(space: &Space) -> v1::Space {
    let kind = if space.is_geographic() {
        Kind::Geographic(v1::GeographicSpace {})
    } else {
        let bounds = space.bounds();
        let (width_m, height_m) = space.to_api(bounds.x_max, bounds.y_max);
        Kind::Planar(v1::PlanarSpace { width_m, height_m, quantum_m: space.quantum() })
    };
    v1::Space { kind: Some(kind) }
}
