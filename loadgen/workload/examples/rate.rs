//! Prints the rows per second that a workload generates on one core.
//!
//! `cargo run --release -p shoal-workload --example rate -- NAME [OBJECTS] [ROWS]`.

use std::error::Error;
use std::time::Instant;

use shoal_workload::{Params, open};

const BATCH_ROWS: usize = 4_096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "uniform".to_owned());
    let objects = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let rows_wanted: usize = arguments.next().map_or(Ok(20_000_000), |text| text.parse())?;
    let opening = Instant::now();
    let mut workload = open(&name, &Params { objects, ..Params::default() })?;
    println!("{name}: opened with {objects} objects in {:.2} s", opening.elapsed().as_secs_f64());

    let mut fixes = Vec::with_capacity(BATCH_ROWS);
    let (mut rows, mut check) = (0, 0.0);
    let start = Instant::now();
    while rows < rows_wanted {
        fixes.clear();
        let filled = workload.fill(BATCH_ROWS, &mut fixes);
        if filled == 0 {
            break;
        }
        rows += filled;
        check += fixes[filled - 1].x;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{rows} rows, {:.2} M rows/s, check {check:.3}", rows as f64 / seconds / 1e6);
    Ok(())
}
