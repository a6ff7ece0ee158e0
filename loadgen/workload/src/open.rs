//! Which workload does a name mean?
//!
//! The one door: parameters are checked here, once, so that the generators need not.

use crate::{Params, Uniform, Workload, WorkloadError};

/// The names that [`open`] knows.
pub const NAMES: [&str; 1] = ["uniform"];

/// Opens a workload by name.
///
/// # Errors
///
/// An unknown name, a parameter outside its range, or a file that cannot be read.
pub fn open(name: &str, params: &Params) -> Result<Box<dyn Workload>, WorkloadError> {
    params.check()?;
    match name {
        "uniform" => Ok(Box::new(Uniform::new(params))),
        _ => Err(WorkloadError::UnknownName {
            name: name.to_owned(),
            known: NAMES.join(", "),
        }),
    }
}
