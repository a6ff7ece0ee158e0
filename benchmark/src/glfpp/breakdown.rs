//! The time of a cycle by stage, the overlap of stages, and the distance to the bus limit.
//!
//! The values are computed from recorded spans. A stage lasts from its first to its last piece of
//! work, including waits. The bus is the limit of the whole pipeline, because everything else can
//! overlap with its copies.

use super::timeline::{Recording, STAGES, Span};

/// One direction of the bus from or to page-locked memory, 16 MiB and more at a time; measured on
/// an H200.
const BUS_BYTES_PER_S: f64 = 55e9;

/// Means over the cycles of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Breakdown {
    cycles: u64,
    cycle_ms: f64,
    /// By stage, in the order of [`STAGES`].
    pub(super) stage_ms: [f64; STAGES.len()],
    /// The share of the time in which 0, 1, 2, ... stages ran.
    concurrency: [f64; STAGES.len() + 1],
    /// The share of the time in which a copy, an update and queries ran at the same time.
    together: f64,
    /// Bytes a cycle to the device.
    pub(super) in_bytes: f64,
    /// Bytes a cycle from the device.
    pub(super) out_bytes: f64,
}

impl Breakdown {
    /// `None` for a recording without spans.
    pub(super) fn new(recording: &Recording) -> Option<Self> {
        let spans = &recording.spans;
        let epochs = || spans.iter().map(|span| span.epoch);
        let cycles = epochs().max()? - epochs().min()? + 1;
        let begin = spans.iter().map(|span| span.begin_ms).fold(f64::INFINITY, f64::min);
        let end = spans.iter().map(|span| span.end_ms).fold(begin, f64::max);
        let whole_ms = (end - begin).max(f64::MIN_POSITIVE);
        let mean = |whole: f64| whole / cycles as f64;
        let stage_ms = STAGES.map(|stage| {
            let of_stage = spans.iter().filter(|span| span.stage == stage);
            mean(of_stage.map(|span| span.end_ms - span.begin_ms).sum())
        });
        let (mut concurrency, mut together) = ([0.0; STAGES.len() + 1], 0.0);
        for (running, length_ms) in intervals(spans) {
            let share = length_ms / whole_ms;
            concurrency[running.iter().filter(|runs| **runs).count()] += share;
            let [copy_in, _, update, query, copy_out] = running;
            if (copy_in || copy_out) && update && query {
                together += share;
            }
        }
        Some(Self {
            cycles,
            cycle_ms: mean(whole_ms),
            stage_ms,
            concurrency,
            together,
            in_bytes: mean(recording.in_bytes as f64),
            out_bytes: mean(recording.out_bytes as f64),
        })
    }

    /// The mean number of concurrent stages.
    pub(super) fn stages_at_a_time(&self) -> f64 {
        self.concurrency.iter().zip(0_u32..).map(|(share, stages)| share * f64::from(stages)).sum()
    }

    /// Minimum time of a cycle's copies at the bus limit, milliseconds: in, out.
    fn bus_ms(&self) -> (f64, f64) {
        let needs_ms = |bytes: f64| bytes / BUS_BYTES_PER_S * 1e3;
        (needs_ms(self.in_bytes), needs_ms(self.out_bytes))
    }

    /// Prints the table of a run.
    pub(super) fn print(&self, label: &str) {
        let Self { cycles, cycle_ms, .. } = self;
        println!("# {label}: {cycles} cycles, {cycle_ms:.3} ms each");
        println!(
            "# {:>9} {:>10} {:>9} {:>13} {:>6} {:>12}",
            "stage", "ms a cycle", "% of time", "bytes a cycle", "GB/s", "% of 55 GB/s"
        );
        for (stage, took_ms) in STAGES.into_iter().zip(self.stage_ms) {
            let share = 100.0 * took_ms / cycle_ms;
            print!("# {stage:>9} {took_ms:>10.3} {share:>9.1}");
            match stage {
                "copy in" => print_copy(self.in_bytes, took_ms),
                "copy out" => print_copy(self.out_bytes, took_ms),
                _ => println!(),
            }
        }
        let shares: Vec<String> = (0..)
            .zip(self.concurrency)
            .map(|(stages, share)| format!("{stages}: {:.0} %", 100.0 * share))
            .collect();
        let (mean, together) = (self.stages_at_a_time(), 100.0 * self.together);
        println!("# {mean:.2} concurrent stages ({})", shares.join(", "));
        println!("# a copy, an update and queries at the same time: {together:.0} % of the time");
        let (in_ms, out_ms) = self.bus_ms();
        let times = cycle_ms / in_ms.max(out_ms).max(f64::MIN_POSITIVE);
        println!(
            "# the bus alone: {in_ms:.3} ms in beside {out_ms:.3} ms out; a cycle takes {times:.2} \
             times the longer"
        );
    }
}

