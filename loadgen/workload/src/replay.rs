//! The `replay:FILE` workload: the rows of a CSV file in its order and with its times.
//!
//! To replay faster, a caller shortens the delays between rows; event times stay unchanged. A
//! fan-out of k turns one fleet into k, shifted in space and time. Unreadable rows are counted and
//! skipped.

mod fan_out;
mod sample;

use std::path::Path;

use shoal_table::{CsvReader, FixFileOptions, TableError};

use fan_out::FanOut;
use sample::Sample;

use crate::random::{Domain, below, stream};
use crate::{Fix, Params, Window, Workload, WorkloadError, WorkloadSpace};

/// The `replay:FILE` workload.
///
/// Copy `c` of `k` of object `o` is object `o * k + c`; copy 0 is the file itself. A copy reports
/// `c * step_ms / k` ms later and is moved along a sunflower spiral: by `sqrt(c)` tenths of the
/// sides of the data box in the compass direction of `c` golden sections of a turn. Longitudes wrap
/// at 180, latitudes fold back at the poles. Shard `s` of `n` owns the copies whose number modulo
/// `n` is `s`.
#[derive(Debug)]
pub(crate) struct Replay {
    reader: CsvReader,
    fan_out: FanOut,
    sample: Sample,
    windows: rand_xoshiro::Xoshiro256PlusPlus,
    window_share: f64,
    unreadable_rows: u64,
    failure: Option<WorkloadError>,
}

impl Replay {
    /// Opens a file. Its first rows are read twice, the first time for the query windows.
    pub(crate) fn open(file: &Path, params: &Params) -> Result<Self, WorkloadError> {
        let sample = Sample::read(file, params.seed)?;
        Ok(Self {
            reader: CsvReader::open(file, &FixFileOptions::strict(params.speed_unit))?,
            fan_out: FanOut::new(params, &sample.data_box),
            sample,
            windows: stream(params.seed, Domain::Windows, u64::from(params.shard)),
            window_share: params.window,
            unreadable_rows: 0,
            failure: None,
        })
    }

    /// Reads one more row of the file into the fan-out.
    fn read_row(&mut self) {
        match self.reader.next() {
            Some(Ok(fix)) => {
                if !self.fan_out.push(&fix) {
                    self.unreadable_rows += 1;
                }
            }
            Some(Err(error)) if error.ends_file() => {
                self.failure = Some(TableError::from(error).into());
                self.fan_out.end();
            }
            Some(Err(_)) => self.unreadable_rows += 1,
            None => self.fan_out.end(),
        }
    }
}

impl Workload for Replay {
    fn space(&self) -> WorkloadSpace {
        WorkloadSpace::Geographic
    }

    fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize {
        let before = out.len();
        while out.len() - before < rows {
            if let Some(fix) = self.fan_out.pop() {
                out.push(fix);
            } else if self.fan_out.ended() {
                break;
            } else {
                self.read_row();
            }
        }
        out.len() - before
    }

    fn window(&mut self) -> Window {
        let copy = below(&mut self.windows, self.fan_out.copies());
        let position = self.sample.positions[below(&mut self.windows, self.sample.positions.len())];
        let (width, height) = self.sample.data_box.sides();
        let sides = (width * self.window_share, height * self.window_share);
        Window::around(self.fan_out.shifted(copy, position), sides, &Window::WORLD)
    }

    fn unreadable_rows(&self) -> u64 {
        self.unreadable_rows
    }

    fn failure(&self) -> Option<&WorkloadError> {
        self.failure.as_ref()
    }
}
