//! The file of listed tokens (TOML): name, hash, times, grants and quotas of each. Secrets are not
//! in it. `docs/access.md` has the format.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::value::Datetime;

use super::account::Accounts;
use super::caller::{Caller, Proof};
use super::digest::SecretDigest;
use super::grant::{Grants, Quotas};
use crate::limits::{TOKEN_NAME_BYTES_MAX, TOKENS_MAX};

/// The content of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenFile {
    /// The tokens.
    #[serde(default)]
    pub token: Vec<TokenEntry>,
}

/// One token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Name of the token in logs, and of the account that its quotas apply to.
    pub name: String,
    /// The SHA-256 of the token.
    pub sha256: SecretDigest,
    /// The first moment at which it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
    pub not_before: Option<SystemTime>,
    /// The first moment at which it is not valid any more.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
    pub expires: Option<SystemTime>,
    /// What it allows.
    pub grants: Grants,
    /// What it may take.
    #[serde(default, skip_serializing_if = "Quotas::is_empty")]
    pub quotas: Quotas,
}

/// Dates of TOML with an offset.
mod moment {
    use super::{Datetime, Deserialize, Deserializer, Serializer, SystemTime};

    pub(super) fn serialize<S: Serializer>(
        moment: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = moment.map(|moment| humantime::format_rfc3339_seconds(moment).to_string());
        let date: Option<Datetime> = text.and_then(|text| text.parse().ok());
        serde::Serialize::serialize(&date, serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let text = Datetime::deserialize(deserializer)?.to_string();
        let moment = humantime::parse_rfc3339(&text);
        moment.map(Some).map_err(|_| {
            serde::de::Error::custom(format!("{text}: use UTC, as in 2027-01-31T00:00:00Z"))
        })
    }
}

/// The callers of the tokens of a file, by their digests.
#[derive(Debug, Default)]
pub(super) struct TokenTable {
    by_place: HashMap<u64, Vec<Arc<Caller>>>,
}

impl TokenTable {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// What is wrong, and in which entry.
    pub(super) fn parse(text: &str, accounts: &Accounts) -> Result<Self, String> {
        let file: TokenFile =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        file.check()?;
        let mut table = Self::default();
        for entry in file.token {
            let TokenEntry { name, sha256, not_before, expires, grants, quotas } = entry;
            let account = Some(accounts.get(&name, quotas));
            let proof = Proof::Secret(sha256);
            let caller = Arc::new(Caller { proof, grants, not_before, expires, account });
            table.by_place.entry(sha256.place()).or_default().push(caller);
        }
        Ok(table)
    }

    /// Finds the caller by the digest of its token. The first 8 bytes of the digest select the
    /// entries, which are then compared in constant time.
    pub(super) fn find(&self, digest: &SecretDigest) -> Option<&Arc<Caller>> {
        let is_same = |caller: &&Arc<Caller>| match &caller.proof {
            Proof::Secret(listed) => listed == digest,
            _ => false,
        };
        self.by_place.get(&digest.place())?.iter().find(is_same)
    }
}

impl TokenFile {
    /// Checks the rules that the types do not enforce.
    ///
    /// # Errors
    /// What is wrong, and in which entry.
    pub fn check(&self) -> Result<(), String> {
        if self.token.len() > TOKENS_MAX {
            return Err(format!("{} tokens; the limit is {TOKENS_MAX}", self.token.len()));
        }
        let (mut names, mut digests) = (HashSet::new(), HashSet::new());
        for entry in &self.token {
            let of = |problem: String| format!("token {:?}: {problem}", entry.name);
            check_name(&entry.name).map_err(of)?;
            entry.grants.check().map_err(of)?;
            if !names.insert(&entry.name) {
                return Err(of("the name occurs twice".to_owned()));
            }
            if !digests.insert(String::from(entry.sha256)) {
                return Err(of("another token has the same sha256".to_owned()));
            }
        }
        Ok(())
    }
}

/// Checks a token's name. Names appear in logs, so spaces, quotes and control characters are
/// refused.
fn check_name(name: &str) -> Result<(), String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@/".contains(&byte);
    if (1..=TOKEN_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(format!("use 1 to {TOKEN_NAME_BYTES_MAX} letters, digits, '.', '_', '-', '@' and '/'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::right::Right;

    const FILE: &str = r#"
        [[token]]
        name = "gateway"
        sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        expires = 2027-01-31T00:00:00Z
        [[token.grants]]
        fleets = ["truck-*"]
        rights = ["report", "query"]
        [token.quotas]
        rows_per_second = 1000
    "#;

    #[test]
    fn a_token_is_found_by_its_digest() {
        let table = TokenTable::parse(FILE, &Accounts::default()).unwrap();
        let caller = table.find(&SecretDigest::of("abc")).unwrap();
        assert_eq!(caller.name(), "gateway");
        assert!(caller.grants().allow(Right::Report, "truck-1"));
        let end = humantime::parse_rfc3339("2027-01-31T00:00:00Z").unwrap();
        assert_eq!(caller.expires, Some(end));
        assert!(table.find(&SecretDigest::of("abd")).is_none());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let file: TokenFile = toml::from_str(FILE).unwrap();
        let text = toml::to_string(&file).unwrap();
        let again: TokenFile = toml::from_str(&text).unwrap();
        assert_eq!(again.token[0].expires, file.token[0].expires);
        assert_eq!(again.token[0].grants, file.token[0].grants);
        assert_eq!(again.token[0].quotas, file.token[0].quotas);
        assert!(!text.contains("connections"), "{text}");
    }

    #[test]
    fn a_wrong_file_names_the_problem() {
        let twice = format!("{FILE}{FILE}");
        let other = FILE.replace("gateway", "other");
        let same_digest = format!("{FILE}{other}");
        for (text, named) in [
            (twice.as_str(), "twice"),
            (&same_digest, "sha256"),
            (&FILE.replace("rows_per", "row_per"), "row_per_second"),
            (&FILE.replace("gateway", "a b"), "\"a b\""),
            (&FILE.replace("ba78", "ba7"), "sha256"),
            (&FILE.replace("\"query\"", "\"root\""), "root"),
            (&FILE.replace("truck-*", "Truck"), "Truck"),
            (&FILE.replace("00Z", "00"), "UTC"),
            ("token = 5", "token"),
        ] {
            let error = TokenTable::parse(text, &Accounts::default()).unwrap_err();
            assert!(error.contains(named), "{named}: {error}");
        }
        assert!(TokenTable::parse("", &Accounts::default()).is_ok());
    }
}
