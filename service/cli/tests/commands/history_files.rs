//! Hazard: a file of the history that lacks, changes or invents fixes, or that looks complete and
//! is not.
//!
//! Exports are read with the library that other programs use, and compared with what was reported.
//! Imports of them into another fleet give the same history.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use crate::shoal::{Ran, Served};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use shoal_testkit::Random;
use tempfile::TempDir;

/// 2020-01-01T00:00:00Z.
const START_MS: u64 = 1_577_836_800_000;
const HEADER: &str = "object_id,t_ms,lon,lat,speed,heading,altitude,state,valid_s";
/// All times.
const ALL: &str = "--from 0 --to 4000000000000";

/// A server with a history that takes fixes at once, and its folder.
fn with_history(more: &[&str]) -> (TempDir, Served) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let settings = ["--clock", "event", "--history", "--limit", "history_seal_ms=1", "--data"];
    let served = Served::start(&[&settings[..], &[data.to_str().unwrap()], more].concat());
    (folder, served)
}

/// A decimal fraction without zeros at its end, as numbers are written.
fn decimal(value: i64, decimals: usize) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    let (sign, digits) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    let unit = 10_u64.pow(decimals as u32);
    let text = format!("{sign}{}.{:0decimals$}", digits / unit, digits % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Lines of CSV, each with its own object and time; some measures are unknown.
fn lines(seed: u64, rows: u64) -> BTreeSet<String> {
    let mut random = Random::new(seed);
    let mut line = |row: u64| {
        // Ids up to the greatest: 2^64 - 1 is none.
        let object = if row.is_multiple_of(7) { u64::MAX - 1 - row % 9 } else { random.below(50) };
        let time_ms = START_MS + row * 1_000 + random.below(999);
        let lon = decimal(random.below(3_599_999_999_i64) - 1_800_000_000, 7);
        let lat = decimal(random.below(1_800_000_001_i64) - 900_000_000, 7);
        let mut measure = |least: i64, limit: u64, decimals| {
            let value = random.below(limit) as i64 + least;
            if random.below(3) == 0 { String::new() } else { decimal(value, decimals) }
        };
        let (speed, heading) = (measure(0, 90_000, 3), measure(0, 36_000, 2));
        let altitude = measure(-500_000, 9_000_000, 3);
        let validity = measure(0, 100_000_000, 3);
        let state = if row.is_multiple_of(5) { u64::from(u32::MAX) } else { row % 3 };
        format!("{object},{time_ms},{lon},{lat},{speed},{heading},{altitude},{state},{validity}")
    };
    (0..rows).map(&mut line).collect()
}

fn text<'a>(lines: impl IntoIterator<Item = &'a String>) -> String {
    let lines: Vec<_> = lines.into_iter().map(String::as_str).collect();
    format!("{HEADER}\n{}\n", lines.join("\n"))
}

fn import(served: &Served, lines: &BTreeSet<String>) {
    let summary = served.run_with("history import - --json", &text(lines)).json(0);
    assert_eq!(summary["rows_sent"], lines.len());
}

/// Exports all fixes of the fleet `default` to a file of the folder.
fn export(served: &Served, folder: &Path, name: &str) -> std::path::PathBuf {
    let file = folder.join(name);
    let said = served.run(&format!("history export {} {ALL}", file.display())).expect(0);
    assert!(said.contains("fixes of the history up to epoch"), "{said}");
    file
}

/// The lines of an exported CSV file.
fn csv(served: &Served, folder: &Path) -> BTreeSet<String> {
    let file = export(served, folder, "again.csv");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    let rows: BTreeSet<String> = text.lines().skip(1).map(str::to_owned).collect();
    assert_eq!(text.lines().count(), rows.len() + 1);
    rows
}

fn metadata(file: &Path) -> ParquetMetaData {
    SerializedFileReader::new(File::open(file).unwrap()).unwrap().metadata().clone()
}

fn document(metadata: &ParquetMetaData, key: &str) -> Value {
    let pairs = metadata.file_metadata().key_value_metadata().unwrap();
    let pair = pairs.iter().find(|pair| pair.key == key).unwrap();
    serde_json::from_str(pair.value.as_ref().unwrap()).unwrap()
}

