//! The client that opened a session, the account that owns it, and the regions that the session
//! counts against the account's quota.

use std::sync::Arc;

use crate::access::{Account, Call, Counted, CountedQuota};
use crate::error::ServiceError;
use crate::shares::Requester;

/// Who opened a session, and the regions that count against the quota of its token.
#[derive(Debug, Default)]
pub(crate) struct SessionOwner {
    /// Changes of the session's regions use the turns of this client.
    pub(super) client: Requester,
    /// The account of the token; `None` where there are no tokens.
    account: Option<Arc<Account>>,
    /// What counts against the quota: the regions of the session, but at least one.
    counted: Option<Counted>,
    /// Number of regions.
    regions: usize,
}

impl SessionOwner {
    /// The owner of a new session without regions, opened by a call.
    ///
    /// # Errors
    /// [`ServiceError::Quota`]: a session counts as one region while it has none, because it takes
    /// memory until its retention ends.
    pub(crate) fn new(call: &Call) -> Result<Self, ServiceError> {
        let counted = call.hold(CountedQuota::Regions, 1)?;
        let account = call.account().cloned();
        Ok(Self { client: call.client(), account, counted, regions: 0 })
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
        if self.regions > 0
            && let (Some(account), Some(counted)) = (&self.account, &mut self.counted)
        {
            counted.merge(account.hold(CountedQuota::Regions, 1)?);
        }
        self.regions += 1;
        Ok(())
    }

    /// Removes a region from the account's count.
    pub(super) fn remove_region(&mut self) {
        self.regions = self.regions.saturating_sub(1);
        if self.regions > 0
            && let Some(counted) = &mut self.counted
        {
            counted.release(1);
        }
    }

    /// Removes the session, which has ended, from the account's count.
    pub(super) fn end(&mut self) {
        (self.counted, self.regions) = (None, 0);
    }
}
