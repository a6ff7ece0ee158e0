//! Shared parts of all commands: options, engine runs, rows, tables, plots and files.

pub(crate) mod answer_hash;
pub(crate) mod blocks;
pub(crate) mod command;
pub(crate) mod cycle_times;
pub(crate) mod driver;
pub(crate) mod machine;
pub(crate) mod median;
pub(crate) mod plot;
pub(crate) mod source;
pub(crate) mod table;
pub(crate) mod work_folder;

pub(crate) use answer_hash::{AnswerHash, Totals, mixed};
pub(crate) use command::{Common, Output};
pub(crate) use cycle_times::CycleTimes;
pub(crate) use driver::{BackendName, Driver, answers, check_rows, cycle_input, range_query};
pub(crate) use median::{median, median_of};
pub(crate) use table::{Column, ResultRow};
pub(crate) use work_folder::WorkFolder;
