//! Who may call what: tokens, their grants and quotas, and the layer that checks every call.

#[allow(clippy::module_inception, reason = "the main type of the folder")]
mod access;
mod account;
mod audit;
mod bearer;
mod call;
mod caller;
mod digest;
mod fleet_pattern;
mod grant;
mod jwt_crypto;
mod jwt_keys;
mod layer;
mod limited_body;
mod open_calls;
mod peer;
mod quota_meter;
mod refusal_limit;
mod rights_table;
mod token_file;

pub use access::{Access, AccessOptions};
pub use account::Account;
pub(crate) use account::{Counted, CountedQuota};
pub use audit::Audit;
pub use call::Call;
pub(crate) use call::{InProcess, requester};
pub use caller::Caller;
pub use digest::{SecretDigest, draw_secret};
pub use fleet_pattern::FleetPattern;
pub use grant::{Grant, Grants, Quotas};
pub use layer::{AccessLayer, Guarded};
pub use peer::Peer;
pub(crate) use quota_meter::MeteredQuota;
pub use rights_table::{METHODS, MethodRight, Needs, method_right};
pub use token_file::{TokenEntry, TokenFile};
