//! `shoal-bench region`: times of single queries for large regions, by projection.
//!
//! All objects are loaded; then each query runs in cycles of its own. The clock covers submission
//! to answer.

use std::f64::consts::TAU;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_engine::{Backend, CycleInput, EngineOptions, Projection, Query, Region, Space};
use shoal_workload::Params;

use crate::engine::load;
use crate::error::BenchmarkError;
use crate::harness::command::value_name;
use crate::harness::source::{Attributes, Source};
use crate::harness::{
    AnswerHash, BackendName, Column, Common, Driver, Output, ResultRow, answers, cycle_input,
    median_of, range_query, table,
};

/// Updates of one cycle while objects are loaded.
const CYCLE_ROWS: usize = 1 << 18;

/// The flags of `shoal-bench region`.
#[derive(Args)]
pub(crate) struct Options {
    /// The engines.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu")]
    backends: Vec<BackendName>,
    /// The regions.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Shape::ALL)]
    shape: Vec<Shape>,
    /// Objects.
    #[arg(long, default_value_t = 1_000_000)]
    objects: u64,
    /// The workload that places the objects.
    #[arg(long, default_value = "uniform")]
    workload: String,
    /// Timed runs of each query, after one that is not counted; the median is shown.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    passes: u32,
    #[command(flatten)]
    common: Common,
}

/// A region in the middle of the workload's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    /// A rectangle: the whole space.
    Space,
    /// A rectangle: half of the width and of the height.
    Rectangle,
    /// A circle with 0.4 of the shorter side as its radius.
    Circle,
    /// A star with 8 vertices.
    Star8,
    /// A star with 64 vertices.
    Star64,
    /// A star with 4,096 vertices.
    Star4096,
}

impl Shape {
    const ALL: [Self; 6] =
        [Self::Space, Self::Rectangle, Self::Circle, Self::Star8, Self::Star64, Self::Star4096];

    fn region(self, space: &Space) -> Result<Region, BenchmarkError> {
        let bounds = space.bounds();
        let (west, south) = space.to_api(bounds.x_min, bounds.y_min);
        let (east, north) = space.to_api(bounds.x_max, bounds.y_max);
        let (x, y) = (f64::midpoint(west, east), f64::midpoint(south, north));
        let (half_width, half_height) = ((east - west) / 2.0, (north - south) / 2.0);
        let rectangle = |share: f64| {
            let (dx, dy) = (share * half_width, share * half_height);
            Region::rectangle(space, x - dx, y - dy, x + dx, y + dy)
        };
        let star = |vertices: u32| {
            let vertex = |at: u32| {
                let angle = TAU * f64::from(at) / f64::from(vertices);
                let reach = if at.is_multiple_of(2) { 0.9 } else { 0.4 };
                (x + reach * half_width * angle.cos(), y + reach * half_height * angle.sin())
            };
            Region::polygon(space, &[(0..vertices).map(vertex).collect()])
        };
        let region = match self {
            Self::Space => rectangle(1.0),
            Self::Rectangle => rectangle(0.5),
            Self::Circle => Region::circle(space, x, y, 0.8 * half_width.min(half_height)),
            Self::Star8 => star(8),
            Self::Star64 => star(64),
            Self::Star4096 => star(4096),
        };
        Ok(region?)
    }
}

/// The query for one region on one backend.
#[derive(Serialize)]
struct Row {
    backend: BackendName,
    shape: Shape,
    objects: u64,
    workload: String,
    found: u64,
    count_ms: f64,
    ids_ms: f64,
    answer_hash: String,
    machine: String,
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "backend", width: 8, cell: |row| row.backend.name().to_owned() },
        Column { title: "objects", width: 10, cell: |row| row.objects.to_string() },
        Column { title: "found", width: 10, cell: |row| row.found.to_string() },
        Column { title: "count ms", width: 9, cell: |row| format!("{:.3}", row.count_ms) },
        Column { title: "ids ms", width: 9, cell: |row| format!("{:.3}", row.ids_ms) },
    ];

    fn backend(&self) -> &'static str {
        self.backend.name()
    }

    fn case(&self) -> String {
        value_name(&self.shape)
    }

    fn answer_hash(&self) -> &str {
        &self.answer_hash
    }
}

