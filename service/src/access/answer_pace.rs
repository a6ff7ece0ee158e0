//! Delays an answer as the quota of answer bytes demands.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Extensions;

use super::account::Account;
use super::quota_meter::MeteredQuota;

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the file's head.
pub(crate) struct AnswerPace {
    account: Option<Arc<Account>>,
    wait: Option<Wait>,
}

impl AnswerPace {
    /// The pace of an answer to a token with this account.
    pub(super) fn new(account: Option<Arc<Account>>) -> Self {
        Self { account, wait: None }
    }

    /// The pace of the answer to a call in this process, from the extensions of its response.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        Self::new(extensions.get::<Arc<Account>>().cloned())
    }

    /// Waits while earlier bytes have used up the quota.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        Poll::Ready(())
    }

    /// Charges bytes that are sent now.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let Some(account) = &self.account else { return };
        if account.is_free(MeteredQuota::AnswerBytes) {
            return;
        }
        account.charge(MeteredQuota::AnswerBytes, bytes as u64);
        let account = account.clone();
        self.wait = Some(Box::pin(async move { account.wait(MeteredQuota::AnswerBytes, 0).await }));
    }
}
