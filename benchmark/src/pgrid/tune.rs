//! Selects grid side and bucket size for a workload by hill climbing with measured steps.
//!
//! It changes the side by factors of two, then the bucket, then the side again, as long as the rate
//! grows. Every layout holds the same objects and runs the same sample of the workload.

use shoal_engine::QuantaRect;

use super::bucket::BUCKET_LINES_MAX;
use super::grid::{Layout, PGrid};
use super::stream::{Stream, Workers};

/// The initial layout: objects per cell, and cache lines per bucket. The objects fill nearly half a
/// bucket, which holds 7.
const CELL_OBJECTS_GUESS: f64 = 3.0;
const BUCKET_LINES_GUESS: usize = 2;
/// Range of tried sides: 64 to 8,192 cells.
const SIDE_LOG2: std::ops::RangeInclusive<u32> = 6..=13;

/// Limit on the bytes of first buckets per object, and its minimum in total: finer grids were never
/// best, and some do not fit in memory.
const HEADS_BYTES_PER_OBJECT_MAX: u64 = 640;
const HEADS_BYTES_MAX_LEAST: u64 = 64 << 20;

/// The result of one layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// The layout.
    pub(crate) layout: Layout,
    /// Updates and queries of the sample per second.
    pub(crate) operations_per_s: f64,
}

/// A workload to tune for.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    /// The space.
    pub(crate) bounds: QuantaRect,
    /// Number of objects.
    pub(crate) objects: u32,
    pub(crate) workers: Workers,
    /// The first report of every object.
    pub(crate) first: &'a Stream,
    /// The sample.
    pub(crate) next: &'a Stream,
}

impl Sample<'_> {
    /// Whether a layout may be tried.
    fn holds(&self, layout: &Layout) -> bool {
        let bytes_max = HEADS_BYTES_PER_OBJECT_MAX * u64::from(self.objects);
        layout.heads_bytes() <= bytes_max.max(HEADS_BYTES_MAX_LEAST)
    }

    fn measure(&self, layout: Layout) -> Trial {
        let mut grid = PGrid::new(self.bounds, self.objects, self.workers, layout);
        grid.run(self.first);
        grid.settle();
        let (took, _) = grid.run(self.next);
        let operations = (self.next.updates.len() + self.next.windows.len()) as f64;
        Trial { layout, operations_per_s: operations / took.as_secs_f64() }
    }
}

/// Every trial, the best one first.
pub(crate) fn tune(sample: &Sample<'_>) -> Vec<Trial> {
    let guess_log2 = (f64::from(sample.objects) / CELL_OBJECTS_GUESS).sqrt().log2().round() as u32;
    let side = 1 << guess_log2.clamp(*SIDE_LOG2.start(), *SIDE_LOG2.end());
    let mut trials = Trials { sample, tried: Vec::new() };
    let mut best = trials.of(Layout { side, bucket_lines: BUCKET_LINES_GUESS });
    for steps in [[finer, coarser], [longer, shorter], [finer, coarser]] {
        for step in steps {
            while let Some(layout) = step(best.layout).filter(|layout| sample.holds(layout)) {
                let trial = trials.of(layout);
                if trial.operations_per_s <= best.operations_per_s {
                    break;
                }
                best = trial;
            }
        }
    }
    trials.tried.sort_by(|a, b| b.operations_per_s.total_cmp(&a.operations_per_s));
    trials.tried
}

struct Trials<'a> {
    sample: &'a Sample<'a>,
    tried: Vec<Trial>,
}

impl Trials<'_> {
    /// Returns the trial of a layout; measures each layout only once.
    fn of(&mut self, layout: Layout) -> Trial {
        if let Some(trial) = self.tried.iter().find(|trial| trial.layout == layout) {
            return *trial;
        }
        let trial = self.sample.measure(layout);
        self.tried.push(trial);
        trial
    }
}

fn finer(layout: Layout) -> Option<Layout> {
    (layout.side < 1 << SIDE_LOG2.end()).then_some(Layout { side: layout.side * 2, ..layout })
}

fn coarser(layout: Layout) -> Option<Layout> {
    (layout.side > 1 << SIDE_LOG2.start()).then_some(Layout { side: layout.side / 2, ..layout })
}

fn longer(layout: Layout) -> Option<Layout> {
    let bucket_lines = layout.bucket_lines * 2;
    (bucket_lines <= BUCKET_LINES_MAX).then_some(Layout { bucket_lines, ..layout })
}

fn shorter(layout: Layout) -> Option<Layout> {
    let bucket_lines = layout.bucket_lines / 2;
    (bucket_lines > 0).then_some(Layout { bucket_lines, ..layout })
}
