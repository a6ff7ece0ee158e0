//! Counts the memory of all sessions of a server.
//!
//! While the total is above the limit, every session may hold less. Each session reports the bytes
//! that it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Pool {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Pool {
    /// A pool that is crowded above `bytes_max`.
    #[must_use]
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), bytes_max })
    }

    /// Bytes held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether sessions must hold less.
    pub(super) fn is_crowded(&self) -> bool {
        self.bytes() > self.bytes_max
    }
}

/// The bytes that one session holds.
#[derive(Debug)]
pub(super) struct Share {
    pool: Arc<Pool>,
    bytes: u64,
}

impl Share {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, bytes: 0 }
    }

    /// Sets the bytes that the session holds.
    pub(super) fn set(&mut self, bytes: u64) {
        // The wrapping difference also subtracts.
        self.pool.bytes.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.pool.is_crowded()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_end_with_their_sessions() {
        let pool = Pool::new(10);
        let (mut one, mut other) = (Share::new(pool.clone()), Share::new(pool.clone()));
        one.set(8);
        other.set(5);
        assert!(one.is_crowded() && pool.bytes() == 13);
        one.set(2);
        assert!(!one.is_crowded() && pool.bytes() == 7);
        drop(other);
        assert_eq!(pool.bytes(), 2);
        drop(one);
        assert_eq!(pool.bytes(), 0);
    }
}
