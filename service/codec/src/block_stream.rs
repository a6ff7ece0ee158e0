//! Encoding of a sender's stream of blocks: one plan for all, or the plans of a planner.
//!
//! Blocks are numbered from 1. The stream keeps no rows after it has encoded them.

use std::fmt;
use std::str::FromStr;

use crate::block_plan::BlockPlan;
use crate::codec::BlockCodec;
use crate::columns::FixColumns;
use crate::error::BlockError;
use crate::planner::{Aim, Planner};
use crate::space::SpaceTag;

/// Seed of a stream's planner, which selects samples. The value is arbitrary.
const PLANNER_SEED: u64 = 1;

/// Source of the plans of a stream of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanChoice {
    /// Every column stays raw, which is the least work for a sender.
    Raw,
    /// [`BlockPlan::fixes`] for every block.
    Fixes,
    /// A [`Planner`], which adapts to the data, with this aim.
    Planned(Aim),
}

/// The text is not the name of a [`PlanChoice`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan of blocks is {0:?}, it must be raw, fixes or planned")]
pub struct UnknownPlan(String);

impl PlanChoice {
    /// Every choice; [`PlanChoice::Planned`] has the aim `Fast`.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Fixes, Self::Planned(Aim::Fast)];

    /// Returns the choice with this aim if it is [`PlanChoice::Planned`]; others are unchanged.
    #[must_use]
    pub fn aiming(self, aim: Aim) -> Self {
        if let Self::Planned(_) = self { Self::Planned(aim) } else { self }
    }

    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Fixes => "fixes",
            Self::Planned(Aim::Fast) => "planned",
            Self::Planned(Aim::Balanced) => "planned, balanced",
            Self::Planned(Aim::Small) => "planned, small",
        }
    }
}

impl fmt::Display for PlanChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for PlanChoice {
    type Err = UnknownPlan;

    fn from_str(name: &str) -> Result<Self, UnknownPlan> {
        let found = Self::ALL.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| UnknownPlan(name.to_owned()))
    }
}

/// Encodes the blocks of one sender, one after the other.
#[derive(Clone, Debug)]
pub struct BlockStream {
    space: SpaceTag,
    plans: Plans,
    sequence: u64,
}

/// State of a stream with a [`PlanChoice`].
#[derive(Clone, Debug)]
enum Plans {
    Same(Box<BlockPlan>),
    Learned(Planner),
}

impl BlockStream {
    /// A stream for a fleet with this space.
    pub fn new(space: SpaceTag, choice: PlanChoice) -> Self {
        let plans = match choice {
            PlanChoice::Raw => Plans::Same(Box::new(BlockPlan::raw())),
            PlanChoice::Fixes => Plans::Same(Box::new(BlockPlan::fixes())),
            PlanChoice::Planned(aim) => Plans::Learned(Planner::new(PLANNER_SEED, aim)),
        };
        Self { space, plans, sequence: 0 }
    }

    /// Encodes the next block. Streams that encode the same columns in the same order give the same
    /// bytes.
    ///
    /// # Errors
    /// As [`BlockCodec::encode_planned`].
    pub fn encode(
        &mut self,
        codec: &impl BlockCodec,
        columns: &FixColumns,
    ) -> Result<Vec<u8>, BlockError> {
        self.sequence += 1;
        let mut block = Vec::new();
        match &mut self.plans {
            Plans::Same(plan) => {
                codec.encode_planned(columns, plan, &self.space, self.sequence, &mut block)?;
            }
            Plans::Learned(planner) => {
                planner.encode(codec, columns, &self.space, self.sequence, &mut block)?;
            }
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::codec::CpuCodec;
    use crate::columns::FixRow;
    use crate::limits::Budget;
    use crate::space::SpaceKind;

    /// Objects that move along, three rows each.
    fn columns(first_ms: i64) -> FixColumns {
        let mut columns = FixColumns::new();
        for row in 0..3_000 {
            let step = i32::try_from(row / 1_000).unwrap();
            let (object, time_ms) = (row % 1_000, first_ms + row as i64);
            columns.push_row(FixRow::new(object, time_ms, 40 * step, object as i32));
        }
        columns
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for choice in PlanChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "lz4".parse::<PlanChoice>().unwrap_err().to_string();
        assert!(error.contains("lz4") && error.contains("planned"), "{error}");
    }

    #[test]
    fn every_choice_gives_the_same_rows_and_numbers_its_blocks() {
        let space =
            SpaceTag { kind: SpaceKind::Planar, origin_x: 0.0, origin_y: 0.0, quantum: 0.01 };
        let mut bytes = Vec::new();
        for choice in PlanChoice::ALL {
            let mut stream = BlockStream::new(space, choice);
            for sequence in 1..=2 {
                let columns = columns(1_000 * sequence);
                let block = stream.encode(&CpuCodec, &columns).unwrap();
                bytes.push(block.len());
                let block = Block::parse(block.into(), &Budget::default()).unwrap();
                assert_eq!(block.header().sequence, sequence as u64);
                assert_eq!(block.decode().unwrap(), columns, "{choice}");
                assert_eq!(block.grain_rows() == 1, choice == PlanChoice::Raw);
            }
        }
        assert!(bytes[2] * 3 < bytes[0] && bytes[4] <= bytes[2], "{bytes:?}");
    }
}
