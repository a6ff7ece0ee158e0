//! Converts fleets and their state to messages of the API.

use std::time::Duration;

use shoal_engine::GridUpdates;
use shoal_history::Gap;
use shoal_proto::v1;

use super::ack_range::row_counts;
use crate::fleet::{Fleet, Role, Staleness};
use crate::fleet_request::{
    clock_value, durability_value, duration_message, kind_value, lead_message,
};
use crate::fleet_space;
use crate::persistence::{FleetLog, HistoryReading, LogCondition, LogReading};

/// The current state of a fleet; see `FleetReplication.unfenced_leader`.
pub(super) fn message(fleet: &Fleet, engine: &str, unfenced_leader: String) -> v1::Fleet {
    let (view, options) = (fleet.view(), fleet.options());
    let clock = clock_value(options.clock);
    v1::Fleet {
        name: fleet.name().as_str().to_owned(),
        space: Some(fleet_space::to_wire(&options.space)),
        clock: clock.into(),
        ttl: duration_message(options.ttl_ms),
        limits: Some(v1::FleetLimits { objects_max: options.objects_max }),
        term: fleet.term(),
        epoch: view.epoch,
        clock_ms: view.clock_ms,
        clock_set_back_count: view.clock_rewinds,
        object_count: view.objects,
        memory_bytes: view.memory_bytes,
        grid_updates: Some(grid_updates_message(view.grid_updates)),
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

fn grid_updates_message(updates: GridUpdates) -> v1::GridUpdates {
    let GridUpdates { applied, rebuilt } = updates;
    v1::GridUpdates { applied, rebuilt }
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

/// Converts a gap of a history, the cycles that it lacks.
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
