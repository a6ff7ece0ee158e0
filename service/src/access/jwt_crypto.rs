//! The signatures of JWT, by ring: the same cryptography as TLS. It signs nothing.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, new_error};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};

type Outcome<T> = jsonwebtoken::errors::Result<T>;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::InvalidAlgorithm)),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring verify the tokens of this process. May be called more than once.
pub(super) fn install() {
    // An error means that it is installed already.
    let _ = PROVIDER.install_default();
}

/// A key, and the only algorithm for which it is valid.
struct RingVerifier {
    algorithm: Algorithm,
    key: UnparsedPublicKey<Vec<u8>>,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Outcome<Box<dyn JwtVerifier>> {
    let (family, by): (_, &'static dyn VerificationAlgorithm) = match algorithm {
        Algorithm::EdDSA => (AlgorithmFamily::Ed, &ED25519),
        Algorithm::ES256 => (AlgorithmFamily::Ec, &ECDSA_P256_SHA256_FIXED),
        Algorithm::RS256 => (AlgorithmFamily::Rsa, &RSA_PKCS1_2048_8192_SHA256),
        _ => return Err(new_error(ErrorKind::InvalidAlgorithm)),
    };
    if key.family() != family {
        return Err(new_error(ErrorKind::InvalidAlgorithm));
    }
    let key = UnparsedPublicKey::new(by, key.try_get_as_bytes()?.to_vec());
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key }))
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), Error> {
        self.key.verify(message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
