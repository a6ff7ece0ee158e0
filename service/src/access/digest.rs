//! The SHA-256 of a secret token. The server stores it in place of the token.
//!
//! A slow password hash is not needed: a secret has 256 random bits and cannot be guessed. A slow
//! hash would only make every call with a wrong token expensive.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use shoal_client::Secret;
use subtle::ConstantTimeEq as _;

use crate::error::ServiceError;

/// Random bytes of a secret.
const SECRET_RANDOM_BYTES: usize = 32;
/// Prefix of every secret, by which secret scanners can find one in a repository.
const SECRET_PREFIX: &str = "shoal_";

/// The SHA-256 of a token.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Returns the digest of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }

    /// The first 8 bytes: the key of a table whose entries are then compared in full.
    pub(super) fn place(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl PartialEq for SecretDigest {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretDigest {}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(..)")
    }
}

impl From<SecretDigest> for String {
    fn from(digest: SecretDigest) -> Self {
        digest.0.iter().fold(Self::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl FromStr for SecretDigest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || "sha256 must be 64 hexadecimal digits".to_owned();
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(problem());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = str::from_utf8(pair).map_err(|_| problem())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| problem())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for SecretDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Generates a new secret token.
///
/// # Errors
/// [`ServiceError::Io`] if the system provides no random bytes.
pub fn draw_secret() -> Result<Secret, ServiceError> {
    let failed = |error: String| ServiceError::Io {
        what: "drawing a token".into(),
        source: std::io::Error::other(error),
    };
    let mut bytes = [0; SECRET_RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| failed(error.to_string()))?;
    let text = bytes.iter().fold(SECRET_PREFIX.to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    text.parse().map_err(|error: shoal_client::SecretError| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha_256() {
        let digest = SecretDigest::of("abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(String::from(digest), text);
        assert_eq!(text.parse::<SecretDigest>().unwrap(), digest);
        assert_eq!(text.to_uppercase().parse::<SecretDigest>().unwrap(), digest);
        assert!(!format!("{digest:?}").contains("ba78"));
        for bad in ["", "ba78", &text[1..], &text.replace('b', "g"), &"é".repeat(32)] {
            assert!(bad.parse::<SecretDigest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_drawn_anew() {
        let (one, other) = (draw_secret().unwrap(), draw_secret().unwrap());
        assert!(one.expose() != other.expose() && one.expose().len() == 70);
        assert!(one.expose().starts_with(SECRET_PREFIX));
    }
}
