//! Session handles and resume tokens.
//!
//! A handle identifies a session and authorizes its client by a random secret. A resume token is a
//! handle and the number of the last message that the client received. Encoding: version, term,
//! session, secret, and for a token the message number, little-endian. Clients
//! treat handles and tokens as opaque bytes.

use crate::error::ServiceError;

const VERSION: u8 = 1;
const SECRET_BYTES: usize = 16;
const HANDLE_BYTES: usize = 1 + 8 + 8 + SECRET_BYTES;
const TOKEN_BYTES: usize = HANDLE_BYTES + 8;

/// Identifies a session and authorizes its client.
#[derive(Clone, Copy, Debug)]
pub struct SessionHandle {
    /// The term of the session's fleet.
    pub term: u64,
    /// The session in that term.
    pub session: u64,
    secret: [u8; SECRET_BYTES],
}

/// The position at which a stream resumes.
#[derive(Clone, Copy, Debug)]
pub struct ResumeToken {
    /// The session.
    pub handle: SessionHandle,
    /// Number of the last message received.
    pub sequence: u64,
}

impl SessionHandle {
    /// A handle with a new secret.
    ///
    /// # Errors
    /// [`ServiceError::Io`] if the system provides no random numbers.
    pub fn draw(term: u64, session: u64) -> Result<Self, ServiceError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| ServiceError::Io {
            what: "drawing the secret of a session".into(),
            source: std::io::Error::other(error),
        })?;
        Ok(Self { term, session, secret })
    }

    /// The encoded handle.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.term.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.session.to_le_bytes());
        bytes[17..].copy_from_slice(&self.secret);
        bytes
    }

    /// Decodes the handle that a client sent; does not check its secret.
    ///
    /// # Errors
    /// [`ServiceError::Token`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ServiceError> {
        let wrong = || ServiceError::Token("wrong length");
        let bytes: &[u8; HANDLE_BYTES] = bytes.try_into().map_err(|_| wrong())?;
        if bytes[0] != VERSION {
            return Err(ServiceError::Token("unknown version"));
        }
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(&bytes[17..]);
        Ok(Self { term: number(&bytes[1..9]), session: number(&bytes[9..17]), secret })
    }

    /// Checks in constant time that the handle that a client sent equals this one.
    ///
    /// # Errors
    /// [`ServiceError::Token`].
    pub fn authenticate(&self, brought: &Self) -> Result<(), ServiceError> {
        let pairs = self.secret.iter().zip(&brought.secret);
        let difference = pairs.fold(0, |bits, (a, b)| std::hint::black_box(bits | (a ^ b)));
        if difference == 0 && (self.term, self.session) == (brought.term, brought.session) {
            return Ok(());
        }
        Err(ServiceError::Token("wrong secret"))
    }

    /// The token that resumes after the message with number `sequence`.
    #[must_use]
    pub fn token(&self, sequence: u64) -> [u8; TOKEN_BYTES] {
        let mut bytes = [0; TOKEN_BYTES];
        bytes[..HANDLE_BYTES].copy_from_slice(&self.to_bytes());
        bytes[HANDLE_BYTES..].copy_from_slice(&sequence.to_le_bytes());
        bytes
    }
}

impl ResumeToken {
    /// Decodes the token that a client sent.
    ///
    /// # Errors
    /// [`ServiceError::Token`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ServiceError> {
        let split = bytes.split_at_checked(HANDLE_BYTES).filter(|(_, rest)| rest.len() == 8);
        let (handle, rest) = split.ok_or(ServiceError::Token("wrong length"))?;
        Ok(Self { handle: SessionHandle::parse(handle)?, sequence: number(rest) })
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(bytes);
    u64::from_le_bytes(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_decode_and_authorize() {
        let handle = SessionHandle::draw(7, 9).unwrap();
        let token = handle.token(u64::MAX);
        assert!(token.len() <= 1 << 10);
        let read = ResumeToken::parse(&token).unwrap();
        assert_eq!((read.handle.term, read.handle.session, read.sequence), (7, 9, u64::MAX));
        handle.authenticate(&read.handle).unwrap();
        handle.authenticate(&SessionHandle::parse(&handle.to_bytes()).unwrap()).unwrap();
        let other = SessionHandle::draw(7, 9).unwrap();
        assert!(matches!(handle.authenticate(&other), Err(ServiceError::Token(_))));
        assert!(handle.authenticate(&SessionHandle { session: 8, ..handle }).is_err());
    }

    #[test]
    fn every_changed_bit_is_refused() {
        let handle = SessionHandle::draw(1, 2).unwrap();
        let bytes = handle.to_bytes();
        for bit in 0..8 * bytes.len() {
            let mut forged = bytes;
            forged[bit / 8] ^= 1 << (bit % 8);
            let parsed = SessionHandle::parse(&forged);
            assert!(parsed.is_err() || handle.authenticate(&parsed.unwrap()).is_err(), "bit {bit}");
        }
        let token = handle.token(3);
        for length in (0..token.len()).chain([token.len() + 1, 4096]) {
            let mut cut = token.to_vec();
            cut.resize(length, 0);
            assert!(ResumeToken::parse(&cut).is_err(), "{length} bytes");
        }
    }
}