/// The rows of a GeoParquet file as lines of CSV; each has its point in `bbox`.
fn geoparquet(file: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let number = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Double(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    let row = |columns: Vec<(String, Field)>| {
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let expected = "object_id time geometry bbox speed heading altitude valid_s state";
        assert_eq!(names.join(" "), expected);
        let fields: Vec<&Field> = columns.iter().map(|(_, field)| field).collect();
        let [object, time, point, bbox, speed, heading, altitude, validity, state] = fields[..]
        else {
            unreachable!()
        };
        let (Field::ULong(object), Field::TimestampMillis(time_ms)) = (object, time) else {
            panic!("{object:?}, {time:?}");
        };
        let (Field::Bytes(point), Field::Group(bbox)) = (point, bbox) else {
            panic!("{point:?}, {bbox:?}");
        };
        let Field::UInt(state) = state else { panic!("{state:?}") };
        let coordinate =
            |at: usize| f64::from_le_bytes(point.data()[at..at + 8].try_into().unwrap());
        assert_eq!((point.data().len(), &point.data()[..5]), (21, &[1, 1, 0, 0, 0][..]));
        let (x, y) = (coordinate(5), coordinate(13));
        let sides: Vec<_> =
            bbox.get_column_iter().map(|(name, side)| (&**name, side.clone())).collect();
        let side = |name, value| (name, Field::Double(value));
        assert_eq!(sides, [side("xmin", x), side("ymin", y), side("xmax", x), side("ymax", y)]);
        let (speed, heading, altitude) = (number(speed), number(heading), number(altitude));
        let validity = number(validity);
        format!("{object},{time_ms},{x},{y},{speed},{heading},{altitude},{state},{validity}")
    };
    reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap().into_columns())).collect()
}

#[test]
fn an_export_has_exactly_the_reported_fixes_and_imports_give_them_back() {
    let lines = lines(1, 3_000);
    let (folder, served) = with_history(&[]);
    import(&served, &lines);
    assert_eq!(csv(&served, folder.path()), lines);
    let file = export(&served, folder.path(), "all.parquet");
    let rows = geoparquet(&file);
    assert_eq!((rows.len(), rows.iter().cloned().collect()), (lines.len(), lines.clone()));

    let found = metadata(&file);
    let geo = document(&found, "geo");
    assert_eq!((&geo["version"], &geo["primary_column"]), (&json!("1.1.0"), &json!("geometry")));
    let column = &geo["columns"]["geometry"];
    assert_eq!(
        (&column["encoding"], &column["geometry_types"]),
        (&json!("WKB"), &json!(["Point"]))
    );
    // Without `crs` positions are longitude and latitude.
    assert_eq!(column.get("crs"), None);
    assert_eq!(column["covering"]["bbox"]["ymax"], json!(["bbox", "ymax"]));
    let place = |column: usize| {
        let place = move |line: &String| line.split(',').nth(column).unwrap().parse().unwrap();
        let least = lines.iter().map(place).fold(f64::MAX, f64::min);
        (least, lines.iter().map(place).fold(f64::MIN, f64::max))
    };
    let ((west, east), (south, north)) = (place(2), place(3));
    assert_eq!(column["bbox"], json!([west, south, east, north]));
    let shoal = document(&found, "shoal");
    assert_eq!((&shoal["fleet"], shoal["epoch"].is_u64()), (&json!("default"), true));

    let geojson = export(&served, folder.path(), "all.geojson");
    let geojson: Value = serde_json::from_str(&fs::read_to_string(geojson).unwrap()).unwrap();
    assert_eq!(geojson["features"].as_array().unwrap().len(), lines.len());

    for name in ["all.parquet", "all.csv"] {
        let file = folder.path().join(name);
        if !file.exists() {
            export(&served, folder.path(), name);
        }
        let (other, second) = with_history(&[]);
        let line = format!("history import {} --producer a --batch 500 --json", file.display());
        let summary = second.run(&line).json(0);
        assert_eq!(
            (&summary["rows_sent"], &summary["rows"]["refused"]),
            (&3_000.into(), &0.into())
        );
        assert_eq!(csv(&second, other.path()), lines);
        // The same command again: every message was applied before.
        let again = second.run(&line).json(0);
        assert_eq!((&again["messages"], &again["duplicate_messages"]), (&6.into(), &6.into()));
        assert_eq!(csv(&second, other.path()), lines);
    }
}

/// Counts the rows of an export, and those that it or the CSV file has alone.
const COMPARE: &str = "
import duckdb, sys
columns = {'object_id': 'UBIGINT', 't_ms': 'BIGINT', 'lon': 'DOUBLE', 'lat': 'DOUBLE',
           'speed': 'DOUBLE', 'heading': 'DOUBLE', 'altitude': 'DOUBLE', 'state': 'UINTEGER',
           'valid_s': 'DOUBLE'}
