//! The file of the keys that sign tokens (TOML), and the verification of a token by them.
//!
//! A key is valid for one algorithm, and a token with another one is refused. The header `kid` of a
//! token names its key; it may be absent if the file has one key only. The claims `exp`, `nbf`,
//! `aud`, `sub` and `shoal` are required. `docs/access.md` describes the format.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

use super::caller::SignedProof;
use super::digest::SecretDigest;
use super::grant::{Grants, Quotas};
use super::jwt_crypto;
use crate::error::TokenProblem;
use crate::limits::{JWT_KEYS_MAX, JWT_LEEWAY_S, JWT_SUBJECT_BYTES_MAX, JWT_WITHDRAWN_MAX};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    audience: String,
    issuer: Option<String>,
    #[serde(default)]
    withdrawn_ids: HashSet<String>,
    #[serde(default)]
    withdrawn_subjects: HashSet<String>,
    key: Vec<KeyEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    id: String,
    algorithm: String,
    public_key: String,
}

/// A key of the file.
#[derive(Debug)]
struct Key {
    id: String,
    key: DecodingKey,
    validation: Validation,
    /// Digest of the key and all its settings in the file.
    digest: SecretDigest,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct JwtKeys {
    keys: Vec<Key>,
    withdrawn_ids: HashSet<String>,
    withdrawn_subjects: HashSet<String>,
}

/// The content of a verified token's claims.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) proof: SignedProof,
    /// The claim `nbf`, seconds since 1970.
    pub(super) begins_s: u64,
    pub(super) expires: SystemTime,
    pub(super) grants: Grants,
    pub(super) quotas: Quotas,
}

#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    nbf: f64,
    exp: f64,
    jti: Option<String>,
    shoal: ShoalClaim,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShoalClaim {
    grants: Grants,
    #[serde(default)]
    quotas: Quotas,
}

impl JwtKeys {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// What is wrong, and in which key.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        jwt_crypto::install();
        let file: KeyFile =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let KeyFile { audience, issuer, withdrawn_ids, withdrawn_subjects, key: entries } = file;
        if audience.is_empty() || issuer.as_ref().is_some_and(String::is_empty) {
            return Err("audience and issuer must not be empty".to_owned());
        }
        if entries.len() > JWT_KEYS_MAX {
            return Err(format!("{} keys; the limit is {JWT_KEYS_MAX}", entries.len()));
        }
        if withdrawn_ids.len() + withdrawn_subjects.len() > JWT_WITHDRAWN_MAX {
            return Err(format!("more than {JWT_WITHDRAWN_MAX} withdrawn ids and subjects"));
        }
        let mut keys: Vec<Key> = Vec::with_capacity(entries.len());
        for entry in entries {
            if keys.iter().any(|key| key.id == entry.id) {
                return Err(format!("key {:?}: the id occurs twice", entry.id));
            }
            keys.push(Key::new(entry, &audience, issuer.as_deref())?);
        }
        Ok(Self { keys, withdrawn_ids, withdrawn_subjects })
    }

    /// Verifies a token.
    pub(super) fn verify(&self, token: &str) -> Result<Signed, TokenProblem> {
        let header = decode_header(token).map_err(|_| TokenProblem::Malformed)?;
        if header.crit.is_some_and(|names| !names.is_empty()) {
            // `crit` lists extensions that the receiver must support (RFC 7515, section 4.1.11).
            // None is supported here.
            return Err(TokenProblem::Malformed);
        }
        let key = match (&header.kid, self.keys.as_slice()) {
            (Some(id), keys) => keys.iter().find(|key| key.id == *id),
            (None, [key]) => Some(key),
            (None, _) => None,
        };
        let key = key.ok_or(TokenProblem::Unknown)?;
        let decoded = decode::<Claims>(token, &key.key, &key.validation);
        let Claims { sub, nbf, exp, jti, shoal } = decoded.map_err(|error| problem(&error))?.claims;
        let is_bounded = |text: &str| text.len() <= JWT_SUBJECT_BYTES_MAX;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if sub.is_empty() || !is_bounded(&sub) || !is_plain(&sub) {
            return Err(TokenProblem::Claims);
        }
        if !jti.as_deref().is_none_or(is_bounded) || shoal.grants.check().is_err() {
            return Err(TokenProblem::Claims);
        }
        // A time beyond the range of the clock means that the token does not expire.
        let end_s = exp.clamp(0.0, 1e12).round() as u64 + JWT_LEEWAY_S;
        let proof = SignedProof { key_digest: key.digest, subject: sub, token_id: jti };
        if !self.hold(&proof) {
            return Err(TokenProblem::Withdrawn);
        }
        Ok(Signed {
            proof,
            begins_s: nbf.max(0.0) as u64,
            expires: UNIX_EPOCH + Duration::from_secs(end_s),
            grants: shoal.grants,
            quotas: shoal.quotas,
        })
    }

    /// Whether the current file still accepts a verified token: it has the same key, and withdraws
    /// neither the token's id nor its subject.
    pub(super) fn hold(&self, proof: &SignedProof) -> bool {
        let SignedProof { key_digest, subject, token_id } = proof;
        self.keys.iter().any(|key| key.digest == *key_digest)
            && !self.withdrawn_subjects.contains(subject)
            && token_id.as_ref().is_none_or(|id| !self.withdrawn_ids.contains(id))
    }
}

impl Key {
    fn new(entry: KeyEntry, audience: &str, issuer: Option<&str>) -> Result<Self, String> {
        let KeyEntry { id, algorithm, public_key } = entry;
        let of = |problem: String| format!("key {id:?}: {problem}");
        let pem = public_key.as_bytes();
        let (algorithm, key) = match algorithm.as_str() {
            "EdDSA" => (Algorithm::EdDSA, DecodingKey::from_ed_pem(pem)),
            "ES256" => (Algorithm::ES256, DecodingKey::from_ec_pem(pem)),
            "RS256" => (Algorithm::RS256, DecodingKey::from_rsa_pem(pem)),
            other => return Err(of(format!("algorithm {other:?}: use EdDSA, ES256 or RS256"))),
        };
        let key = key.map_err(|_| of(format!("public_key is no PEM of a {algorithm:?} key")))?;
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "nbf", "aud", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = JWT_LEEWAY_S;
        validation.set_audience(&[audience]);
        if let Some(issuer) = issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        let parts = [&id, public_key.as_str(), audience, issuer.unwrap_or_default()];
        let digest = SecretDigest::of(&format!("{algorithm:?} {parts:?}"));
        Ok(Self { id, key, validation, digest })
    }
}

fn problem(error: &Error) -> TokenProblem {
    match error.kind() {
        ErrorKind::ExpiredSignature => TokenProblem::Expired,
        ErrorKind::ImmatureSignature => TokenProblem::NotYetValid,
        ErrorKind::InvalidAudience => TokenProblem::Audience,
        ErrorKind::InvalidIssuer => TokenProblem::Issuer,
        ErrorKind::InvalidSignature => TokenProblem::Signature,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => TokenProblem::Algorithm,
        ErrorKind::MissingRequiredClaim(_)
        | ErrorKind::InvalidClaimFormat(_)
        | ErrorKind::Json(_)
        | ErrorKind::Utf8(_) => TokenProblem::Claims,
        _ => TokenProblem::Malformed,
    }
}
