//! Hazard: a file of fixes with faults.
//!
//! Each fault must give an error with file, line and field, the other rows must be read, and the
//! reader must never hold more than a line. Numbers must be read exactly.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_table::{CSV_LINE_BYTES_MAX, CsvReader, Fix, FixFileOptions, SpeedUnit};
use shoal_testkit::Random;

/// Every value as it is, with speeds in knots.
fn knots() -> FixFileOptions {
    FixFileOptions::strict(SpeedUnit::Knots)
}

fn reader(bytes: impl Into<Vec<u8>>) -> CsvReader {
    let bytes = std::io::Cursor::new(bytes.into());
    CsvReader::from_reader(bytes, Path::new("fleet.csv"), &knots()).unwrap()
}

fn header_refusal(text: &str) -> String {
    let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
    let refused = CsvReader::from_reader(bytes, Path::new("fleet.csv"), &knots());
    refused.err().unwrap().to_string()
}

/// Fixes as `object,time` and refusals as their messages, in order.
fn outcome(bytes: impl Into<Vec<u8>>) -> Vec<String> {
    reader(bytes)
        .map(|row| match row {
            Ok(fix) => format!("{},{}", fix.object, fix.time_ms),
            Err(error) => error.to_string(),
        })
        .collect()
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn columns_are_found_by_name_and_digits_read_exactly() {
    let text = "lat,speed,extra,object_id,heading,lon,t_ms,recv_ms\n\
                30.268604,36,x,402,360,-97.744140000000001,1425708022000,1425708022060\n\
                -0.1,,,18446744073709551614,,180,-1,\n";
    let first = Fix {
        object: 402,
        time_ms: 1_425_708_022_000,
        x: -97.744_14,
        y: 30.268_604,
        speed_mps: Some(18.52),
        heading_deg: Some(0.0),
    };
    let second = Fix {
        object: u64::MAX - 1,
        time_ms: -1,
        x: 180.0,
        y: -0.1,
        speed_mps: None,
        heading_deg: None,
    };
    let fixes: Vec<Fix> = reader(text).map(|row| row.unwrap()).collect();
    assert_eq!(fixes, [first, second]);
}

#[test]
fn gzip_is_recognised_by_its_bytes_and_may_have_several_members() {
    let mut bytes = packed("object_id,t_ms,lon,lat\n1,10,0,0\n");
    bytes.extend(packed("2,20,0,0\n"));
    assert_eq!(outcome(bytes), ["1,10", "2,20"]);
}

#[test]
fn line_ends_blank_lines_and_a_byte_order_mark_do_not_matter() {
    let text = "\u{feff}object_id, t_ms ,lon,lat\r\n\r\n1,10,0,0\r\n   \n 2 ,20,0, 0";
    assert_eq!(outcome(text), ["1,10", "2,20"]);
    assert_eq!(outcome("\n\r\nobject_id,t_ms,lon,lat").len(), 0);
}

#[test]
fn headers_without_a_required_column_are_refused() {
    let refusal = header_refusal("object_id,t_ms,easting,lat\n1,10,0,0\n");
    let expected = "fleet.csv, line 1, header: no column of the x, which has a name like lon, \
                    longitude, lng; the columns are `object_id`, `t_ms`, `easting`, `lat`";
    assert_eq!(refusal, expected);
    let refusal = header_refusal("object_id,t_ms,lon,lat,lat\n");
    assert_eq!(refusal, "fleet.csv, line 1, header: two columns have the name `lat`");
    let refusal = header_refusal("\n\n");
    assert!(refusal.contains("the file is empty"), "{refusal}");
    let refusal = header_refusal(&"a,".repeat(300));
    assert_eq!(refusal, "fleet.csv, line 1, header: the header has more than 256 columns");
}

#[test]
fn a_bad_row_is_named_and_the_next_one_read() {
    let text = "object_id,t_ms,lon,lat,speed\n\
                1,10,0,0,\n\
                -1,10,0,0,\n\
                1,ten,0,0,\n\
                1,10,NaN,0,\n\
                1,10,0,1e999,\n\
                1,10,0,0,fast\n\
                1,10,0,0\n\
                1,10,0,0,1,2\n\
                1,10,\"0\"0,0,\n\
                2,20,0,0,7\n";
    let expected = [
        "1,10",
        "fleet.csv, line 3, object_id: `-1` is not a number of an object, 0 to \
         18446744073709551614; a fleet with names takes texts (--fleet NAME \
         --fleet-create named)",
        "fleet.csv, line 4, t_ms: `ten` is not a time: neither a Unix time nor ISO 8601 (another form \
         is named as in --time-format '%d/%m/%Y %H:%M')",
        "fleet.csv, line 5, lon: `NaN` is not a finite number",
        "fleet.csv, line 6, lat: `1e999` is not a finite number",
        "fleet.csv, line 7, speed: `fast` is not a finite number",
        "fleet.csv, line 8, line: 4 fields; the header has 5",
        "fleet.csv, line 9, line: 6 fields; the header has 5",
        "fleet.csv, line 10, line: text after the closing quote of a field",
        "2,20",
    ];
    assert_eq!(outcome(text), expected);
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_are_read() {
    let text = b"object_id,t_ms,lon,lat,caf\xe9\n1,10,\xff,0,\n2,20,0,0,G\xf6teborg";
    assert_eq!(outcome(*text), ["fleet.csv, line 2, lon: not UTF-8 text", "2,20"]);
    let utf16: Vec<u8> =
        "\u{feff}object_id,t_ms,lon,lat\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bytes = std::io::Cursor::new(utf16);
    let refused = CsvReader::from_reader(bytes, Path::new("fleet.csv"), &knots());
    assert!(refused.err().unwrap().to_string().contains("UTF-16"));
}

#[test]
fn lines_up_to_the_limit_are_read_and_longer_ones_passed_over() {
    let row = |length: usize, end: &str| {
        let start = "1,10,0,0,";
        format!("{start}{}{end}", "x".repeat(length - start.len()))
    };
    for extra in [1, 2, 200_000, 1_000_000] {
        let mut text = "object_id,t_ms,lon,lat,note\n".to_owned();
        text += &row(CSV_LINE_BYTES_MAX, "\n");
        text += &row(CSV_LINE_BYTES_MAX + extra, "\n");
        text += "2,20,0,0,\n";
        text += &row(CSV_LINE_BYTES_MAX + extra, "");
        let refusal = |line: u64| format!("fleet.csv, line {line}, line: longer than 65536 bytes");
        assert_eq!(outcome(text), ["1,10".to_owned(), refusal(3), "2,20".to_owned(), refusal(5)]);
    }
}

#[test]
fn a_truncated_or_damaged_gzip_gives_its_rows_and_then_one_error() {
    let rows: String = (1..20_000).map(|row| format!("{row},{},0.{row},0\n", row * 10)).collect();
    let whole = packed(&format!("object_id,t_ms,lon,lat\n{rows}"));
    for cut in [whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        let mut reader = reader(&whole[..cut]);
        let mut read = 0;
        let last = loop {
            match reader.next() {
                Some(Ok(fix)) => {
                    read += 1;
                    assert_eq!(fix.object, read);
                }
                Some(Err(error)) => break error,
                None => panic!("{cut} of {} bytes end without an error", whole.len()),
            }
        };
        assert!(last.ends_file(), "{last}");
        assert!(last.to_string().contains("cannot be read further"), "{last}");
        assert!(reader.next().is_none());
        assert!(read > 5_000, "{read} rows before the cut at {cut}");
    }
}

#[test]
fn small_reads_change_nothing() {
    struct Drip(std::vec::IntoIter<u8>);
    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            Ok(self.0.by_ref().zip(buffer.iter_mut().take(3)).map(|(from, to)| *to = from).count())
        }
    }
    let text: String = (1..500).map(|row| format!("{row},{row},-0.{row},9\r\n")).collect();
    let text = format!("object_id,t_ms,lon,lat\n{text}");
    let drip = Drip(text.clone().into_bytes().into_iter());
    let reader = CsvReader::from_reader(drip, Path::new("drip"), &knots()).unwrap();
    let dripped: Vec<Fix> = reader.map(|row| row.unwrap()).collect();
    let at_once: Vec<Fix> = self::reader(text).map(|row| row.unwrap()).collect();
    assert_eq!(dripped, at_once);
    assert_eq!(dripped.len(), 499);
}

