//! Tokens for tests: files of listed tokens and of keys, and valid and invalid signed tokens.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{KeyPair, PKCS_ED25519};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use serde_json::{Value, json};
use shoal_service::access::{AccessOptions, SecretDigest};
use tempfile::TempDir;

/// Every right.
pub(crate) const ALL: &[&str] = &["report", "query", "subscribe", "history", "admin"];

/// Files of tokens and keys in a folder, and the keys themselves.
pub(crate) struct TokenMaker {
    folder: TempDir,
    ed: KeyPair,
    ec: KeyPair,
    /// A key that is in no file.
    foreign: KeyPair,
}

/// Base64 for URLs, without padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

pub(crate) fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// An entry of a file of tokens.
pub(crate) fn entry(secret: &str, fleets: &[&str], rights: &[&str], more: &str) -> String {
    let sha256 = String::from(SecretDigest::of(secret));
    format!(
        "[[token]]\nname = '{secret}'\nsha256 = '{sha256}'\n{more}\n[[token.grants]]\n\
         fleets = {fleets:?}\nrights = {rights:?}\n\n"
    )
}

impl TokenMaker {
    /// Makes keys and their file, and a file of tokens with `entries`.
    pub(crate) fn new(entries: &str) -> Self {
        let ed = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let (ec, foreign) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let maker = Self { folder: tempfile::tempdir().unwrap(), ed, ec, foreign };
        maker.set_tokens(entries);
        maker.set_keys("");
        maker
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file at once, as operators should.
    fn replace(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    pub(crate) fn set_tokens(&self, entries: &str) {
        self.replace("tokens.toml", entries);
    }

    /// Replaces the file of keys. The lines `more` precede its keys.
    pub(crate) fn set_keys(&self, more: &str) {
        let signed = |name: &str| {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/server/signed");
            fs::read_to_string(folder.join(name)).unwrap()
        };
        let keys = [
            ("ed", "EdDSA", self.ed.public_key_pem()),
            ("ec", "ES256", self.ec.public_key_pem()),
            ("EdDSA", "EdDSA", signed("eddsa.pem")),
            ("ES256", "ES256", signed("es256.pem")),
            ("RS256", "RS256", signed("rs256.pem")),
        ];
        let mut text = format!("audience = 'shoal'\n{more}\n");
        for (id, algorithm, key) in keys {
            text += &format!(
                "[[key]]\nid = '{id}'\nalgorithm = '{algorithm}'\npublic_key = '''{key}'''\n"
            );
        }
        self.replace("keys.toml", &text);
    }

    /// Gives a key of the file another id.
    pub(crate) fn rename_key(&self, id: &str) {
        let text = fs::read_to_string(self.path("keys.toml")).unwrap();
        let renamed = text.replacen(&format!("id = '{id}'"), "id = 'renamed'", 1);
        self.replace("keys.toml", &renamed);
    }

    pub(crate) fn options(&self) -> AccessOptions {
        let tokens = Some(self.path("tokens.toml"));
        let jwt_keys = Some(self.path("keys.toml"));
        AccessOptions { tokens, jwt_keys, audit_log: None }
    }

    /// Claims that are valid now.
    pub(crate) fn claims(fleets: &[&str], rights: &[&str]) -> Value {
        json!({
            "sub": "subject", "aud": "shoal", "nbf": now_s() - 60, "exp": now_s() + 3600,
            "shoal": { "grants": [{ "fleets": fleets, "rights": rights }] },
        })
    }

    fn signing_input(header: &Value, claims: &Value) -> String {
        let part = |value: &Value| base64(value.to_string().as_bytes());
        format!("{}.{}", part(header), part(claims))
    }

    /// A token signed with Ed25519, with this header.
    pub(crate) fn signed_with(&self, header: &Value, claims: &Value) -> String {
        let input = Self::signing_input(header, claims);
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.ed.serialize_der()).unwrap();
        format!("{input}.{}", base64(key.sign(input.as_bytes()).as_ref()))
    }

    /// A token signed with Ed25519.
    pub(crate) fn signed(&self, claims: &Value) -> String {
        self.signed_with(&json!({ "alg": "EdDSA", "kid": "ed", "typ": "JWT" }), claims)
    }

    fn ec_signed(key: &KeyPair, header: &Value, claims: &Value) -> String {
        let input = Self::signing_input(header, claims);
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, &key.serialize_der(), &random).unwrap();
        format!("{input}.{}", base64(key.sign(&random, input.as_bytes()).unwrap().as_ref()))
    }

    /// A token signed with P-256.
    pub(crate) fn signed_ec(&self, claims: &Value) -> String {
        Self::ec_signed(&self.ec, &json!({ "alg": "ES256", "kid": "ec" }), claims)
    }

    /// Signed with another key than the one it names.
    pub(crate) fn forged(&self, claims: &Value) -> String {
        Self::ec_signed(&self.foreign, &json!({ "alg": "ES256", "kid": "ec" }), claims)
    }

    /// Not signed.
    pub(crate) fn unsigned(claims: &Value) -> String {
        format!("{}.", Self::signing_input(&json!({ "alg": "none", "kid": "ed" }), claims))
    }

    /// Signed with a public key of the file, taken for a secret.
    pub(crate) fn confused(&self, claims: &Value) -> String {
        let input = Self::signing_input(&json!({ "alg": "HS256", "kid": "ed" }), claims);
        let secret = self.ed.public_key_pem().into_bytes();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let tag = ring::hmac::sign(&key, input.as_bytes());
        format!("{input}.{}", base64(tag.as_ref()))
    }
}
