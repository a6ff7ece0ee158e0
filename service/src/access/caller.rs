//! Who calls: a token that was accepted, its grants and its account.

use std::sync::Arc;
use std::time::SystemTime;

use super::account::Account;
use super::digest::SecretDigest;
use super::grant::Grants;
use crate::error::TokenProblem;

/// How the caller was recognized.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// The server does not require tokens.
    Anonymous,
    /// The server itself.
    Process,
    /// The digest of a listed token.
    Secret(SecretDigest),
    /// A signed token.
    Signed(SignedProof),
}

/// The parts of an accepted signed token that are checked again when the key file changes.
#[derive(Clone, Debug)]
pub(super) struct SignedProof {
    /// Digest of the key and all its settings in the file.
    pub(super) key_digest: SecretDigest,
    pub(super) subject: String,
    /// The claim `jti`.
    pub(super) token_id: Option<String>,
}

/// See the file's head.
#[derive(Debug)]
pub struct Caller {
    pub(super) proof: Proof,
    pub(super) grants: Grants,
    pub(super) not_before: Option<SystemTime>,
    pub(super) expires: Option<SystemTime>,
    /// `None` for the anonymous caller and the server itself, which have no quotas.
    pub(super) account: Option<Arc<Account>>,
}

impl Caller {
    /// A caller that may do everything.
    pub(super) fn unlimited(proof: Proof) -> Arc<Self> {
        let grants = Grants::all();
        Arc::new(Self { proof, grants, not_before: None, expires: None, account: None })
    }

    /// Name of the caller in audit records.
    #[must_use]
    pub fn name(&self) -> &str {
        match (&self.account, &self.proof) {
            (Some(account), _) => account.name(),
            (None, Proof::Process) => "server",
            (None, _) => "anonymous",
        }
    }

    /// What it may do.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Its account, if it has quotas.
    #[must_use]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// Whether two entries with the same token, which may be of different files, differ in nothing
    /// but the values of quotas.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let account = |of: &Self| of.account().map(|account| account.id());
        let times = |of: &Self| (of.not_before, of.expires);
        self.grants == other.grants
            && times(self) == times(other)
            && account(self) == account(other)
    }

    /// Confirms that the token is valid at `now`: `not_before` has been reached and `expires` has
    /// not.
    pub(super) fn check_time(&self, now: SystemTime) -> Result<(), TokenProblem> {
        if self.not_before.is_some_and(|begin| now < begin) {
            return Err(TokenProblem::NotYetValid);
        }
        if self.expires.is_some_and(|end| now >= end) {
            return Err(TokenProblem::Expired);
        }
        Ok(())
    }
}
