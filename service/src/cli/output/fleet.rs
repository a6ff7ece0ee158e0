//! A fleet as a row of a table, as a list of its properties, or as JSON.
//!
//! All three are made from the same description.

use comfy_table::Table;
use serde::Serialize;
use serde_json::{Value, json};
use shoal_client::{duration, v1};

use super::table::plain_table;
use crate::cli::fleet_space;
use crate::cli::timestamp::{age, rfc3339};

/// One fleet for scripts. The term is a string; `ttl_ms` 0 means that objects stay.
#[derive(Clone, Debug, Serialize)]
pub struct FleetJson {
    name: String,
    space: String,
    clock: &'static str,
    clock_ms: i64,
    ttl_ms: i64,
    objects_max: u64,
    term: String,
    epoch: u64,
    objects: u64,
    memory_bytes: u64,
    engine: String,
    rows: Value,
    queries: u64,
    durability: &'static str,
    log: Option<Value>,
}

impl FleetJson {
    /// From the description of a fleet.
    #[must_use]
    pub fn new(fleet: &v1::Fleet) -> Self {
        Self {
            name: fleet.name.clone(),
            space: space_name(fleet),
            clock: clock_name(fleet),
            clock_ms: fleet.clock_ms,
            ttl_ms: ttl_ms(fleet),
            objects_max: fleet.limits.unwrap_or_default().objects_max,
            term: fleet.term.to_string(),
            epoch: fleet.epoch,
            objects: fleet.object_count,
            memory_bytes: fleet.memory_bytes,
            engine: fleet.engine.clone(),
            rows: counts_json(&fleet.row_counts.unwrap_or_default()),
            queries: fleet.query_count,
            durability: durability_name(fleet),
            log: fleet.log.as_ref().map(log_json),
        }
    }

    /// One line of JSON.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("names and numbers are always JSON")
    }
}

/// `geographic` or `planar:...`, the form that `--space` takes.
fn space_name(fleet: &v1::Fleet) -> String {
    fleet_space::space(fleet).map_or_else(|error| error.to_string(), |space| space.to_string())
}

/// Row counts as JSON.
#[must_use]
pub fn counts_json(rows: &v1::RowCounts) -> Value {
    let v1::RowCounts { applied, duplicate, superseded, late, refused } = rows;
    json!({
        "applied": applied,
        "duplicate": duplicate,
        "superseded": superseded,
        "late": late,
        "refused": refused,
    })
}

fn log_json(log: &v1::FleetLog) -> Value {
    json!({
        "durable_epoch": log.durable_epoch,
        "segment": log.segment,
        "offset": log.offset,
        "checkpoint_epoch": log.checkpoint_epoch,
        "bytes": log.byte_count,
        "pending_bytes": log.pending_byte_count,
        "problem": log.problem,
    })
}

fn durability_name(fleet: &v1::Fleet) -> &'static str {
    match fleet.durability() {
        v1::Durability::Logged => "logged",
        v1::Durability::Applied | v1::Durability::Unspecified => "applied",
    }
}

/// The properties of a log, one a row.
fn log_rows(log: &v1::FleetLog) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("log durable epoch", log.durable_epoch.to_string()),
        ("log end", format!("segment {}, byte {}", log.segment, log.offset)),
        ("log size", bytes_text(log.byte_count)),
        ("log pending", bytes_text(log.pending_byte_count)),
        ("checkpoint epoch", log.checkpoint_epoch.to_string()),
    ];
    if !log.problem.is_empty() {
        rows.push(("log problem", log.problem.clone()));
    }
    rows
}

fn clock_name(fleet: &v1::Fleet) -> &'static str {
    match fleet.clock() {
        v1::Clock::Event => "event",
        v1::Clock::System | v1::Clock::Unspecified => "system",
    }
}

/// Bytes with a binary unit.
fn bytes_text(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// Time to live in milliseconds; 0 without.
fn ttl_ms(fleet: &v1::Fleet) -> i64 {
    fleet.ttl.and_then(|ttl| duration::to_millis(&ttl).ok()).unwrap_or(0)
}

fn ttl_text(fleet: &v1::Fleet) -> String {
    match ttl_ms(fleet) {
        0 => "none".to_owned(),
        ttl_ms => age(ttl_ms),
    }
}

/// All fleets, one a row.
#[must_use]
pub fn fleet_table(fleets: &[v1::Fleet]) -> Table {
    let header =
        ["fleet", "space", "clock", "ttl", "engine", "objects", "memory", "epoch", "queries"];
    let mut table = plain_table(&header, &["fleet", "space", "clock", "engine"]);
    for fleet in fleets {
        table.add_row([
            fleet.name.clone(),
            space_name(fleet),
            clock_name(fleet).to_owned(),
            ttl_text(fleet),
            fleet.engine.clone(),
            fleet.object_count.to_string(),
            bytes_text(fleet.memory_bytes),
            fleet.epoch.to_string(),
            fleet.query_count.to_string(),
        ]);
    }
    table
}

/// One fleet, a property a row.
#[must_use]
pub fn fleet_details(fleet: &v1::Fleet) -> Table {
    let mut table = plain_table(&["fleet", &fleet.name], &["fleet", &fleet.name]);
    let clock = match fleet.clock_ms {
        0 => clock_name(fleet).to_owned(),
        clock_ms => format!("{}, at {}", clock_name(fleet), rfc3339(clock_ms)),
    };
    let rows = fleet.row_counts.unwrap_or_default();
    let objects_max = fleet.limits.unwrap_or_default().objects_max;
    let properties = [
        ("space", space_name(fleet)),
        ("clock", clock),
        ("ttl", ttl_text(fleet)),
        ("engine", fleet.engine.clone()),
        ("objects", format!("{} of at most {objects_max}", fleet.object_count)),
        ("memory", bytes_text(fleet.memory_bytes)),
        ("epoch", fleet.epoch.to_string()),
        ("term", fleet.term.to_string()),
        ("rows applied", rows.applied.to_string()),
        ("rows duplicate", rows.duplicate.to_string()),
        ("rows superseded", rows.superseded.to_string()),
        ("rows late", rows.late.to_string()),
        ("rows refused", rows.refused.to_string()),
        ("queries", fleet.query_count.to_string()),
        ("durability", durability_name(fleet).to_owned()),
    ];
    let log = fleet.log.iter().flat_map(log_rows);
    for (name, text) in properties.into_iter().chain(log) {
        table.add_row([name.to_owned(), text]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_described_in_full() {
        let plane = v1::PlanarSpace { width_m: 100.0, height_m: 50.0, quantum_m: 0.01 };
        let fleet = v1::Fleet {
            name: "yard".to_owned(),
            space: Some(v1::Space { kind: Some(v1::space::Kind::Planar(plane)) }),
            clock: v1::Clock::Event.into(),
            term: u64::MAX,
            object_count: 3,
            ..Default::default()
        };
        let line: Value = serde_json::from_str(&FleetJson::new(&fleet).line()).unwrap();
        assert_eq!(
            (line["space"].as_str(), line["clock"].as_str()),
            (Some("planar:100x50"), Some("event"))
        );
        assert_eq!(line["term"], "18446744073709551615");
        assert!(fleet_details(&fleet).to_string().contains("planar:100x50"));
        assert!(fleet_table(&[fleet]).to_string().contains("yard"));
    }
}
