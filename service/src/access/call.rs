//! An admitted call: its caller, what its method needs, and where it comes from.
//!
//! The access layer creates it and stores it as an extension of the request. A handler needs it to
//! access a fleet, so a request that did not pass the layer is refused.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Extensions;

use super::access::Access;
use super::account::{Account, Counted, CountedQuota};
use super::audit::AuditRecord;
use super::caller::Caller;
use super::peer::Peer;
use super::quota_meter::MeteredQuota;
use super::rights_table::{MethodRight, Needs};
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::error::TokenProblem;
use crate::right::Right;
use crate::shares::Requester;

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) caller: Arc<Caller>,
    pub(super) method: &'static MethodRight,
    pub(super) peer: Option<SocketAddr>,
    pub(super) access: Access,
    /// Whether the request has [`InProcess`].
    pub(super) is_in_process: bool,
}

/// Extension of a request whose caller is in this process: it takes the parts of an answer as the
/// service has them, and charges the bytes that it makes of them to the [`Account`] that is an
/// extension of the response. The next part waits until the quota allows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InProcess;

/// The client of a request; if the request is not admitted yet, the client without a token.
pub(crate) fn requester(extensions: &Extensions) -> Requester {
    let peer = || extensions.get::<Peer>().and_then(Peer::address);
    extensions.get::<Call>().map_or_else(|| Requester::new(None, peer()), Call::client)
}

impl Call {
    /// The call of a request.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`] if the request did not pass the layer.
    pub fn of(extensions: &Extensions) -> Result<Self, ServiceError> {
        let call = extensions.get::<Self>().cloned();
        call.ok_or(ServiceError::Unauthenticated(TokenProblem::Missing))
    }

    /// The client that is charged for this call when clients share resources.
    #[must_use]
    pub fn client(&self) -> Requester {
        Requester::new(self.account().map(|account| account.id()), self.peer)
    }

    /// Whether the caller is in this process; see [`InProcess`].
    pub(crate) fn is_in_process(&self) -> bool {
        self.is_in_process
    }

    /// The account of the caller, if its token has one.
    pub(crate) fn account(&self) -> Option<&Arc<Account>> {
        self.caller.account()
    }

    /// Confirms that the caller has on a fleet the right that the method needs. If it has no right
    /// on the fleet at all, the error is the same as for a fleet that does not exist.
    ///
    /// # Errors
    /// [`ServiceError::PermissionDenied`], [`ServiceError::FleetUnknown`].
    pub(crate) fn check_fleet(&self, fleet: &FleetName) -> Result<(), ServiceError> {
        let name = fleet.as_str();
        match self.method.needs.right() {
            _ if !self.sees(fleet) => {
                self.record(Some(name), Some("fleet not visible"));
                Err(ServiceError::FleetUnknown(name.to_owned()))
            }
            Some(right) if !self.caller.grants.allow(right, name) => {
                Err(self.refused(Some(fleet), ServiceError::PermissionDenied(right)))
            }
            _ => Ok(()),
        }
    }

    /// Like [`Call::check_fleet`], for a fleet that is to be created: the fleet need not exist, and
    /// a missing right is always [`ServiceError::PermissionDenied`].
    ///
    /// # Errors
    /// [`ServiceError::PermissionDenied`].
    pub(crate) fn check_new_fleet(&self, fleet: &FleetName) -> Result<(), ServiceError> {
        let right = self.method.needs.right().unwrap_or(Right::Admin);
        if self.caller.grants.allow(right, fleet.as_str()) {
            return Ok(());
        }
        Err(self.refused(Some(fleet), ServiceError::PermissionDenied(right)))
    }

    /// Whether the caller has any right on a fleet.
    pub(crate) fn sees(&self, fleet: &FleetName) -> bool {
        self.caller.grants.show(fleet.as_str())
    }

    /// Whether the caller may administer a fleet.
    pub(crate) fn administers(&self, fleet: &FleetName) -> bool {
        self.caller.grants.allow(Right::Admin, fleet.as_str())
    }

    /// Confirms the part of the method's needs that does not depend on the name of a fleet.
    pub(super) fn check_method(&self) -> Result<(), ServiceError> {
        let grants = &self.caller.grants;
        let denied = |right| Err(self.refused(None, ServiceError::PermissionDenied(right)));
        match self.method.needs {
            Needs::Fleet(right) if !grants.allow_somewhere(right) => denied(right),
            Needs::Server(right) if !grants.allow_everywhere(right) => denied(right),
            Needs::Token | Needs::Fleet(_) | Needs::Server(_) => Ok(()),
        }
    }

    /// Records in the audit log that the call passed all checks, if its method is audited. Callers
    /// do this before they begin the work.
    pub(crate) fn allowed(&self, fleet: Option<&FleetName>) {
        if self.method.is_audited {
            self.record(fleet.map(FleetName::as_str), None);
        }
    }

    /// Records in the audit log that the call was refused or ended; returns the reason.
    pub(crate) fn refused(&self, fleet: Option<&FleetName>, error: ServiceError) -> ServiceError {
        self.record(fleet.map(FleetName::as_str), Some(&error.to_string()));
        error
    }

    /// Records in the audit log that parts of the call failed because of a quota, if one did.
    pub(crate) fn record_quota<'a>(&self, errors: impl IntoIterator<Item = &'a ServiceError>) {
        let is_of_quota = |error: &&ServiceError| matches!(error, ServiceError::Quota { .. });
        if let Some(error) = errors.into_iter().find(is_of_quota) {
            self.record(None, Some(&error.to_string()));
        }
    }

    fn record(&self, fleet: Option<&str>, refused: Option<&str>) {
        self.access.audit().add(&AuditRecord {
            caller: Some(&self.caller),
            action: self.method.path,
            fleet,
            peer: self.peer,
            right: self.method.needs.right(),
            refused,
        });
    }

    /// Adds an amount to what the token holds; dropping the result returns it.
    ///
    /// # Errors
    /// [`ServiceError::Quota`].
    pub(crate) fn hold(
        &self,
        quota: CountedQuota,
        amount: u64,
    ) -> Result<Option<Counted>, ServiceError> {
        let held = self.account().map(|account| account.hold(quota, amount)).transpose();
        held.map_err(|error| self.refused(None, error))
    }

    /// Takes an amount from a quota without waiting; fails if the quota is used up.
    ///
    /// # Errors
    /// [`ServiceError::Quota`].
    pub(crate) fn take(&self, quota: MeteredQuota, amount: u64) -> Result<(), ServiceError> {
        let taken = self.account().map_or(Ok(()), |account| account.take(quota, amount));
        taken.map_err(|error| self.refused(None, error))
    }

    /// Waits until an amount of a quota can be taken.
    pub(crate) async fn wait(&self, quota: MeteredQuota, amount: u64) {
        if let Some(account) = self.account() {
            account.wait(quota, amount).await;
        }
    }
}
