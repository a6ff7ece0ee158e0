//! The client that opened a session, the account that owns it, and the regions that the session
//! counts against the account's quota.

use std::sync::Arc;

use crate::access::{Account, Counted, CountedQuota};
use crate::error::ServiceError;
use crate::shares::Requester;

/// Who opened a session, and the regions that count against the quota of its token.
#[derive(Debug, Default)]
pub(crate) struct SessionOwner {
    /// Changes of the session's regions use the turns of this client.
    pub(super) client: Requester,
    /// The account of the token; `None` where there are no tokens.
    account: Option<Arc<Account>>,
    regions: Option<Counted>,
}

impl SessionOwner {
    pub(crate) fn new(client: Requester, account: Option<&Arc<Account>>) -> Self {
        Self { client, account: account.cloned(), regions: None }
    }

    /// Whether the session belongs to `account`.
    pub(super) fn is(&self, account: Option<&Arc<Account>>) -> bool {
        self.account.as_ref().map(|own| own.id()) == account.map(|other| other.id())
    }

    /// Adds a region to the account's count.
    ///
    /// # Errors
    /// [`ServiceError::Quota`].
    pub(super) fn add_region(&mut self) -> Result<(), ServiceError> {
        let Some(account) = &self.account else { return Ok(()) };
        let counted = account.hold(CountedQuota::Regions, 1)?;
        match &mut self.regions {
            Some(regions) => regions.merge(counted),
            None => self.regions = Some(counted),
        }
        Ok(())
    }

    /// Removes a region from the account's count.
    pub(super) fn remove_region(&mut self) {
        if let Some(regions) = &mut self.regions {
            regions.release(1);
        }
    }

    /// Removes all regions of the session from the account's count.
    pub(super) fn remove_all_regions(&mut self) {
        self.regions = None;
    }
}
