//! Results as lines for people.

use super::row::Row;

/// Prints what stands above the rows of one experiment.
pub(super) fn print_head(experiment: &str) {
    println!("\n## {experiment}");
    println!(
        "{:>8} {:>5} {:>9} {:>8} {:>8} {:>11} {:>11} {:>9} {:>8} {:>7} {:>8} {:>8}  events",
        "workload",
        "",
        "objects",
        "circles",
        "radius m",
        "updates/s",
        "events/s",
        "ns/update",
        "ev/upd",
        "members",
        "p50 ms",
        "p99 ms",
    );
}

/// Prints one row; `ev/upd` is events an update, `members` circles that an object is in.
pub(super) fn print(row: &Row) {
    let workload = row.distribution.name();
    print!("{workload:>8} {:>5} {:>9} ", row.backend.name(), row.objects);
    print!("{:>8} {:>8} {:>11.0} ", row.regions, row.radius_m, row.updates_per_s);
    print!("{:>11.0} {:>9.1} ", row.events_per_s, row.ns_per_update);
    print!("{:>8.3} {:>7.2} ", row.events_per_update, row.memberships_per_object);
    println!("{:>8.2} {:>8.2}  {}", row.cycle_ms_p50, row.cycle_ms_p99, row.event_hash);
}