/// The objects of a file, read with the default options.
fn objects(bytes: impl Into<Vec<u8>>) -> Vec<u64> {
    let bytes = std::io::Cursor::new(bytes.into());
    let name = Path::new("fleet.csv");
    let reader = CsvReader::from_reader(bytes, name, &FixFileOptions::default()).unwrap();
    reader.map(|row| row.unwrap().object).collect()
}

#[test]
fn quotes_and_separators_of_other_programs_are_read() {
    for text in [
        "\"object_id\",\"t_ms\",\"lon\",\"lat\"\n\"1\",\"10\",\"1.5\",\"2.5\"\n\"2\",\"10\",\"1\",\"2\"\n",
        "object_id,t_ms,lon,lat,name\n1,10,1.5,2.5,\"Harbour Rd, east\"\n2,10,1,2,Quay\n",
        "object_id,name,t_ms,lon,lat\n1,\"two\nlines, \"\"A\"\"\",10,1.5,2.5\n2,5\" pipe,10,1,2\n",
        "object_id;t_ms;lon;lat\r\n1;10;1,5;2,5\r\n2;10;1;2",
        "object_id\tt_ms\tlon\tlat\n1\t10\t1.5\t2.5\n2\t10\t1\t2",
        "\u{feff}\"object_id\"|\"t_ms\"|\"lon\"|\"lat\"\n1|10|1.5|2.5\n2|10|1|2",
        "MMSI,TimeStamp_ms,Longitude,Latitude\n000000001,10,1.5,2.5\n2.0,10,1,2\n",
        "sep=;\r\nobject_id;t_ms;lon;lat;a,b,c,d,e,f,g\r\n1;10;1,5;2,5;\r\n2;10;1;2;",
        "\u{feff}sep=\t\nobject_id\tt_ms\tlon\tlat\n1\t10\t1.5\t2.5\n2\t10\t1\t2",
    ] {
        assert_eq!(objects(text), [1, 2], "{text}");
    }
    let options = FixFileOptions { delimiter: Some(b'!'), ..FixFileOptions::default() };
    let bytes = std::io::Cursor::new("id!t_ms!lon!lat\n7!1!1,5!2\n");
    let mut reader = CsvReader::from_reader(bytes, Path::new("a"), &options).unwrap();
    let fix = reader.next().unwrap().unwrap();
    assert_eq!((fix.object, fix.x), (7, 1.5));
    assert_eq!(reader.describe()[1], "the separator is `!`");
}

