//! Limits the resources of the streams to all followers: the memory for parts that are read and not
//! yet sent, and the number of concurrent reads.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ServiceError;
use crate::limits::{FOLLOW_PART_BYTES, FOLLOW_READS_MAX};
use crate::threads::blocking;

/// See the file's head.
#[derive(Clone, Debug)]
pub(super) struct FollowBudget {
    parts: Arc<Semaphore>,
    reads: Arc<Semaphore>,
}

impl FollowBudget {
    /// A budget of `bytes` bytes of memory.
    pub(super) fn new(bytes: usize) -> Self {
        // Each part counts twice, because it is copied into the buffer of its connection.
        let parts = (bytes / (2 * FOLLOW_PART_BYTES)).max(1);
        Self {
            parts: Arc::new(Semaphore::new(parts)),
            reads: Arc::new(Semaphore::new(FOLLOW_READS_MAX)),
        }
    }

    /// Waits for the memory of a part. The wait is bounded, because the stream of a follower that
    /// takes nothing is closed.
    pub(super) async fn part(&self) -> OwnedSemaphorePermit {
        self.parts.clone().acquire_owned().await.expect("it is never closed")
    }

    /// Runs a read of the disk on a blocking thread; only a few run at the same time.
    pub(super) async fn read<T: Send + 'static, E: Into<ServiceError> + Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let _read = self.reads.acquire().await.expect("it is never closed");
        blocking(|| work().map_err(Into::into)).await
    }
}
