//! Recognizes callers by their tokens, and notices when a token is withdrawn or expires.
//!
//! The files of tokens and keys are read again when they change. An invalid file is reported and
//! changes nothing; the other one is used. Calls of a token whose entry did not change continue.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use lru::LruCache;
use shoal_client::Secret;

use super::account::Accounts;
use super::audit::{Audit, AuditRecord};
use super::bearer::bearer;
use super::call::Call;
use super::caller::{Caller, Proof};
use super::digest::{SecretDigest, draw_secret};
use super::jwt_keys::{JwtKeys, Signed};
use super::open_calls::{OpenCall, OpenCalls};
use super::peer::Peer;
use super::quota_meter::MeteredQuota;
use super::rights_table::method_right;
use super::token_file::TokenTable;
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::error::TokenProblem;
use crate::error::bounded;
use crate::file_watch::{keep_read, read_bounded};
use crate::limits::{ACCESS_FILE_BYTES_MAX, JWT_CACHE_MAX, RELOAD_MS};

/// The files that say who may do what. Without any, everyone may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessOptions {
    /// Listed tokens.
    pub tokens: Option<PathBuf>,
    /// Keys of signed tokens.
    pub jwt_keys: Option<PathBuf>,
    /// Where audit records go, if not to the log.
    pub audit_log: Option<PathBuf>,
}

impl AccessOptions {
    /// Whether calls need a token.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.tokens.is_some() || self.jwt_keys.is_some()
    }
}

/// Content of the current files: listed tokens, and the keys that verify signed ones.
#[derive(Clone, Debug, Default)]
struct Tables {
    tokens: Arc<TokenTable>,
    keys: Option<Arc<JwtKeys>>,
}

/// See the file's head. Clones share everything.
#[derive(Clone, Debug)]
pub struct Access(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: AccessOptions,
    tables: RwLock<Arc<Tables>>,
    open_calls: OpenCalls,
    generation: AtomicU64,
    accounts: Accounts,
    /// Cache of callers whose signed tokens the current tables have verified.
    verified: Mutex<LruCache<u64, (SecretDigest, Arc<Caller>)>>,
    audit: Audit,
    anonymous: Arc<Caller>,
    /// Token, digest and caller with which the server calls itself.
    process: (Secret, SecretDigest, Arc<Caller>),
}

impl Access {
    /// Reads the files.
    ///
    /// # Errors
    /// [`ServiceError::AccessFile`], [`ServiceError::Io`].
    pub fn open(options: AccessOptions) -> Result<Self, ServiceError> {
        let accounts = Accounts::default();
        let (tables, problem) = Tables::default().read(&options, &accounts);
        problem.map_or(Ok(()), Err)?;
        let audit = options.audit_log.as_deref().map(Audit::to_file).transpose()?;
        let audit = audit.unwrap_or_default();
        let secret = draw_secret()?;
        let digest = SecretDigest::of(secret.expose());
        let cache = NonZero::new(JWT_CACHE_MAX).unwrap_or(NonZero::<usize>::MIN);
        Ok(Self(Arc::new(Shared {
            audit,
            options,
            tables: RwLock::new(Arc::new(tables)),
            open_calls: OpenCalls::default(),
            generation: AtomicU64::new(0),
            accounts,
            verified: Mutex::new(LruCache::new(cache)),
            anonymous: Caller::unlimited(Proof::Anonymous),
            process: (secret, digest, Caller::unlimited(Proof::Process)),
        })))
    }

    /// An access without files: every caller may do everything.
    ///
    /// # Errors
    /// [`ServiceError::Io`].
    pub fn open_to_all() -> Result<Self, ServiceError> {
        Self::open(AccessOptions::default())
    }

    /// The token with which the server calls itself.
    #[must_use]
    pub fn process_token(&self) -> &Secret {
        &self.0.process.0
    }

    /// Waits for the last audit records to be written, for a bounded time. Blocks.
    pub(crate) fn drain_audit(&self) {
        self.0.audit.drain();
    }

