//! The fleet of a call that lasts, and the name under which the caller may use it.
//!
//! A rename may take the rights away. The caller must then not learn the new name either.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Call;
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::RENAME_CHECK_MS;

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

    /// Waits until a rename takes the right of the call on the fleet away; returns the error of
    /// [`Self::check`].
    pub(super) async fn lost(mut self) -> ServiceError {
        loop {
            tokio::time::sleep(Duration::from_millis(RENAME_CHECK_MS)).await;
            if let Err(error) = self.check() {
                return error;
            }
        }
    }
}
