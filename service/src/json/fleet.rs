//! A fleet, and the names and numbers in its description.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use shoal_client::{duration, v1};

use super::past::GapJson;
use crate::fleet_space;

/// One fleet for scripts. The term is a string. If `ttl_ms` is 0, objects do not expire.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fleet")]
pub struct FleetJson {
    name: String,
    kind: &'static str,
    names: u64,
    space: String,
    clock: &'static str,
    clock_ms: i64,
    ttl_ms: i64,
    event_clock_lead_ms: Option<i64>,
    objects_max: u64,
    term: String,
    epoch: u64,
    objects: u64,
    memory_bytes: u64,
    engine: String,
    grid_updates: Value,
    rows: Value,
    queries: u64,
    durability: &'static str,
    log: Option<Value>,
    replication: Option<Value>,
    history: Option<Value>,
}

impl FleetJson {
    /// Converts the description of a fleet.
    #[must_use]
    pub fn new(fleet: &v1::Fleet) -> Self {
        Self {
            name: fleet.name.clone(),
            kind: kind_name(fleet),
            names: fleet.name_count,
            space: space_name(fleet),
            clock: clock_name(fleet),
            clock_ms: fleet.clock_ms,
            ttl_ms: ttl_ms(fleet),
            event_clock_lead_ms: lead_ms(fleet),
            objects_max: fleet.limits.unwrap_or_default().objects_max,
            term: fleet.term.to_string(),
            epoch: fleet.epoch,
            objects: fleet.object_count,
            memory_bytes: fleet.memory_bytes,
            engine: fleet.engine.clone(),
            grid_updates: grid_updates_json(&fleet.grid_updates.unwrap_or_default()),
            rows: counts_json(&fleet.row_counts.unwrap_or_default()),
            queries: fleet.query_count,
            durability: durability_name(fleet),
            log: fleet.log.as_ref().map(log_json),
            replication: fleet.replication.as_ref().map(replication_json),
            history: fleet.history.as_ref().map(history_json),
        }
    }

    /// One line of JSON.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("names and numbers are always JSON")
    }
}

/// True if the objects of a fleet have names.
#[must_use]
pub fn is_named(fleet: &v1::Fleet) -> bool {
    fleet.kind() == v1::FleetKind::Named
}

fn kind_name(fleet: &v1::Fleet) -> &'static str {
    if is_named(fleet) { "named" } else { "numeric" }
}

/// `geographic` or `planar:...`, the form that `--space` takes.
#[must_use]
pub fn space_name(fleet: &v1::Fleet) -> String {
    fleet_space::space(fleet).map_or_else(|error| error.to_string(), |space| space.to_string())
}

/// Row counts as JSON.
#[must_use]
pub fn counts_json(rows: &v1::RowCounts) -> Value {
    let v1::RowCounts { applied, duplicate, superseded, late, refused, ahead, expired } = rows;
    json!({
        "applied": applied,
        "duplicate": duplicate,
        "superseded": superseded,
        "late": late,
        "refused": refused,
        "ahead": ahead,
        "expired": expired,
    })
}

fn grid_updates_json(updates: &v1::GridUpdates) -> Value {
    json!({ "applied": updates.applied, "rebuilt": updates.rebuilt })
}

fn log_json(log: &v1::FleetLog) -> Value {
    json!({
        "durable_epoch": log.durable_epoch,
        "segment": log.segment,
        "offset": log.offset,
        "checkpoint_epoch": log.checkpoint_epoch,
        "bytes": log.byte_count,
        "pending_bytes": log.pending_byte_count,
        "pending_cycles": log.pending_cycle_count,
        "groups": log.group_count,
        "sync_p50_ms": millis(log.sync_p50),
        "sync_p99_ms": millis(log.sync_p99),
        "recovery_ms": millis(log.recovery_duration),
        "checkpoint_ms": log.checkpoint_ms,
        "checkpoint_duration_ms": millis(log.checkpoint_duration),
        "tail_rows": log.tail_row_count,
        "tail_ms": millis(log.tail_duration),
        "problem": log.problem,
    })
}

/// Milliseconds with fractions, if there is a time.
#[must_use]
pub fn millis(time: Option<prost_types::Duration>) -> Option<f64> {
    time.map(|time| time.seconds as f64 * 1e3 + f64::from(time.nanos) / 1e6)
}

/// `leader`, `follower` or `fenced`.
#[must_use]
pub fn role_name(replication: &v1::FleetReplication) -> &'static str {
    match replication.role() {
        v1::ReplicationRole::Follower => "follower",
        v1::ReplicationRole::Fenced => "fenced",
        v1::ReplicationRole::Leader | v1::ReplicationRole::Unspecified => "leader",
    }
}

fn replication_json(replication: &v1::FleetReplication) -> Value {
    let follower = |it: &v1::FleetFollower| {
        let (address, epoch) = (&it.address, it.durable_epoch);
        json!({ "address": address, "durable_epoch": epoch })
    };
    let followers: Vec<Value> = replication.followers.iter().map(follower).collect();
    json!({
        "role": role_name(replication),
        "leader": replication.leader,
        "leader_epoch": replication.staleness.map(|it| it.leader_epoch),
        "stale_ms": replication.staleness.map(|it| it.stale_ms),
        "followers": followers,
        "unfenced_leader": replication.unfenced_leader,
    })
}

/// `logged` or `applied`.
#[must_use]
pub fn durability_name(fleet: &v1::Fleet) -> &'static str {
    match fleet.durability() {
        v1::Durability::Logged => "logged",
        v1::Durability::Applied | v1::Durability::Unspecified => "applied",
    }
}

fn history_json(history: &v1::HistoryState) -> Value {
    json!({
        "watermark_epoch": history.watermark_epoch,
        "watermark_ms": history.watermark_ms,
        "backlog_bytes": history.backlog_byte_count,
        "runs": history.run_count,
        "fixes": history.fix_count,
        "bytes": history.byte_count,
        "sealed_fixes": history.sealed_fix_count,
        "merges": history.merge_count,
        "retries": history.retry_count,
        "erasing": history.erasing_count,
        "dropped_fixes": history.dropped_fix_count,
        "kept_from_ms": history.kept_from_ms,
        "gaps": history.gaps.iter().map(GapJson::from).collect::<Vec<_>>(),
        "problem": history.problem,
    })
}

/// `system` or `event`.
#[must_use]
pub fn clock_name(fleet: &v1::Fleet) -> &'static str {
    match fleet.clock() {
        v1::Clock::Event => "event",
        v1::Clock::System | v1::Clock::Unspecified => "system",
    }
}

/// Time to live in milliseconds; 0 if there is none.
#[must_use]
pub fn ttl_ms(fleet: &v1::Fleet) -> i64 {
    fleet.ttl.and_then(|ttl| duration::to_millis(&ttl).ok()).unwrap_or(0)
}

/// Lead of the event clock in milliseconds; `None` with a system clock.
#[must_use]
pub fn lead_ms(fleet: &v1::Fleet) -> Option<i64> {
    fleet.event_clock_lead.and_then(|lead| duration::to_millis(&lead).ok())
}
