//! Tokens: the epochs that must be visible to a later query.
//!
//! A version byte, then term and epoch of each fleet that the token covers, little-endian, 16 bytes
//! each, at most 16 KiB in all; opaque to clients. Terms are random, so a token of an earlier run
//! never matches; it is refused at once.

use crate::error::ServiceError;
use crate::limits::{FLEETS_MAX, TOKEN_BYTES_MAX};

const VERSION: u8 = 1;
const STATE_BYTES: usize = 16;

/// Epochs that must be visible, by the term of their fleet's engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    states: Vec<(u64, u64)>,
}

impl Token {
    /// The state of one fleet after `epoch`.
    #[must_use]
    pub fn new(term: u64, epoch: u64) -> Self {
        Self { states: vec![(term, epoch)] }
    }

    /// Adds a state; keeps the later of two epochs of a term. If the token is full, the state that
    /// was added first is removed, which can only belong to a deleted fleet.
    pub fn add(&mut self, term: u64, epoch: u64) {
        match self.states.iter_mut().find(|state| state.0 == term) {
            Some(state) => state.1 = state.1.max(epoch),
            None => {
                if self.states.len() == FLEETS_MAX {
                    self.states.remove(0);
                }
                self.states.push((term, epoch));
            }
        }
    }

    /// True when it covers no state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Its bytes; none when it covers no state.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(1 + self.states.len() * STATE_BYTES);
        bytes.push(VERSION);
        for (term, epoch) in &self.states {
            bytes.extend_from_slice(&term.to_le_bytes());
            bytes.extend_from_slice(&epoch.to_le_bytes());
        }
        bytes
    }

    /// Reads a token of a client.
    ///
    /// # Errors
    /// [`ServiceError::Token`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ServiceError> {
        let Some((&version, states)) = bytes.split_first() else {
            return Err(ServiceError::Token("empty"));
        };
        if version != VERSION {
            return Err(ServiceError::Token("unknown version"));
        }
        let (states, rest) = states.as_chunks::<STATE_BYTES>();
        if bytes.len() > TOKEN_BYTES_MAX || states.is_empty() || !rest.is_empty() {
            return Err(ServiceError::Token("wrong length"));
        }
        let number = |state: &[u8; STATE_BYTES], offset: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&state[offset..offset + 8]);
            u64::from_le_bytes(field)
        };
        let states = states.iter().map(|state| (number(state, 0), number(state, 8))).collect();
        Ok(Self { states })
    }

    /// The epoch of a term, if the token covers it.
    #[must_use]
    pub fn epoch_of(&self, term: u64) -> Option<u64> {
        self.states.iter().find(|state| state.0 == term).map(|state| state.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_and_merge() {
        let mut token = Token::new(7, 3);
        token.add(9, 1);
        token.add(7, 2);
        assert_eq!(Token::parse(&token.to_bytes()).unwrap(), token);
        assert_eq!((token.epoch_of(7), token.epoch_of(9)), (Some(3), Some(1)));
        assert_eq!(token.epoch_of(8), None);
        for term in 0..1_100 {
            token.add(term + 100, 1);
        }
        assert_eq!((token.epoch_of(150), token.epoch_of(1_199)), (None, Some(1)));
        assert!(token.to_bytes().len() <= TOKEN_BYTES_MAX);
        assert_eq!(Token::parse(&token.to_bytes()).unwrap(), token);
        assert!(Token::default().to_bytes().is_empty());
    }

    #[test]
    fn foreign_bytes_are_refused() {
        let good = Token::new(1, 2).to_bytes();
        for length in 0..good.len() {
            assert!(Token::parse(&good[..length]).is_err(), "{length} bytes");
        }
        let mut other = good;
        other[0] = 2;
        assert!(Token::parse(&other).is_err());
        assert!(Token::parse(&vec![1; 1 + 16 * 1_024]).is_err());
    }
}
