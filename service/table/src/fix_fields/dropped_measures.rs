//! The measures of a file that were dropped.

/// A number, and descriptions of the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DroppedMeasures {
    /// RowMeasures that could not be stored; their rows were read without them.
    pub count: u64,
    /// Where the first were, and why.
    pub shown: Vec<String>,
}

impl DroppedMeasures {
    /// Maximum number of descriptions.
    pub const SHOWN_MAX: usize = 10;

    /// Adds a measure; `describe` is called for the first only.
    pub fn add(&mut self, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < Self::SHOWN_MAX {
            self.shown.push(describe());
        }
    }
}
