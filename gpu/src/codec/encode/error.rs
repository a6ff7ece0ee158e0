//! Errors of the device's encoder.

use shoal_codec::{BlockError, NotApplicable};
use shoal_engine::EngineError;
use thiserror::Error;

/// The reason why the device encoded nothing.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// The tree cannot represent the values, or the format does not allow the tree.
    #[error("the tree does not apply: {0}")]
    NotApplicable(String),
    /// No block can hold the columns.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The device failed, or its memory is full.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl EncodeError {
    /// Returns [`Self::NotApplicable`] with `reason`, which is that of the CPU encoder.
    pub(super) fn because<T>(reason: &str) -> Result<T, Self> {
        Err(Self::NotApplicable(reason.to_owned()))
    }
}

impl From<NotApplicable> for EncodeError {
    fn from(refusal: NotApplicable) -> Self {
        Self::NotApplicable(refusal.reason)
    }
}
