//! Runs the experiments in a folder of the disk, and compares what the contenders wrote and read.

use super::content::Content;
use super::options::{Experiment, Options};
use super::row::{Case, Contender, Row};
use super::trial::{GroupTimes, Measured};
use super::{append, busy, checkpoint, plot, read, recover};
use crate::error::BenchmarkError;
use crate::harness::{Output, WorkFolder, table};

/// Runs the experiments that the flags name.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let folder = WorkFolder::create(options.folder.as_deref())?;
    let head = format!(
        "log, workload {}, seed {}, median of {} runs\n# {}\n# MB/s of block bytes; ratio: to the \
         fastest raw write, the plain read, or the engine alone",
        options.workload,
        options.common.seed,
        options.runs,
        folder.describe()
    );
    let one = |experiment: Experiment, name: &str, out: &mut Output<Row>| {
        table::print_titles::<Row>(name);
        let mut context = Context { experiment, options, folder: &folder, out };
        match experiment {
            Experiment::Append => append::run(&mut context),
            Experiment::Read => read::run(&mut context),
            Experiment::Recover => recover::run(&mut context),
            Experiment::Checkpoint => checkpoint::run(&mut context),
            Experiment::Busy => busy::run(&mut context),
        }
    };
    options.common.run(&head, &options.experiment, one, plot::draw)
}

/// What an experiment needs.
pub(super) struct Context<'a> {
    experiment: Experiment,
    pub(super) options: &'a Options,
    pub(super) folder: &'a WorkFolder,
    out: &'a mut Output<Row>,
}

impl Context<'_> {
    /// A case without parameters.
    pub(super) fn case(&self, rows: u64, bytes: u64) -> Case {
        let experiment = self.experiment;
        let (plan, group_bytes, durability, objects) = (None, None, None, None);
        Case { experiment, plan, group_bytes, durability, objects, rows, groups: 0, bytes }
    }

    /// A case with this content.
    pub(super) fn case_of(&self, content: &Content) -> Case {
        Case { groups: content.groups.len() as u64, ..self.case(content.rows(), content.bytes) }
    }

    /// Calls `write` and discards the times that it records.
    pub(super) fn write(
        &self,
        write: impl FnOnce(&mut GroupTimes) -> Result<f64, BenchmarkError>,
    ) -> Result<(), BenchmarkError> {
        write(&mut GroupTimes::new()?).map(drop)
    }

    /// Prints and keeps the rows of a case. Their hashes must agree, except that of a plain read,
    /// which covers whole files.
    pub(super) fn report(
        &mut self,
        case: &Case,
        measured: &[Measured],
    ) -> Result<(), BenchmarkError> {
        let references = measured.iter().filter(|measured| measured.contender.is_reference());
        let reference_s = references.map(|measured| measured.median.seconds).reduce(f64::min);
        let row = |measured: &Measured| {
            Row::new(
                case,
                measured,
                reference_s,
                self.options.runs,
                &self.folder.file_system,
                &self.out.machine,
            )
        };
        let rows: Vec<Row> = measured.iter().map(row).collect();
        let is_compared = |row: &&Row| row.contender != Contender::Plain;
        let compared: Vec<Row> = rows.iter().filter(is_compared).cloned().collect();
        rows.into_iter().for_each(|row| self.out.add(row));
        table::agree(&compared)
    }
}
