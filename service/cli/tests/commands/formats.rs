//! Files of each format, from a command to the answers of the server.

use std::path::Path;

use serde_json::json;

use crate::shoal::Served;

/// The objects of a fleet with their times and positions, rounded to 6 digits.
fn objects(served: &Served, fleet: &str) -> Vec<String> {
    let line = format!("range --rect -180,-90,180,90 --json --fleet {fleet}");
    let document = served.run(&line).json(0);
    let rows = document["rows"].as_array().unwrap().iter();
    let mut rows: Vec<_> = rows
        .map(|row| {
            let id = &row["object"];
            let number = |key: &str| row[key].as_f64().unwrap();
            format!("{id} {} {:.6},{:.6}", row["time_ms"], number("x"), number("y"))
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn each_format_is_reported_and_its_rows_add_up() {
    let served = Served::start(&[]);
    let folder = Path::new("tests/samples");
    for (file, flags, rows, unreadable, expected) in [
        ("taxis.csv", "", 4, 0, "1 1769860805000 11.576020,48.137160"),
        ("buses.ndjson", "", 4, 0, "4711 1769860805000 18.068100,59.329400"),
        ("trucks.geojson", "", 3, 0, "11 1769860800000 11.576124,48.137154"),
        ("walk.gpx", " --object 7", 4, 1, "7 1767254410000 11.575003,48.137201"),
        ("ships.nmea", "", 7, 2, "423302100 1769860801000 53.010997,40.005283"),
        ("boat.nmea", " --object 7", 3, 1, "7 1769847302000 11.833082,57.660362"),
        ("vehicles.pb", "", 4, 1, "9031005901234 1769860855000 18.068600,59.329300"),
    ] {
        let fleet = file.replace('.', "-");
        let named = if file == "vehicles.pb" { " --named" } else { "" };
        served.run(&format!("fleets create {fleet}{named}")).expect(0);
        let line = format!("report {} --fleet {fleet} --json{flags}", folder.join(file).display());
        let exit = if unreadable > 0 { 3 } else { 0 };
        let summary = served.run(&line).json(exit);
        assert_eq!(summary["rows_sent"], json!(rows), "{file}: {summary}");
        assert_eq!(summary["unreadable_rows"], json!(unreadable), "{file}: {summary}");
        let counts = summary["rows"].as_object().unwrap().values();
        assert_eq!(counts.filter_map(|count| count.as_u64()).sum::<u64>(), rows, "{summary}");
        let found = objects(&served, &fleet);
        let is_found = found.iter().any(|row| row.replace('"', "") == expected);
        assert!(is_found, "{file}: {found:?}");
    }
    served.run("fleets create plane --space planar:1000x1000").expect(0);
    let said = served.run("report tests/samples/walk.gpx --fleet plane --object 7").refused(2);
    assert!(said.contains("the fleet is planar"), "{said}");
}
