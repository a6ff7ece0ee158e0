//! Hazard: a file of fixes with faults.
//!
//! Each fault must give an error with file, line and field, the other rows must be read, and the
//! reader must never hold more than a line. Numbers must be read exactly.

use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_table::{CSV_LINE_BYTES_MAX, CsvReader, Fix, SpeedUnit};

fn reader(bytes: impl Into<Vec<u8>>) -> CsvReader {
    let bytes = std::io::Cursor::new(bytes.into());
    CsvReader::from_reader(bytes, Path::new("fleet.csv"), SpeedUnit::Knots).unwrap()
}

fn header_refusal(text: &str) -> String {
    let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
    let refused = CsvReader::from_reader(bytes, Path::new("fleet.csv"), SpeedUnit::Knots);
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
        heading_deg: Some(360.0),
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
    let refusal = header_refusal("object_id,t_ms,longitude,lat\n1,10,0,0\n");
    let expected = "fleet.csv, line 1, lon: the header has no such column; \
                    object_id, t_ms, lon and lat are required";
    assert_eq!(refusal, expected);
    let refusal = header_refusal("object_id,t_ms,lon,lat,lat\n");
    assert_eq!(refusal, "fleet.csv, line 1, lat: the header has this column twice");
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
                1,10.5,0,0,\n\
                1,10,NaN,0,\n\
                1,10,0,1e999,\n\
                1,10,0,0,fast\n\
                1,10,0,0\n\
                1,10,0,0,1,2\n\
                1,10,\"0\",0,\n\
                2,20,0,0,7\n";
    let expected = [
        "1,10",
        "fleet.csv, line 3, object_id: `-1` is not an integer in range",
        "fleet.csv, line 4, t_ms: `10.5` is not an integer in range",
        "fleet.csv, line 5, lon: `NaN` is not a finite number",
        "fleet.csv, line 6, lat: `1e999` is not a finite number",
        "fleet.csv, line 7, speed: `fast` is not a finite number",
        "fleet.csv, line 8, line: not 5 fields, as many as the header has",
        "fleet.csv, line 9, line: not 5 fields, as many as the header has",
        "fleet.csv, line 10, lon: `\"0\"` is not a finite number",
        "2,20",
    ];
    assert_eq!(outcome(text), expected);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let mut bytes = b"object_id,t_ms,lon,lat\n1,10,\xff,0\n2,20,0,0".to_vec();
    assert_eq!(outcome(bytes.clone()), ["fleet.csv, line 2, line: not UTF-8 text", "2,20"]);
    bytes.insert(0, 0xc3);
    let bytes = std::io::Cursor::new(bytes);
    let refused = CsvReader::from_reader(bytes, Path::new("fleet.csv"), SpeedUnit::Knots);
    assert!(refused.err().unwrap().to_string().contains("header: not UTF-8"));
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
    let reader = CsvReader::from_reader(drip, Path::new("drip"), SpeedUnit::Knots).unwrap();
    let dripped: Vec<Fix> = reader.map(|row| row.unwrap()).collect();
    let at_once: Vec<Fix> = self::reader(text).map(|row| row.unwrap()).collect();
    assert_eq!(dripped, at_once);
    assert_eq!(dripped.len(), 499);
}