#[test]
fn names_of_columns_that_are_not_utf8_are_latin1() {
    let columns = vec!["x=Längengrad".parse().unwrap(), "y=Höhe".parse().unwrap()];
    let options = FixFileOptions { columns, ..FixFileOptions::default() };
    let bytes = std::io::Cursor::new(b"id,t_ms,L\xe4ngengrad,H\xf6he,\xfc\n7,1,1.5,2,\n");
    let mut reader = CsvReader::from_reader(bytes, Path::new("a"), &options).unwrap();
    let fix = reader.next().unwrap().unwrap();
    assert_eq!((fix.object, fix.x, fix.y), (7, 1.5, 2.0));
    assert_eq!(reader.describe()[1], "ignored columns: `ü`");
}

#[test]
fn a_damaged_quote_costs_one_line() {
    let text = "object_id,name,t_ms,lon,lat\n1,\"open,10,0,0\n2,\"b\",10,0,0\n3,c,10,0,0\n\
                4,\"open,10,0,0\n5,e,10,0,0";
    let expected = [
        "fleet.csv, line 2, line: a quote is not closed",
        "2,10",
        "3,10",
        "fleet.csv, line 5, line: a quote is not closed",
        "5,10",
    ];
    assert_eq!(outcome(text), expected);
}

#[test]
fn a_stray_pair_of_quotes_hides_no_row() {
    let text =
        "object_id,t_ms,lon,lat,dest\n1,10,1,2,\"AB\n2,20,1,2,CD\n3,30,1,2,EF\"\n4,40,1,2,\n";
    let expected = ["fleet.csv, line 2, line: a quote is not closed", "2,20", "3,30", "4,40"];
    assert_eq!(outcome(text), expected);
    let header = "object_id,t_ms,lon,lat,\"two\nlines\"\n1,10,1,2,\"a\n\nb\"\n2,20,1,2,\n";
    assert_eq!(outcome(header), ["1,10", "2,20"]);
}

