//! A fleet as a row of a table, or as a list of its properties.

use comfy_table::Table;
use shoal_client::v1;
use shoal_service::json::fleet::{
    clock_name, durability_name, is_named, lead_ms, millis, role_name, space_name, ttl_ms,
};
use shoal_service::timestamp::{age, rfc3339};

use super::past::gap_text;
use super::table::plain_table;

fn time_text(time: Option<prost_types::Duration>) -> String {
    match millis(time) {
        None => "none".to_owned(),
        Some(millis) if millis < 1_000.0 => format!("{millis:.2} ms"),
        Some(millis) => format!("{:.2} s", millis / 1e3),
    }
}

/// Formats an upper bound of a time, or `none`.
fn limit_text(time: Option<prost_types::Duration>) -> String {
    time.map_or_else(|| "none".to_owned(), |time| format!("at most {}", time_text(Some(time))))
}

/// The copies of a fleet, one property a row.
fn replication_rows(replication: &v1::FleetReplication, epoch: u64) -> Vec<(&'static str, String)> {
    let mut rows = vec![("role", role_name(replication).to_owned())];
    if let Some(v1::Staleness { leader_epoch, stale_ms }) = replication.staleness {
        let behind = leader_epoch.saturating_sub(epoch);
        rows.push(("leader", replication.leader.clone()));
        rows.push(("behind the leader", format!("{behind} epochs; current {stale_ms} ms ago")));
    }
    if !replication.unfenced_leader.is_empty() {
        let leader = &replication.unfenced_leader;
        rows.push(("not fenced yet", format!("{leader}, which may still acknowledge reports")));
    }
    for v1::FleetFollower { address, durable_epoch } in &replication.followers {
        rows.push(("follower", format!("{address}, durable epoch {durable_epoch}")));
    }
    rows
}

/// The properties of a log, one a row.
fn log_rows(log: &v1::FleetLog) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("log durable epoch", log.durable_epoch.to_string()),
        ("log end", format!("segment {}, byte {}", log.segment, log.offset)),
        ("log size", bytes_text(log.byte_count)),
        (
            "log pending",
            format!("{}, {} cycles", bytes_text(log.pending_byte_count), log.pending_cycle_count),
        ),
        ("log groups", log.group_count.to_string()),
        ("log sync p50", limit_text(log.sync_p50)),
        ("log sync p99", limit_text(log.sync_p99)),
        ("log recovery", time_text(log.recovery_duration)),
        ("checkpoint epoch", log.checkpoint_epoch.to_string()),
        (
            "recovery from here",
            format!(
                "{} rows behind the checkpoint, about {}",
                log.tail_row_count,
                time_text(log.tail_duration)
            ),
        ),
    ];
    if log.checkpoint_ms > 0 {
        let (at, time) = (rfc3339(log.checkpoint_ms), time_text(log.checkpoint_duration));
        rows.push(("checkpoint", format!("complete at {at}, took {time}")));
    }
    if !log.problem.is_empty() {
        rows.push(("log problem", log.problem.clone()));
    }
    rows
}

/// The properties of a history, one a row.
fn history_rows(history: &v1::HistoryState) -> Vec<(&'static str, String)> {
    let v1::HistoryState { watermark_epoch, watermark_ms, run_count, fix_count, .. } = *history;
    let mut rows = vec![
        ("history epoch", format!("{watermark_epoch}, at {}", rfc3339(watermark_ms))),
        ("history behind", bytes_text(history.backlog_byte_count)),
        (
            "history size",
            format!("{}, {fix_count} fixes, {run_count} runs", bytes_text(history.byte_count)),
        ),
        (
            "history work",
            format!("{} fixes, {} merges", history.sealed_fix_count, history.merge_count),
        ),
    ];
    if let Some(kept_from_ms) = history.kept_from_ms {
        let (from, dropped) = (rfc3339(kept_from_ms), history.dropped_fix_count);
        rows.push(("history kept from", format!("{from}, {dropped} older fixes not taken")));
    }
    rows.extend(history.gaps.iter().map(|gap| ("history lacks", gap_text(gap))));
    if history.erasing_count > 0 {
        rows.push(("objects being erased", history.erasing_count.to_string()));
    }
    if !history.problem.is_empty() {
        rows.push(("history problem", history.problem.clone()));
    }
    rows
}

