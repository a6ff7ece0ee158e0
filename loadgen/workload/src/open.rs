//! Opens a workload by name. Parameters are checked here and nowhere else.

use std::path::Path;

use crate::gauss::Gauss;
use crate::hub::Hub;
use crate::network::Network;
use crate::replay::Replay;
use crate::uniform::Uniform;
use crate::world::World;
use crate::{Params, Workload, WorkloadError};

/// The valid names.
const NAMES: [&str; 7] =
    ["uniform", "world", "gauss", "network", "network:FILE", "hub", "replay:FILE"];

/// Opens a workload by name.
///
/// # Errors
///
/// An unknown name, a parameter outside its range, or a file that cannot be read.
pub fn open(name: &str, params: &Params) -> Result<Box<dyn Workload>, WorkloadError> {
    params.check()?;
    if let Some(file) = name.strip_prefix("replay:") {
        return Ok(Box::new(Replay::open(Path::new(file), params)?));
    }
    if let Some(file) = name.strip_prefix("network:") {
        return Ok(Box::new(Network::open(Path::new(file), params)?));
    }
    match name {
        "gauss" => Ok(Box::new(Gauss::open(params))),
        "hub" => Ok(Box::new(Hub::open(params))),
        "network" => Ok(Box::new(Network::city(params))),
        "uniform" => Ok(Box::new(Uniform::new(params))),
        "world" => Ok(Box::new(World::new(params))),
        _ => Err(WorkloadError::UnknownName { name: name.to_owned(), valid: NAMES.join(", ") }),
    }
}