#[test]
fn measures_that_cannot_be_stored_cost_no_position() {
    let text = "object_id,t_ms,lon,lat,speed,heading,altitude,state\n\
                1,10,0,0,-1,-1,NULL,\n2,10,0,0,102.3,511,nan,7\n3,10,0,0,NA,360,-,0x1F\n\
                4,10,0,0,fast,400,1e99,TX\n5,10,0,0,-3,~,,-1\n6,10,zero,0,-3,,,\n";
    let bytes: Vec<u8> = text.bytes().map(|byte| if byte == b'~' { 0xff } else { byte }).collect();
    let bytes = std::io::Cursor::new(bytes);
    let name = Path::new("a.csv");
    let mut reader = CsvReader::from_reader(bytes, name, &FixFileOptions::default()).unwrap();
    let rows: Vec<_> = std::iter::from_fn(|| reader.next_row()).collect();
    let read: Vec<_> = rows.iter().flatten().collect();
    assert_eq!((rows.len(), read.len()), (6, 5));
    for row in &read {
        assert_eq!((row.fix.speed_mps, row.altitude_m), (None, None), "{row:?}");
        let heading = if row.fix.object == 3 { Some(0.0) } else { None };
        assert_eq!(row.fix.heading_deg, heading);
    }
    assert_eq!(read.iter().map(|row| row.state).collect::<Vec<_>>(), [0, 7, 31, 0, 0]);
    let dropped = reader.dropped();
    assert_eq!(dropped.count, 7);
    let lines = dropped.shown.iter().map(|shown| &shown["a.csv, line ".len()..]);
    let expected = [
        "5, speed: `fast`",
        "5, heading: `400`",
        "5, altitude: `1e99`",
        "5, state: `TX`",
        "6, heading: `not UTF-8 text`",
        "6, speed: `-3`",
        "6, state: `-1`",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn columns_units_and_times_are_described() {
    let text = "MMSI,BaseDateTime,LAT,LON,SOG,COG\n5,2026-11-25T07:00:00,60,25,36,90\n";
    let bytes = std::io::Cursor::new(text);
    let name = Path::new("a.csv");
    let mut reader = CsvReader::from_reader(bytes, name, &FixFileOptions::default()).unwrap();
    let fix = reader.next().unwrap().unwrap();
    let expected = Fix {
        object: 5,
        time_ms: 1_795_590_000_000,
        x: 25.0,
        y: 60.0,
        speed_mps: Some(18.52),
        heading_deg: Some(90.0),
    };
    assert_eq!(fix, expected);
    let expected = "object = MMSI, time = BaseDateTime (ISO 8601, without a zone: read as UTC), \
                    x = LON, y = LAT, speed = SOG (knots), heading = COG";
    assert_eq!(reader.describe(), [expected]);
}

/// Reads a file; fails unless each line after the header that is not blank is the first line of a
/// row or of an error, or belongs to a row of several lines whose fields were found.
fn account_for_all_lines(bytes: &[u8]) {
    let name = Path::new("a.csv");
    let cursor = std::io::Cursor::new(bytes.to_vec());
    let Ok(mut reader) = CsvReader::from_reader(cursor, name, &FixFileOptions::default()) else {
        // A damaged header refuses the file.
        return;
    };
    let header = reader.line();
    // Whether the fields of a row were found: only then can it have several lines.
    let mut is_split = BTreeMap::new();
    while let Some(row) = reader.next_row() {
        let has_fields = row.map_or_else(|error| error.field != "line", |_| true);
        assert_eq!(is_split.insert(reader.line(), has_fields), None);
    }
    let lines = bytes.split(|byte| *byte == b'\n').zip(1..).filter(|(_, line)| *line > header);
    for (text, line) in lines.filter(|(text, _)| !text.trim_ascii().is_empty()) {
        let row = is_split.range(..=line).next_back();
        let is_accounted_for = row.is_some_and(|(first, is_split)| *first == line || *is_split);
        assert!(is_accounted_for, "line {line}: {:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn no_mutation_of_a_file_loses_a_row_in_silence() {
    let plain: String = (1..60)
        .map(|row| {
            format!("{row},{}000,{row}.25,-{row}.5,{row},{}\n", 1_795_590_000 + row, row * 6)
        })
        .collect();
    let plain = format!("object_id,t_ms,lon,lat,speed,heading\n{plain}");
    let quoted: String = plain
        .lines()
        .map(|line| format!("\"{}\",\"Rd, \u{e9}\"\r\n", line.replace(',', "\",\"")))
        .collect();
    let semicolons = plain.replace(',', ";").replace('.', ",");
    let mut random = Random::new(shoal_testkit::fuzz_seed(1));
    for whole in [plain, quoted, semicolons] {
        for _ in 0..1_000 {
            let mut bytes = whole.clone().into_bytes();
            for _ in 0..=random.below(3) {
                let place = random.below(bytes.len());
                match random.below(6) {
                    0 => bytes[place] ^= 1 << random.below(8),
                    1 => bytes[place] = b",;\"\t\r x0\xff\0"[random.below(10)],
                    2 => bytes.truncate(place.max(60)),
                    3 => drop(bytes.drain(place..(place + random.below(40)).min(bytes.len()))),
                    4 => bytes.insert(place, b'"'),
                    _ => {
                        let other = random.below(bytes.len());
                        bytes.swap(place, other);
                    }
                }
            }
            account_for_all_lines(&bytes);
        }
    }
}