export, reported = sys.argv[1:]
connection = duckdb.connect()
connection.execute(f'''create view export as select object_id, epoch_ms(time) as t_ms,
    bbox.xmin as lon, bbox.ymin as lat, speed, heading, altitude, state, valid_s
    from read_parquet('{export}')''')
connection.execute(f'''create view reported as
    select * from read_csv('{reported}', header = true, columns = {columns})''')
print(connection.sql('''select (select count(*) from export),
    (select count(*) from (from export except all from reported)),
    (select count(*) from (from reported except all from export))''').fetchall()[0])
";

#[test]
#[ignore = "needs Python with the package duckdb, which SHOAL_TEST_PYTHON names"]
fn duckdb_reads_the_same_fixes_as_were_reported() {
    let python = std::env::var("SHOAL_TEST_PYTHON").expect("SHOAL_TEST_PYTHON names a Python");
    let (folder, served) = with_history(&[]);
    let lines = lines(31, 20_000);
    import(&served, &lines);
    let file = export(&served, folder.path(), "all.parquet");
    let reported = folder.path().join("reported.csv");
    let compare = |lines: Vec<&String>| {
        fs::write(&reported, text(lines)).unwrap();
        let mut command = std::process::Command::new(&python);
        let ran = command.args(["-c", COMPARE]).args([&file, &reported]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    let rows = lines.len();
    assert_eq!(compare(lines.iter().collect()), format!("({rows}, 0, 0)"));
    assert_eq!(compare(lines.iter().skip(3).collect()), format!("({rows}, 3, 0)"));
}

#[test]
fn an_export_has_the_objects_the_region_and_the_window_asked_for() {
    let lines = lines(2, 500);
    let (folder, served) = with_history(&[]);
    import(&served, &lines);
    let exported = |name: &str, of: &str| {
        let file = folder.path().join(name);
        served.run(&format!("history export {} {of}", file.display())).expect(0);
        geoparquet(&file).into_iter().collect::<BTreeSet<_>>()
    };
    let fields = |line: &String| {
        let fields: Vec<f64> =
            line.split(',').map(|field| field.parse().unwrap_or(f64::NAN)).collect();
        (fields[0], fields[1] as u64, fields[2], fields[3])
    };
    let select = |is_wanted: &dyn Fn((f64, u64, f64, f64)) -> bool| {
        let wanted: BTreeSet<String> =
            lines.iter().filter(|line| is_wanted(fields(line))).cloned().collect();
        assert!(!wanted.is_empty());
        wanted
    };
    let west = select(&|(_, _, lon, lat)| lon < -10.0 && lat > 5.0);
    let rectangle = format!("--rect -180,5.0000001,-10.0000001,90 {ALL}");
    assert_eq!(exported("west.parquet", &rectangle), west);
    let objects = select(&|(object, ..)| object == 3.0 || object == 8.0);
    assert_eq!(exported("objects.parquet", &format!("--object 3 --object 8 {ALL}")), objects);
    let (from, to) = (START_MS + 100_000, START_MS + 200_000);
    let window = select(&|(_, time_ms, ..)| (from..=to).contains(&time_ms));
    assert_eq!(exported("window.parquet", &format!("--from {from} --to {to}")), window);

    assert_eq!(exported("none.parquet", "--from 0 --to 1"), BTreeSet::new());
    let none = folder.path().join("none.parquet");
    assert_eq!(document(&metadata(&none), "geo")["columns"]["geometry"].get("bbox"), None);
    let summary = served.run(&format!("history import {} --json", none.display())).json(0);
    assert_eq!(summary["rows_sent"], 0);
    let csv = folder.path().join("none.csv");
    served.run(&format!("history export {} --from 0 --to 1", csv.display())).expect(0);
    assert_eq!(fs::read_to_string(csv).unwrap(), format!("{HEADER}\n"));

    let refused = served.run(&format!("history export {} {ALL}", none.display())).refused(2);
    assert!(refused.contains("--force"), "{refused}");
    served.run(&format!("history export {} {ALL} --force", none.display())).expect(0);
    assert_eq!(geoparquet(&none).len(), 500);
}

#[test]
fn an_import_of_many_years_is_whole() {
    let (_folder, served) = with_history(&[]);
    // More hours than a history may have runs, eight years.
    let line = |hour: u64| format!("1,{},{},1,,,,0,", START_MS - hour * 3_600_000, hour % 90);
    import(&served, &(0..70_000).map(line).collect());
    let counted = served.run(&format!("history density --cell 90 --json {ALL}")).json(0);
    assert_eq!(counted["squares"], json!([[0, 0, 0, 70_000]]));
    let history = &served.run("fleets describe default --json").json(0)["history"];
    assert!(history["runs"].as_u64().unwrap() < 1_000, "{history}");
    assert!(history["bytes"].as_u64().unwrap() < 20 << 20, "{history}");
    assert_eq!((&history["dropped_fixes"], &history["kept_from_ms"]), (&json!(0), &Value::Null));
}

#[test]
fn rows_beyond_the_retention_are_an_error_of_the_import() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let settings = ["--history", "--history-retention", "1d", "--limit", "history_seal_ms=1"];
    let served = Served::start(&[&settings[..], &["--data", data.to_str().unwrap()]].concat());
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let line = |days: u64| format!("1,{},1,1,,,,0,", 1_000 * (since - 60 - 86_400 * days));
    // This row is refused, because it is older than any row may be.
    let refused = "2,946684799999,1,1,,,,0,".to_owned();
    let rows = text(&[line(10), line(9), line(0), refused]);
    // The first time they arrive before retention drops them, the second time they are too old.
    for dropped in [0, 2] {
        let ran = served.run_with("history import -", &rows);
        assert_eq!(ran.code, 1);
        assert!(ran.out.contains("not kept, older than the retention of the history: 2"));
        assert!(ran.err.contains("2 rows are older than its retention"), "{}", ran.err);
        let history = &served.run("fleets describe default --json").json(0)["history"];
        assert_eq!(history["dropped_fixes"], dropped, "{history}");
    }
    let kept = served.run_with("history import - --json", &text(&[line(0)])).json(0);
    assert_eq!((&kept["rows_not_kept"], &kept["rows"]["duplicate"]), (&json!(0), &json!(1)));
}

#[test]
fn positions_of_a_plane_have_no_reference_system() {
    let (folder, served) = with_history(&["--space", "planar:1000x500"]);
    let rows = "object_id,t_ms,x,y\n1,1577836800000,0,500\n2,1577836800001,1000,0.25\n";
    served.run_with("history import - --json", rows).json(0);
    let file = export(&served, folder.path(), "plane.parquet");
    let geo = document(&metadata(&file), "geo");
    assert_eq!(geo["columns"]["geometry"].get("crs"), Some(&Value::Null));
    assert_eq!(geo["columns"]["geometry"]["bbox"], json!([0.0, 0.25, 1_000.0, 500.0]));
    let expected = ["1,1577836800000,0,500,,,,0,", "2,1577836800001,1000,0.25,,,,0,"];
    assert_eq!(
        geoparquet(&file).into_iter().collect::<BTreeSet<_>>(),
        expected.map(String::from).into()
    );
    let refused =
        served.run(&format!("history export {}.geojson {ALL}", file.display())).refused(2);
    assert!(refused.contains("planar"), "{refused}");

    let (_folder, globe) = with_history(&[]);
    let refused = globe.run(&format!("history import {}", file.display())).refused(2);
    assert!(refused.contains("plane.parquet: its crs is null"), "{refused}");
    let again = served.run(&format!("report {} --json", file.display())).json(0);
    assert_eq!(again["rows_sent"], 2);
}

/// A file of another writer: times in microseconds, speeds in float, and faults.
fn foreign(file: &Path, geo: Option<&Value>) {
    let schema = "message schema {
        optional int64 object_id;
        optional int64 time (TIMESTAMP(MICROS, true));
        optional binary place;
        optional float speed;
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut out =
        SerializedFileWriter::new(File::create(file).unwrap(), schema, properties.into()).unwrap();
    let mut group = out.next_row_group().unwrap();
    let all: &[i16] = &[1; 5];
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[1, -2, 3, 4, 5], Some(all), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let times = [1_577_836_800_000_999; 4];
    column.typed::<Int64Type>().write_batch(&times, Some(&[1, 1, 0, 1, 1]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let point = [&[0, 0, 0, 0, 1], &1.5_f64.to_be_bytes()[..], &2.5_f64.to_be_bytes()].concat();
    let mut points = vec![ByteArray::from(point); 5];
    points[3] = ByteArray::from(vec![1, 2, 0, 0, 0]);
    column.typed::<ByteArrayType>().write_batch(&points, Some(all), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<FloatType>().write_batch(&[36.0], Some(&[1, 0, 0, 0, 0]), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    if let Some(geo) = geo {
        out.append_key_value_metadata(KeyValue::new("geo".to_owned(), geo.to_string()));
    }
    out.close().unwrap();
}

#[test]
fn bad_input_is_named_by_file_row_column_and_reason() {
    let (folder, served) = with_history(&[]);
    let file = folder.path().join("a.parquet");
    let column = json!({ "encoding": "WKB", "geometry_types": [] });
    let geo = |column: &Value| {
        let columns = json!({ "place": column });
        json!({ "version": "1.1.0", "primary_column": "place", "columns": columns })
    };
    foreign(&file, Some(&geo(&column)));
    let line = format!("history import {} --speed-unit km/h", file.display());
    let said = served.run(&line).expect(3);
    for fault in [
        "row 2, object_id: `-2` is no object id",
        "row 3, time: there is none; --time gives the time of all rows without one",
        "row 4, place: a geometry of WKB type 2 is no point",
    ] {
        assert!(said.contains(&format!("{}, {fault}", file.display())), "{said}");
    }
    let expected = ["1,1577836800000,1.5,2.5,10,,,0,", "5,1577836800000,1.5,2.5,,,,0,"];
    assert_eq!(csv(&served, folder.path()), expected.map(String::from).into());

    let refused = |fault: &str| {
        let said = served.run(&line).refused(2);
        assert!(said.contains(&format!("{}: ", file.display())) && said.contains(fault), "{said}");
    };
    foreign(&file, None);
    refused("no geometry column (metadata `geo` of GeoParquet)");
    let projected = json!({ "encoding": "WKB", "crs": { "name": "UTM zone 14N" } });
    foreign(&file, Some(&geo(&projected)));
    refused("UTM zone 14N");
    foreign(&file, Some(&geo(&json!({ "encoding": "linestring" }))));
    refused("encoding \"linestring\"");
    foreign(&file, Some(&geo(&json!({ "encoding": "point" }))));
    refused("no column place.x");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    refused("");
    fs::write(&file, "PAR1").unwrap();
    refused("");
    let without = Served::start(&[]);
    let said = without.run_with("history import -", "object_id,t_ms,lon,lat\n").refused(2);
    assert!(said.contains("--history"), "{said}");
}

#[test]
fn an_export_waits_until_the_history_has_what_the_fleet_has() {
    let (folder, served) = with_history(&["--limit", "history_seal_ms=5000"]);
    let lines = lines(3, 5);
    let reported = served.run_with("report - --producer p", &text(&lines)).expect(0);
    assert!(reported.contains("applied 5"), "{reported}");
    let early = folder.path().join("early.csv");
    let ran = served.run(&format!("history export {} {ALL} --no-wait", early.display()));
    assert!(ran.expect(0).starts_with("0 fixes"));
    let file = folder.path().join("all.csv");
    let ran = served.run(&format!("history export {} {ALL}", file.display()));
    assert!(ran.err.contains("the history of fleet default is behind: it has epoch"), "{ran:?}");
    assert!(ran.expect(0).starts_with("5 fixes"));

    let again = served.run_with("report - --producer p", &text(&lines)).expect(0);
    let expected = "sent before by this producer and not applied again: 5 rows in 1 messages";
    assert!(again.contains(expected), "{again}");
}

/// Passes connections on to `target`; cuts each after `limit` bytes of answers.
fn cutting(target: String, limit: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, server) = (client.unwrap(), TcpStream::connect(&target).unwrap());
            let (mut requests, mut to_server) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                // The end of either side ends the copy.
                let _ = std::io::copy(&mut requests, &mut to_server);
            });
            thread::spawn(move || {
                let _ = std::io::copy(&mut (&server).take(limit), &mut client);
                let _ = client.flush();
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn an_interrupted_export_leaves_no_file() {
    let (folder, served) = with_history(&[]);
    import(&served, &lines(3, 20_000));
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let address = cutting(served.address.clone(), 300_000);
    for name in ["a.parquet", "a.csv", "a.geojson"] {
        let line = format!("history export {} {ALL}", out.join(name).display());
        let mut command = served.client(&line);
        let ran = Ran::command(command.env("SHOAL_TARGET", format!("http://{address}")));
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{name}");
    }
    // The whole answer is longer than the cut.
    let whole = export(&served, &out, "a.csv");
    assert!(fs::metadata(whole).unwrap().len() > 1_000_000);
}
