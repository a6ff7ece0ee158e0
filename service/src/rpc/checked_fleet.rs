//! The fleet of a call that lasts, and the name under which the caller may use it.
//!
//! A rename may take the rights away. The caller must then not learn the new name either.

use std::sync::Arc;

use crate::access::Call;
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::fleet::Fleet;

/// See the file's head.
#[derive(Clone, Debug)]
pub(super) struct CheckedFleet {
    pub(super) call: Call,
    pub(super) fleet: Arc<Fleet>,
    /// The last name for which the rights of the call were checked.
    pub(super) name: FleetName,
}

impl CheckedFleet {
    /// Confirms that the caller may use the fleet under its name, if that has changed.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`] with the former name.
    pub(super) fn check(&mut self) -> Result<(), ServiceError> {
        let name = self.fleet.name();
        if name != self.name {
            let checked = self.call.check_fleet(&name);
            checked.map_err(|_| ServiceError::FleetUnknown(self.name.to_string()))?;
            self.name = name;
        }
        Ok(())
    }
}
