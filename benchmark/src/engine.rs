//! `shoal-bench engine`: rates of the engine alone, over sizes, distributions and mixes.
//!
//! Each row first loads every object, then runs cycles of updates with queries. Rows and queries of
//! a cycle are made before its clock starts; timed is submit to answers, nothing else.

use std::fs::File;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, CycleInput, EngineOptions, Request};
use shoal_workload::Params;

use crate::answer_hash::AnswerHash;
use crate::answered::answers;
use crate::cycle_times::CycleTimes;
use crate::error::BenchmarkError;
use crate::machine;
use crate::source::{Attributes, Source};

/// Loading gives up after this many rows an object: some generators report rarely.
const LOAD_ROWS_PER_OBJECT: u64 = 300;

/// Which engine.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum BackendName {
    /// Grid, index and cycles on all cores.
    Cpu,
}

/// What to run.
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
    /// Updates of each run; 0 means four rounds of all objects, at least 4 million, at most 40.
    #[arg(long, default_value_t = 0)]
    updates: u64,
    /// Updates of one cycle.
    #[arg(long, default_value_t = 1 << 18)]
    cycle: usize,
    /// Side of a query's square as a share of the space's side.
    #[arg(long, default_value_t = 0.001)]
    window: f64,
    /// Queries of `gauss` gather where the objects are, instead of lying anywhere.
    #[arg(long)]
    windows_follow: bool,
    /// Rows bring speed and heading as well.
    #[arg(long)]
    attributes: bool,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the rows to this file as a JSON list.
    #[arg(long)]
    json: Option<String>,
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

/// Runs every combination and prints a table.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let machine = machine::describe();
    println!(
        "# engine {:?}, cycles of {} updates, window {}",
        options.backend, options.cycle, options.window
    );
    println!("# {machine}");
    println!(
        "{:>10} {:>8} {:>6} {:>11} {:>12} {:>12} {:>10} {:>8} {:>9}  answers",
        "objects",
        "workload",
        "mix",
        "updates",
        "updates/s",
        "queries/s",
        "p99 ms",
        "B/object",
        "rows/query"
    );
    let mut rows = Vec::new();
    for objects in &options.objects {
        for distribution in &options.distribution {
            for updates_per_query in &options.updates_per_query {
                let row = measure(options, &machine, *objects, distribution, *updates_per_query)?;
                println!(
                    "{:>10} {:>8} {:>6} {:>11} {:>12.0} {:>12.0} {:>10.2} {:>8.1} {:>9.2}  {}",
                    row.objects,
                    row.distribution,
                    format!("{updates_per_query}:1"),
                    row.updates,
                    row.updates_per_s,
                    row.queries_per_s,
                    row.cycle_ms_p99,
                    row.bytes_per_object,
                    row.results_per_query,
                    row.answer_hash
                );
                rows.push(row);
            }
        }
    }
    options.json.as_ref().map_or(Ok(()), |path| write(path, &rows))
}

fn write(path: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    let failed = |source| BenchmarkError::Write { path: path.to_owned(), source };
    let file = File::create(path).map_err(failed)?;
    serde_json::to_writer_pretty(file, rows).map_err(|error| failed(error.into()))
}

fn measure(
    options: &Options,
    machine: &str,
    objects: u64,
    distribution: &str,
    updates_per_query: u64,
) -> Result<Row, BenchmarkError> {
    let mut source = open(options, objects, distribution)?;
    let mut backend: Box<dyn Backend> = match options.backend {
        BackendName::Cpu => Box::new(CpuBackend::new(EngineOptions::new(source.space()))),
    };
    load(&mut source, backend.as_mut(), objects, options.cycle)?;
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
        let asked = input.queries.len();
        queries += asked as u64;
        let start = Instant::now();
        let output = backend.run(input)?;
        let took = start.elapsed();
        spent += took;
        times.add(took);
        let answers = answers(&output, asked)?;
        hash.add(answers);
        results += answers.iter().map(|answer| answer.total).sum::<u64>();
    }
    let seconds = spent.as_secs_f64();
    Ok(Row {
        backend: options.backend,
        objects,
        distribution: distribution.to_owned(),
        updates: done,
        queries,
        seconds,
        updates_per_s: done as f64 / seconds,
        queries_per_s: queries as f64 / seconds,
        cycle_ms_p99: times.quantile_ms(0.99),
        bytes_per_object: backend.memory_bytes() as f64 / objects as f64,
        answer_hash: hash.finish(),
        results_per_query: results as f64 / queries.max(1) as f64,
        machine: machine.to_owned(),
    })
}

fn open(options: &Options, objects: u64, distribution: &str) -> Result<Source, BenchmarkError> {
    let params = Params {
        objects,
        seed: options.seed,
        window: options.window,
        windows_follow: options.windows_follow,
        ..Params::default()
    };
    let attributes = if options.attributes { Attributes::Motion } else { Attributes::None };
    Source::open(distribution, &params, attributes)
}

fn cycle(source: &mut Source, rows: usize, queries: usize) -> Result<CycleInput, BenchmarkError> {
    Ok(CycleInput {
        system_ms: 0,
        time_max_ms: i64::MAX,
        requests: vec![Request::Fixes(source.columns(rows)?)].into(),
        queries: source.queries(queries)?,
        subscriptions: Vec::new(),
    })
}

/// Runs cycles until every object has reported.
fn load(
    source: &mut Source,
    backend: &mut dyn Backend,
    objects: u64,
    cycle: usize,
) -> Result<(), BenchmarkError> {
    let mut rows = 0;
    while backend.objects() < objects {
        if rows > objects * LOAD_ROWS_PER_OBJECT {
            let known = backend.objects();
            let text = format!("{rows} rows brought only {known} of {objects} objects");
            return Err(BenchmarkError::WorkloadRows(text));
        }
        backend.run(self::cycle(source, cycle, 0)?)?;
        rows += cycle as u64;
    }
    Ok(())
}
