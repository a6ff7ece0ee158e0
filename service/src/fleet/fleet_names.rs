//! Access to the names of a fleet's objects.

use super::fleet::Fleet;
use crate::cycle::FleetKind;
use crate::error::ServiceError;
use crate::names::NameTable;

impl Fleet {
    /// What identifies its objects.
    #[must_use]
    pub fn kind(&self) -> FleetKind {
        if self.names().is_some() { FleetKind::Named } else { FleetKind::Numeric }
    }

    /// The names of its objects, if they have names.
    #[must_use]
    pub fn names(&self) -> Option<&NameTable> {
        self.shared.persistence.names.as_deref()
    }

    /// The names of its objects. `field` is the field of the request that contains names.
    ///
    /// # Errors
    /// [`ServiceError::Field`] if objects have none.
    pub(crate) fn names_for(&self, field: &str) -> Result<&NameTable, ServiceError> {
        self.names().ok_or_else(|| {
            let problem = format!("fleet {} is numeric: its objects have no names", self.name());
            ServiceError::field(field, problem)
        })
    }
}
