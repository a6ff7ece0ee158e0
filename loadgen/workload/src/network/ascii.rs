//! Reads a road network from files in the ASCII form of Brinkhoff's generator (GeoInformatica
//! 2002).
//!
//! A network has a file of nodes and a file of edges, see [`Network`](super::Network). A bad line
//! is an error, because a network with holes would be another workload.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_table::{CSV_LINE_BYTES_MAX, CsvError, CsvFault, LineReader, TableError};

use super::graph::{Graph, Road};
use crate::WorkloadError;
use crate::limits::{NETWORK_EDGES_MAX, NETWORK_NODES_MAX};

/// Reads the network whose nodes are in `nodes_file`.
pub(super) fn read(nodes_file: &Path) -> Result<Graph, WorkloadError> {
    let mut places = HashMap::new();
    let mut nodes = Vec::new();
    each_line(nodes_file, NETWORK_NODES_MAX, |fields| {
        let id: i64 = fields.take("id", "an integer in range")?;
        let (x, y) = (fields.number("x")?, fields.number("y")?);
        if places.insert(id, nodes.len() as u32).is_some() {
            return Err((
                "id",
                CsvFault::not_a(&id.to_string(), "a new node: it is defined twice"),
            ));
        }
        nodes.push((x, y));
        Ok(())
    })?;
    let mut roads = Vec::new();
    each_line(&edges_file(nodes_file), NETWORK_EDGES_MAX, |fields| {
        fields.take::<i64>("id", "an integer in range")?;
        let mut end = |field| {
            let id: i64 = fields.take(field, "an integer in range")?;
            let place = places.get(&id).copied();
            place.ok_or_else(|| (field, CsvFault::not_a(&id.to_string(), "a node of the network")))
        };
        let (from, to) = (end("from")?, end("to")?);
        if from != to {
            roads.push(Road { from, to });
        }
        Ok(())
    })?;
    if roads.is_empty() {
        return Err(WorkloadError::NoRoads { file: edges_file(nodes_file) });
    }
    let sides_m = to_origin(&mut nodes);
    Ok(Graph::new(nodes, &roads, sides_m))
}

/// The file of edges that belongs to a file of nodes.
fn edges_file(nodes_file: &Path) -> PathBuf {
    let name = nodes_file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let edges = match name.rfind("node") {
        Some(place) => format!("{}edge{}", &name[..place], &name[place + 4..]),
        None => format!("{name}.edge"),
    };
    nodes_file.with_file_name(edges)
}

/// Moves the lower left corner to the origin; returns width and height in whole metres, at least 1,
/// because the sides of a space are multiples of its quantum.
fn to_origin(nodes: &mut [(f64, f64)]) -> (f64, f64) {
    let fold = |of: fn(&(f64, f64)) -> f64, pick: fn(f64, f64) -> f64| {
        nodes.iter().map(of).reduce(pick).unwrap_or_default()
    };
    let (west, east) = (fold(|node| node.0, f64::min), fold(|node| node.0, f64::max));
    let (south, north) = (fold(|node| node.1, f64::min), fold(|node| node.1, f64::max));
    for node in nodes {
        *node = (node.0 - west, node.1 - south);
    }
    ((east - west).ceil().max(1.0), (north - south).ceil().max(1.0))
}

/// Calls `row` with the fields of every line that is neither blank nor a comment, at most
/// `rows_max` of them.
fn each_line(
    file: &Path,
    rows_max: usize,
    mut row: impl FnMut(&mut Fields<'_>) -> Result<(), (&'static str, CsvFault)>,
) -> Result<(), TableError> {
    let bytes =
        File::open(file).map_err(|source| TableError::Io { file: file.to_owned(), source })?;
    let name: Arc<Path> = file.into();
    let mut lines = LineReader::new(bytes, CSV_LINE_BYTES_MAX);
    let mut rows = 0;
    let refuse = |line: u64, (field, fault): (&'static str, CsvFault)| {
        TableError::from(CsvError { file: name.clone(), line, field: field.to_owned(), fault })
    };
    loop {
        match lines.next_filled(b',') {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(fault) => return Err(refuse(lines.number(), ("line", fault))),
        }
        let text = std::str::from_utf8(lines.line())
            .map_err(|_| refuse(lines.number(), ("line", CsvFault::NotText)))?;
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with('#') {
            continue;
        }
        rows += 1;
        if rows > rows_max {
            let fault = CsvFault::TooMany { limit_rows: rows_max };
            return Err(refuse(lines.number(), ("line", fault)));
        }
        row(&mut Fields { rest: text }).map_err(|fault| refuse(lines.number(), fault))?;
    }
}

/// The fields of a line that are not read yet.
struct Fields<'line> {
    rest: &'line str,
}

impl Fields<'_> {
    fn take<T: std::str::FromStr>(
        &mut self,
        field: &'static str,
        expected: &'static str,
    ) -> Result<T, (&'static str, CsvFault)> {
        let between = |character: char| character == ',' || character.is_ascii_whitespace();
        let rest = self.rest.trim_start_matches(between);
        let (text, rest) = rest.split_once(between).unwrap_or((rest, ""));
        self.rest = rest;
        text.parse().map_err(|_| (field, CsvFault::not_a(text, expected)))
    }

    fn number(&mut self, field: &'static str) -> Result<f64, (&'static str, CsvFault)> {
        let value: f64 = self.take(field, "a number")?;
        if !value.is_finite() {
            return Err((field, CsvFault::not_a(&value.to_string(), "a finite number")));
        }
        Ok(value)
    }
}
