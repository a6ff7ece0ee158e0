//! `shoal-bench engine`: rates of the engine alone, over sizes, distributions and mixes.
//!
//! Each row first loads every object, then runs cycles of updates with queries. Rows and queries of
//! a cycle are made before its clock starts. The clock covers submission to answers.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use shoal_engine::{Backend, CycleInput, EngineOptions, Request};
use shoal_workload::Params;

use crate::error::BenchmarkError;
use crate::harness::source::{Attributes, Source};
use crate::harness::{
    AnswerHash, BackendName, Column, Common, CycleTimes, Driver, Output, ResultRow, answers,
    cycle_input, table,
};

/// Loading fails after this many rows per object. It is large because some generators report
/// rarely.
const LOAD_ROWS_PER_OBJECT: u64 = 300;

/// The flags of `shoal-bench engine`.
#[derive(Args)]
pub(crate) struct Options {
    /// The engine.
    #[arg(long, value_enum, default_value = "cpu")]
    backend: BackendName,
    /// Objects of each run.
    #[arg(long, value_delimiter = ',', default_value = "100000,1000000,10000000")]
    objects: Vec<u64>,
    /// Workloads by name.
    #[arg(long, value_delimiter = ',', default_value = "uniform,gauss")]
    distribution: Vec<String>,
    /// Updates per query of each run.
    #[arg(long, value_delimiter = ',', default_value = "10,100")]
    updates_per_query: Vec<u64>,
    /// Updates of each run; 0 = four rounds of all objects, but at least 4 and at most 40 million.
    #[arg(long, default_value_t = 0)]
    updates: u64,
    /// Updates of one cycle.
    #[arg(long, default_value_t = 1 << 18)]
    cycle: usize,
    /// Side of a query's square as a share of the space's side.
    #[arg(long, default_value_t = 0.001)]
    window: f64,
    /// Place the queries of `gauss` near the objects instead of anywhere.
    #[arg(long)]
    windows_follow: bool,
    /// Add speed and heading to the rows.
    #[arg(long)]
    attributes: bool,
    #[command(flatten)]
    common: Common,
}

/// One run.
#[derive(Serialize)]
struct Row {
    backend: BackendName,
    objects: u64,
    distribution: String,
    updates: u64,
    queries: u64,
    seconds: f64,
    updates_per_s: f64,
    queries_per_s: f64,
    cycle_ms_p99: f64,
    bytes_per_object: f64,
    answer_hash: String,
    results_per_query: f64,
    machine: String,
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "objects", width: 10, cell: |row| row.objects.to_string() },
        Column { title: "workload", width: 8, cell: |row| row.distribution.clone() },
        Column { title: "mix", width: 6, cell: Row::mix },
        Column { title: "updates", width: 11, cell: |row| row.updates.to_string() },
        Column { title: "updates/s", width: 12, cell: |row| format!("{:.0}", row.updates_per_s) },
        Column { title: "queries/s", width: 12, cell: |row| format!("{:.0}", row.queries_per_s) },
        Column { title: "p99 ms", width: 10, cell: |row| format!("{:.2}", row.cycle_ms_p99) },
        Column { title: "B/object", width: 8, cell: |row| format!("{:.1}", row.bytes_per_object) },
        Column { title: "found", width: 9, cell: |row| format!("{:.2}", row.results_per_query) },
    ];

    fn backend(&self) -> &'static str {
        self.backend.name()
    }

    fn case(&self) -> String {
        format!("{} {} {}", self.objects, self.distribution, self.mix())
    }

    fn answer_hash(&self) -> &str {
        &self.answer_hash
    }
}

impl Row {
    fn mix(&self) -> String {
        format!("{}:1", (self.updates as f64 / self.queries.max(1) as f64).round())
    }
}

/// Runs every combination and prints a table.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let (cycle, window) = (options.cycle, options.window);
    let head = format!("engine, cycles of {cycle} updates, window {window}");
    let one = |backend: BackendName, name: &str, out: &mut Output<Row>| {
        table::print_titles::<Row>(name);
        for objects in &options.objects {
            for distribution in &options.distribution {
                for mix in &options.updates_per_query {
                    let row =
                        measure(options, backend, &out.machine, *objects, distribution, *mix)?;
                    out.add(row);
                }
            }
        }
        Ok(())
    };
    options.common.run(&head, &[options.backend], one, |_, _, _| Ok(()))
}

fn measure(
    options: &Options,
    backend: BackendName,
    machine: &str,
    objects: u64,
    distribution: &str,
    updates_per_query: u64,
) -> Result<Row, BenchmarkError> {
    let mut source = open(options, objects, distribution)?;
    let driver = Driver::open(backend, EngineOptions::new(source.space()));
    let mut engine = driver.map_err(BenchmarkError::Backend)?.backend;
    load(&mut source, engine.as_mut(), objects, options.cycle)?;
    let updates = match options.updates {
        0 => (4 * objects).clamp(4_000_000, 40_000_000),
        given => given,
    };
    let mut spent = Duration::ZERO;
    let mut times = CycleTimes::new()?;
    let mut hash = AnswerHash::new();
    let (mut done, mut queries, mut results) = (0, 0, 0);
    while done < updates {
        let rows = options.cycle.min((updates - done) as usize);
        let input = cycle(&mut source, rows, rows / updates_per_query as usize)?;
        done += rows as u64;
        let cycle_queries = input.queries.len();
        queries += cycle_queries as u64;
        let start = Instant::now();
        let output = engine.run(input)?;
        let took = start.elapsed();
        spent += took;
        times.add(took);
        let answers = answers(&output, cycle_queries)?;
        hash.add(answers);
        results += answers.iter().map(|answer| answer.total).sum::<u64>();
    }
    let seconds = spent.as_secs_f64();
    Ok(Row {
        backend,
        objects,
        distribution: distribution.to_owned(),
        updates: done,
        queries,
        seconds,
        updates_per_s: done as f64 / seconds,
        queries_per_s: queries as f64 / seconds,
        cycle_ms_p99: times.quantile_ms(0.99),
        bytes_per_object: engine.memory_bytes() as f64 / objects as f64,
        answer_hash: hash.finish(),
        results_per_query: results as f64 / queries.max(1) as f64,
        machine: machine.to_owned(),
    })
}

fn open(options: &Options, objects: u64, distribution: &str) -> Result<Source, BenchmarkError> {
    let params = Params {
        objects,
        seed: options.common.seed,
        window: options.window,
        windows_follow: options.windows_follow,
        ..Params::default()
    };
    let attributes = if options.attributes { Attributes::Motion } else { Attributes::None };
    Source::open(distribution, &params, attributes)
}

fn cycle(source: &mut Source, rows: usize, queries: usize) -> Result<CycleInput, BenchmarkError> {
    let requests = vec![Request::Fixes(source.columns(rows)?)].into();
    Ok(CycleInput { requests, ..cycle_input(Vec::new(), source.queries(queries)?, Vec::new()) })
}

/// Runs cycles of `cycle` rows until every object has reported.
pub(crate) fn load(
    source: &mut Source,
    engine: &mut dyn Backend,
    objects: u64,
    cycle: usize,
) -> Result<(), BenchmarkError> {
    let mut rows = 0;
    while engine.objects() < objects {
        if rows > objects * LOAD_ROWS_PER_OBJECT {
            let present = engine.objects();
            let text = format!("{rows} rows created only {present} of {objects} objects");
            return Err(BenchmarkError::WorkloadRows(text));
        }
        engine.run(self::cycle(source, cycle, 0)?)?;
        rows += cycle as u64;
    }
    Ok(())
}
