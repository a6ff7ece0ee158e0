//! Output formats are stable for scripts: keys, types and ids of JSON and GeoJSON, and the row
//! limit of tables.

use std::collections::BTreeSet;

use crate::shoal::Served;
use geojson::{FeatureCollection, GeometryValue};
use serde_json::Value;

/// Ids that a double cannot represent; one object has every attribute.
fn served() -> Served {
    let served = Served::start(&["--clock", "event"]);
    let all = "report --object 18446744073709551614 --x -97.7430001 --y 30.25 \
               --time 2016-11-26T06:01:06.5Z --speed 4.25 --heading 359.99 --altitude -3.5 \
               --state 6";
    served.run(all).expect(0);
    served
        .run("report --object 9007199254740993 --x -97.5 --y 30.5 --time 1480140066000")
        .expect(0);
    served
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn json_has_the_same_keys_in_every_row() {
    let served = served();
    let document = served.run("range --rect -180,-90,180,90 --json").json(0);
    let header = BTreeSet::from([
        "fleet",
        "term",
        "epoch",
        "clock_ms",
        "clock",
        "staleness_epochs",
        "total",
        "truncated",
        "rows",
    ]);
    assert_eq!(keys(&document), header);
    assert!(document["term"].is_string() && document["epoch"].is_u64());
    assert_eq!((&document["total"], &document["truncated"]), (&2.into(), &false.into()));
    let row = BTreeSet::from([
        "object",
        "time_ms",
        "time",
        "age_ms",
        "x",
        "y",
        "speed_mps",
        "heading_deg",
        "altitude_m",
        "valid_s",
        "state",
    ]);
    let rows = document["rows"].as_array().unwrap();
    assert!(rows.iter().all(|it| keys(it) == row), "{document:#}");
    assert_eq!(rows[0]["object"], "9007199254740993");
    assert_eq!((&rows[0]["speed_mps"], &rows[0]["state"]), (&Value::Null, &0.into()));
    assert_eq!((rows[0]["age_ms"].as_i64(), rows[1]["age_ms"].as_i64()), (Some(500), Some(0)));
    assert_eq!(rows[1]["object"], "18446744073709551614");
    assert_eq!(rows[1]["time"], "2016-11-26T06:01:06.500Z");
    for (key, value) in [
        ("x", -97.7430001),
        ("y", 30.25),
        ("speed_mps", 4.25),
        ("heading_deg", 359.99),
        ("altitude_m", -3.5),
    ] {
        assert_eq!(rows[1][key], value, "{key}");
    }
}

#[test]
fn projections_omit_fields() {
    let served = served();
    let ids = served.run("get 18446744073709551614 --ids --json").json(0);
    assert_eq!(ids["rows"], serde_json::json!([{ "object": "18446744073709551614" }]));
    let near = served.run("nearest -97.5,30.5 -k 1 --ids --json").json(0);
    assert_eq!(keys(&near["rows"][0]), BTreeSet::from(["object", "distance_m"]));
    let count = served.run("range --circle -97.5,30.5,10 --count --json").json(0);
    assert_eq!((&count["total"], count.get("rows")), (&1.into(), None));
    let cut = served.run("range --rect -180,-90,180,90 --limit 1 --json").json(0);
    assert_eq!((&cut["total"], &cut["truncated"]), (&2.into(), &true.into()));
    assert_eq!(cut["rows"].as_array().unwrap().len(), 1);
    let none = served.run("range --circle 0,0,10 --json").json(0);
    assert_eq!(none["rows"], serde_json::json!([]));
}

#[test]
fn geojson_is_valid_for_the_geojson_crate() {
    let served = served();
    for line in ["get 9007199254740993", "range --circle -97.5,30.5,10", "nearest -97.5,30.5 -k 1"]
    {
        let text = served.run(&format!("{line} --geojson")).expect(0);
        let collection: FeatureCollection = text.parse().unwrap();
        assert_eq!(collection.features.len(), 1, "{line}");
        let feature = &collection.features[0];
        let GeometryValue::Point { coordinates } = &feature.geometry.as_ref().unwrap().value else {
            panic!("{line}: no point");
        };
        assert_eq!(coordinates.as_slice(), [-97.5, 30.5], "{line}");
        assert_eq!(feature.property("object").unwrap(), "9007199254740993");
        assert_eq!(feature.property("time_ms").unwrap(), 1_480_140_066_000_i64);
        assert!(feature.contains_property("distance_m") == line.starts_with("nearest"));
        let header = &collection.foreign_members.as_ref().unwrap()["shoal"];
        assert_eq!((&header["fleet"], &header["total"]), (&"default".into(), &1.into()));
    }
    served.run("fleets create plane --space planar:10x10").expect(0);
    let refused = served.run("range --rect 0,0,1,1 --fleet plane --geojson").refused(2);
    assert!(refused.contains("planar"), "{refused}");
}

#[test]
fn a_long_table_is_cut_with_a_notice() {
    let served = Served::start(&["--clock", "event"]);
    let rows: String =
        (0..1_500).map(|id| format!("{id},1480140066000,{},0\n", f64::from(id) / 100.0)).collect();
    served.run_with("report -", &format!("object_id,t_ms,lon,lat\n{rows}")).expect(0);
    let everywhere = "range --rect -180,-90,180,90";
    let table = served.run(everywhere).expect(0);
    assert_eq!(table.lines().count(), 1_002, "a head, a thousand rows, a foot");
    assert!(table.contains("1500 objects") && table.contains("--limit 0"), "{table}");
    assert_eq!(served.run(&format!("{everywhere} --limit 0")).expect(0).lines().count(), 1_502);
    assert_eq!(served.run(&format!("{everywhere} --ids")).expect(0).lines().count(), 1_500);
    let cut = served.run(&format!("{everywhere} --ids --limit 3"));
    assert!(cut.err.contains("3 of 1500"), "{cut:?}");
    assert_eq!(cut.expect(0), "0\n1\n2\n");
}
