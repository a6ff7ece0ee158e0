//! Cycles back to back through a backend, as many in flight as it overlaps.
//!
//! What went wrong in a cycle is seen by whoever takes its output, beside the clock.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::Instant;

use shoal_codec::Block;
use shoal_engine::{Backend, CycleInput, CycleOutput};

use crate::cycle_times::CycleTimes;
use crate::error::BenchmarkError;

/// Puts a block where a backend likes it best, before the clock starts.
pub(crate) type Place = Box<dyn Fn(&Block) -> Result<Block, BenchmarkError>>;

/// Runs cycles back to back, `in_flight` at a time; outputs go to `outputs` as they come.
pub(crate) fn drive(
    backend: &mut dyn Backend,
    in_flight: usize,
    inputs: Vec<CycleInput>,
    times: &mut CycleTimes,
    outputs: &Sender<CycleOutput>,
) -> Result<(), BenchmarkError> {
    let mut flying = VecDeque::with_capacity(in_flight);
    let mut inputs = inputs.into_iter();
    loop {
        let next = inputs.next();
        let is_last = next.is_none();
        if let Some(input) = next {
            let submitted = Instant::now();
            flying.push_back((backend.submit(input)?, submitted));
        }
        while flying.len() >= in_flight || is_last {
            let Some((ticket, submitted)) = flying.pop_front() else {
                return Ok(());
            };
            let output = backend.wait(ticket)?;
            times.add(submitted.elapsed());
            // The taker stops at the first output that is wrong.
            let _ = outputs.send(output);
        }
    }
}

/// Every row of a cycle's blocks was taken, none refused.
pub(crate) fn check_rows(blocks: &[Block], output: &CycleOutput) -> Result<(), BenchmarkError> {
    for (number, (block, outcome)) in blocks.iter().zip(&output.requests).enumerate() {
        let taken = outcome.applied + outcome.superseded + outcome.late + outcome.duplicate;
        if taken != block.rows() as u64 || outcome.block_error.is_some() {
            let text = format!(
                "epoch {}, block {number}: {taken} of {} rows taken, {:?}",
                output.epoch,
                block.rows(),
                outcome.block_error
            );
            return Err(BenchmarkError::WorkloadRows(text));
        }
    }
    Ok(())
}

/// All objects of a workload are there.
pub(crate) fn check_objects(backend: &dyn Backend, objects: u64) -> Result<(), BenchmarkError> {
    match backend.objects() {
        known if known == objects => Ok(()),
        known => {
            let text = format!("the first reports brought {known} of {objects} objects");
            Err(BenchmarkError::WorkloadRows(text))
        }
    }
}