/// Measures each region on each backend and prints a table a region.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let Options { objects, workload, common, .. } = options;
    let head = format!("regions over {objects} objects, workload {workload}, seed {}", common.seed);
    // Checked before objects are loaded, because loading may take minutes.
    common.check_files()?;
    let mut engines = Vec::new();
    for backend in &options.backends {
        engines.push(Loaded::new(options, *backend)?);
    }
    let one = |shape: Shape, name: &str, out: &mut Output<Row>| {
        table::print_titles::<Row>(name);
        for engine in &mut engines {
            let row = engine.measure(options, shape, &out.machine)?;
            out.add(row);
        }
        table::agree(out.rows())
    };
    common.run(&head, &options.shape, one, |_, _, _| Ok(()))
}

/// An engine that holds all objects.
struct Loaded {
    name: BackendName,
    space: Space,
    engine: Box<dyn Backend>,
}

impl Loaded {
    fn new(options: &Options, name: BackendName) -> Result<Self, BenchmarkError> {
        let Options { objects, common, .. } = options;
        let params = Params { objects: *objects, seed: common.seed, ..Params::default() };
        let mut source = Source::open(&options.workload, &params, Attributes::None)?;
        let space = source.space();
        let driver = Driver::open(name, EngineOptions::new(space));
        let mut engine = driver.map_err(BenchmarkError::Backend)?.backend;
        load(&mut source, engine.as_mut(), *objects, CYCLE_ROWS)?;
        // After this cycle, queries see the loaded rows even on a backend that lags one epoch.
        engine.run(CycleInput::default())?;
        Ok(Self { name, space, engine })
    }

    fn measure(
        &mut self,
        options: &Options,
        shape: Shape,
        machine: &str,
    ) -> Result<Row, BenchmarkError> {
        let query = range_query(shape.region(&self.space)?);
        let mut hash = AnswerHash::new();
        let mut found = 0;
        let mut time = |projection: Projection| {
            median_of(options.passes, || {
                let query = Query { projection, ..query.clone() };
                let input = cycle_input(Vec::new(), vec![query], Vec::new());
                let start = Instant::now();
                let output = self.engine.run(input)?;
                let took = start.elapsed();
                let answers = answers(&output, 1)?;
                hash.add(answers);
                found = answers.get(0).total;
                Ok(took.as_secs_f64() * 1e3)
            })
        };
        let (count_ms, ids_ms) = (time(Projection::Count)?, time(Projection::Ids)?);
        Ok(Row {
            backend: self.name,
            shape,
            objects: options.objects,
            workload: options.workload.clone(),
            found,
            count_ms,
            ids_ms,
            answer_hash: hash.finish(),
            machine: machine.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::harness::command::parsed;

    #[test]
    fn answers_follow_the_areas_of_the_regions() {
        let flags = ["--objects", "4000", "--passes", "1"];
        let options = parsed::<Options>(&flags, &[]).unwrap();
        let mut engine = Loaded::new(&options, BackendName::Cpu).unwrap();
        let mut found = |shape: Shape| engine.measure(&options, shape, "here").unwrap().found;
        assert_eq!(found(Shape::Space), 4000);
        // Shares of the square: a half by a half; pi * 0.4^2; n / 2 * 0.9 * 0.4 * sin(2 pi / n) /
        // 4.
        for (shape, share) in [
            (Shape::Rectangle, 0.25),
            (Shape::Circle, 0.503),
            (Shape::Star8, 0.255),
            (Shape::Star64, 0.282),
            (Shape::Star4096, 0.283),
        ] {
            let (found, expected) = (found(shape) as f64, share * 4000.0);
            assert!((found - expected).abs() < 0.1 * expected, "{shape:?}: {found}");
        }
    }
}