fn print_copy(bytes: f64, took_ms: f64) {
    let per_s = bytes / (took_ms / 1e3).max(f64::MIN_POSITIVE);
    let (rate, share) = (per_s / 1e9, 100.0 * per_s / BUS_BYTES_PER_S);
    println!(" {bytes:>13.0} {rate:>6.1} {share:>12.1}");
}

/// Intervals of constant concurrency: the running stages, and the length in milliseconds.
fn intervals(spans: &[Span]) -> Vec<([bool; STAGES.len()], f64)> {
    let mut changes: Vec<(f64, usize, i32)> = Vec::with_capacity(2 * spans.len());
    for span in spans {
        if let Some(stage) = STAGES.iter().position(|stage| *stage == span.stage) {
            changes.push((span.begin_ms, stage, 1));
            changes.push((span.end_ms, stage, -1));
        }
    }
    changes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut running = [0; STAGES.len()];
    let mut intervals = Vec::with_capacity(changes.len());
    for pair in changes.windows(2) {
        let (at_ms, stage, change) = pair[0];
        running[stage] += change;
        intervals.push((running.map(|spans| spans > 0), pair[1].0 - at_ms));
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(epoch: u64, stage: &'static str, begin_ms: f64, end_ms: f64) -> Span {
        Span { epoch, stage, begin_ms, end_ms }
    }

    /// Two cycles in 10 ms: 2 ms copy in alone, 4 ms copy in during update and query, 2 ms nothing,
    /// 2 ms copy out during dispatch.
    fn recording() -> Recording {
        let spans = vec![
            span(7, "copy in", 5.0, 7.0),
            span(8, "copy in", 7.0, 11.0),
            span(7, "update", 7.0, 11.0),
            span(7, "query", 7.0, 11.0),
            span(7, "copy out", 13.0, 15.0),
            span(8, "dispatch", 13.0, 15.0),
        ];
        Recording { spans, in_bytes: 220_000_000, out_bytes: 110_000_000 }
    }

    #[test]
    fn stages_and_overlaps_are_summed() {
        let breakdown = Breakdown::new(&recording()).unwrap();
        assert_eq!((breakdown.cycles, breakdown.cycle_ms), (2, 5.0));
        assert_eq!(breakdown.stage_ms, [3.0, 1.0, 2.0, 2.0, 1.0]);
        let tenths = breakdown.concurrency.map(|share| (10.0 * share).round() as i32);
        assert_eq!(tenths, [2, 2, 2, 4, 0, 0]);
        assert!((breakdown.together - 0.4).abs() < 1e-9);
        assert!((breakdown.stages_at_a_time() - 1.8).abs() < 1e-9);
    }

    #[test]
    fn the_bus_limit_follows_from_bytes() {
        let breakdown = Breakdown::new(&recording()).unwrap();
        assert_eq!((breakdown.in_bytes, breakdown.out_bytes), (110e6, 55e6));
        let (in_ms, out_ms) = breakdown.bus_ms();
        assert!((in_ms - 2.0).abs() < 1e-9 && (out_ms - 1.0).abs() < 1e-9, "{in_ms} {out_ms}");
    }

    #[test]
    fn a_recording_without_spans_gives_none() {
        let recording = Recording { spans: Vec::new(), in_bytes: 0, out_bytes: 0 };
        assert_eq!(Breakdown::new(&recording), None);
    }
}