    /// Whether calls need a token.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.0.options.is_enforced()
    }

    /// Admits a call before it is decoded: recognizes the caller, and confirms what the table of
    /// rights demands and what the quotas of the token allow.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`], [`ServiceError::MethodUnknown`],
    /// [`ServiceError::PermissionDenied`], [`ServiceError::Quota`].
    pub fn admit(
        &self,
        path: &str,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Call, ServiceError> {
        let call = self.known_call(path, path, headers, peer)?;
        if let Some(account) = call.account() {
            peer.count_for(account).map_err(|error| call.refused(None, error))?;
            call.take(MeteredQuota::AnswerBytes, 0)?;
            if let Some(quota) = call.method.metered() {
                // The amount is known later. Until then an overdrawn token causes no work.
                call.take(quota, 0)?;
            }
        }
        Ok(call)
    }

    /// Confirms that the caller of a request to a path has the rights that a method needs on a
    /// fleet, before the body of the request is read. Takes nothing from quotas: the method does.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`], [`ServiceError::PermissionDenied`],
    /// [`ServiceError::FleetUnknown`], [`ServiceError::FleetName`].
    pub(crate) fn permit(
        &self,
        path: &str,
        method: &str,
        fleet: Option<&str>,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<(), ServiceError> {
        let call = self.known_call(path, method, headers, peer)?;
        fleet.map_or(Ok(()), |fleet| call.check_fleet(&FleetName::new("fleet", fleet)?))
    }

    /// The call of a method by a request to a path. The caller is known and may call the method on
    /// some fleet.
    fn known_call(
        &self,
        path: &str,
        method: &str,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Call, ServiceError> {
        let caller = self.recognize(path, headers, peer)?;
        let Some(method) = method_right(method) else {
            let error = ServiceError::method_unknown(method);
            self.record_refusal(Some(&caller), path, peer, &error.to_string());
            return Err(error);
        };
        let (peer, access) = (peer.address(), self.clone());
        let call = Call { caller, method, peer, access, is_in_process: false };
        call.check_method()?;
        Ok(call)
    }

    /// The caller of a request, before its body is read.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`].
    fn recognize(
        &self,
        path: &str,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Arc<Caller>, ServiceError> {
        self.authenticate(headers).map_err(|problem| {
            self.record_refusal(None, path, peer, problem.name());
            ServiceError::Unauthenticated(problem)
        })
    }

    /// Records the refusal of a call without a known caller or method.
    fn record_refusal(&self, caller: Option<&Caller>, path: &str, peer: &Peer, reason: &str) {
        self.0.audit.add(&AuditRecord {
            caller,
            action: &bounded(path),
            fleet: None,
            peer: peer.address(),
            right: None,
            refused: Some(reason),
        });
    }

    pub(super) fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// The caller with the token of these headers.
    fn authenticate(&self, headers: &HeaderMap) -> Result<Arc<Caller>, TokenProblem> {
        if !self.is_enforced() {
            return Ok(self.0.anonymous.clone());
        }
        let token = bearer(headers)?;
        let digest = SecretDigest::of(token);
        let (_, process_digest, process) = &self.0.process;
        if digest == *process_digest {
            return Ok(process.clone());
        }
        let tables = self.tables();
        let caller = match (tables.tokens.find(&digest), &tables.keys) {
            (Some(caller), _) => caller.clone(),
            (None, Some(keys)) if token.contains('.') => self.verified(keys, token, digest)?,
            (None, _) => return Err(TokenProblem::Unknown),
        };
        caller.check_time(SystemTime::now())?;
        Ok(caller)
    }

    fn verified(
        &self,
        keys: &JwtKeys,
        token: &str,
        digest: SecretDigest,
    ) -> Result<Arc<Caller>, TokenProblem> {
        let verified = || self.0.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, caller)) = verified().get(&digest.place())
            && *known == digest
            && matches!(&caller.proof, Proof::Signed(proof) if keys.hold(proof))
        {
            return Ok(caller.clone());
        }
        let Signed { proof, begins_s, expires, grants, quotas } = keys.verify(token)?;
        let account = format!("jwt:{}", proof.subject);
        let account = self.0.accounts.of_token(&account, quotas, begins_s);
        let caller = Arc::new(Caller {
            proof: Proof::Signed(proof),
            grants,
            not_before: None,
            expires: Some(expires),
            account: Some(account),
        });
        verified().put(digest.place(), (digest, caller.clone()));
        Ok(caller)
    }

    /// Number of the current tables.
    pub(super) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Adds a call, which tables of this generation or later ones have admitted, to the calls in
    /// progress; `None` if its token can neither expire nor be withdrawn.
    pub(super) fn open_call(&self, call: &Call, generation: u64) -> Option<OpenCall> {
        let may_end = matches!(call.caller.proof, Proof::Secret(_) | Proof::Signed(_));
        let open = may_end.then(|| self.0.open_calls.open(call.clone()));
        if open.is_some() && self.generation() != generation {
            // The calls of withdrawn tokens may have been ended before this one was added.
            self.end_withdrawn();
        }
        open
    }

    /// Ends the calls whose tokens are not valid at this time.
    fn end_expired(&self) {
        let now = SystemTime::now();
        self.0.open_calls.end(|call| call.caller.check_time(now).err());
    }

    /// Ends the calls whose tokens the current files no longer accept.
    fn end_withdrawn(&self) {
        let tables = self.tables();
        let is_withdrawn = |call: &Call| !tables.hold(&call.caller);
        self.0.open_calls.end(|call| is_withdrawn(call).then_some(TokenProblem::Withdrawn));
    }

    fn tables(&self) -> Arc<Tables> {
        self.0.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again. A file that is wrong changes nothing, and the other one is used.
    ///
    /// # Errors
    /// [`ServiceError::AccessFile`].
    pub fn reload(&self) -> Result<(), ServiceError> {
        let (tables, problem) = self.tables().read(&self.0.options, &self.0.accounts);
        *self.0.tables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
        self.0.verified.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.0.generation.fetch_add(1, Ordering::AcqRel);
        self.end_withdrawn();
        problem.map_or(Ok(()), Err)
    }

    /// Reads the files again whenever they change, and ends the calls of tokens that are not valid
    /// any more; runs until the future is dropped.
    pub async fn watch(self) {
        let AccessOptions { tokens, jwt_keys, .. } = self.0.options.clone();
        let files: Vec<PathBuf> = [tokens, jwt_keys].into_iter().flatten().collect();
        if files.is_empty() {
            return;
        }
        let interval = Duration::from_millis(RELOAD_MS);
        let access = self.clone();
        let expiring = async {
            loop {
                tokio::time::sleep(interval).await;
                access.end_expired();
            }
        };
        let read = move || self.reload();
        let reading = keep_read(files, interval, "the files of tokens and keys", read);
        tokio::join!(expiring, reading);
    }
}

fn read_file<T>(
    file: &Path,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, ServiceError> {
    let parsed = read_bounded(file, ACCESS_FILE_BYTES_MAX).and_then(|text| parse(&text));
    parsed.map_err(|reason| ServiceError::AccessFile { file: file.to_owned(), reason })
}

impl Tables {
    /// The content of the files, and the problem of one that is wrong: its content is that of
    /// `self`.
    fn read(&self, options: &AccessOptions, accounts: &Accounts) -> (Self, Option<ServiceError>) {
        let (mut tables, mut problem) = (self.clone(), None);
        if let Some(file) = &options.jwt_keys {
            match read_file(file, JwtKeys::parse) {
                Ok(keys) => tables.keys = Some(Arc::new(keys)),
                Err(error) => problem = Some(error),
            }
        }
        if let Some(file) = &options.tokens {
            match (read_file(file, |text| TokenTable::parse(text, accounts)), &mut problem) {
                (Ok(tokens), _) => tables.tokens = Arc::new(tokens),
                (Err(error), None) => problem = Some(error),
                (Err(error), Some(ServiceError::AccessFile { reason, .. })) => {
                    *reason = format!("{reason}; {error}");
                }
                (Err(_), Some(_)) => {}
            }
        }
        (tables, problem)
    }

    /// Whether the current tables still accept a caller that they or earlier tables have accepted.
    fn hold(&self, caller: &Caller) -> bool {
        match &caller.proof {
            Proof::Anonymous | Proof::Process => true,
            Proof::Secret(digest) => {
                self.tokens.find(digest).is_some_and(|now| now.is_same(caller))
            }
            Proof::Signed(proof) => self.keys.as_ref().is_some_and(|keys| keys.hold(proof)),
        }
    }
}