/// Bytes with a binary unit.
fn bytes_text(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
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

/// What identifies the objects of a fleet.
fn kind_text(fleet: &v1::Fleet) -> String {
    match is_named(fleet) {
        true => format!("names, {} so far", fleet.name_count),
        false => "numbers".to_owned(),
    }
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
    let v1::GridUpdates { applied, rebuilt } = fleet.grid_updates.unwrap_or_default();
    let objects_max = fleet.limits.unwrap_or_default().objects_max;
    let properties = [
        ("space", space_name(fleet)),
        ("objects are", kind_text(fleet)),
        ("clock", clock),
        ("ttl", ttl_text(fleet)),
        ("event clock lead", lead_ms(fleet).map_or("none".to_owned(), age)),
        ("engine", fleet.engine.clone()),
        ("objects", format!("{} of at most {objects_max}", fleet.object_count)),
        ("memory", bytes_text(fleet.memory_bytes)),
        ("epoch", fleet.epoch.to_string()),
        ("grid updates", format!("{applied} applied, {rebuilt} rebuilt")),
        ("term", fleet.term.to_string()),
        ("clock set back", fleet.clock_set_back_count.to_string()),
        ("rows applied", rows.applied.to_string()),
        ("rows duplicate", rows.duplicate.to_string()),
        ("rows superseded", rows.superseded.to_string()),
        ("rows late", rows.late.to_string()),
        ("rows expired", rows.expired.to_string()),
        ("rows refused", rows.refused.to_string()),
        ("rows ahead", rows.ahead.to_string()),
        ("queries", fleet.query_count.to_string()),
        ("durability", durability_name(fleet).to_owned()),
    ];
    let log = fleet.log.iter().flat_map(log_rows);
    let replication = fleet.replication.iter().flat_map(|it| replication_rows(it, fleet.epoch));
    let history = fleet.history.iter().flat_map(history_rows);
    for (name, text) in properties.into_iter().chain(log).chain(history).chain(replication) {
        table.add_row([name.to_owned(), text]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shoal_service::json::FleetJson;

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
            epoch: 40,
            replication: Some(v1::FleetReplication {
                role: v1::ReplicationRole::Follower.into(),
                leader: "10.0.0.1:7117".to_owned(),
                staleness: Some(v1::Staleness { leader_epoch: 42, stale_ms: 3 }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let line: Value = serde_json::from_str(&FleetJson::new(&fleet).line()).unwrap();
        assert_eq!(
            (line["space"].as_str(), line["clock"].as_str()),
            (Some("planar:100x50"), Some("event"))
        );
        assert_eq!(line["term"], "18446744073709551615");
        assert_eq!(line["replication"]["role"], "follower");
        let details = fleet_details(&fleet).to_string();
        for text in ["planar:100x50", "10.0.0.1:7117", "2 epochs; current 3 ms ago"] {
            assert!(details.contains(text), "{details}");
        }
        assert_eq!(line["log"], Value::Null);
        assert!(fleet_table(&[fleet]).to_string().contains("yard"));
    }

    #[test]
    fn a_log_is_described_in_full() {
        let time = |micros: i32| Some(prost_types::Duration { seconds: 0, nanos: micros * 1_000 });
        let log = v1::FleetLog {
            durable_epoch: 7,
            byte_count: 64 << 20,
            pending_byte_count: 2_048,
            pending_cycle_count: 3,
            group_count: 90,
            sync_p50: time(400),
            sync_p99: time(6_400),
            recovery_duration: Some(prost_types::Duration { seconds: 4, nanos: 250_000_000 }),
            checkpoint_epoch: 5,
            checkpoint_ms: 1_577_836_800_000,
            checkpoint_duration: time(125_000),
            ..Default::default()
        };
        let fleet = v1::Fleet { log: Some(log), ..Default::default() };
        let line: Value = serde_json::from_str(&FleetJson::new(&fleet).line()).unwrap();
        let log = &line["log"];
        for (key, value) in [
            ("pending_cycles", json!(3)),
            ("groups", json!(90)),
            ("sync_p50_ms", json!(0.4)),
            ("sync_p99_ms", json!(6.4)),
            ("recovery_ms", json!(4_250.0)),
            ("checkpoint_ms", json!(1_577_836_800_000_i64)),
            ("checkpoint_duration_ms", json!(125.0)),
        ] {
            assert_eq!(log[key], value, "{key} of {log}");
        }
        let text = fleet_details(&fleet).to_string();
        for part in [
            "2.00 KiB, 3 cycles",
            "at most 0.40 ms",
            "at most 6.40 ms",
            "4.25 s",
            "complete at 2020-01-01T00:00:00",
            "took 125.00 ms",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let empty = v1::Fleet { log: Some(v1::FleetLog::default()), ..Default::default() };
        let text = fleet_details(&empty).to_string();
        assert!(text.contains("none") && !text.contains("complete"), "{text}");
    }
}
