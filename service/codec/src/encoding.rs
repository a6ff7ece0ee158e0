//! Which encodings are there?
//!
//! One table from wire identifier to the rules in each encoding's `spec.rs`; who decodes and
//! encodes stands in `tree_decode.rs` and `tree_encode.rs`.

use crate::place::{NodeRules, Place};
use crate::plan::PlanFault;
use crate::{
    afl, constant, delta, delta_of_delta, dict, divisor, float_to_int, gfc, group, keyed_delta,
    keyed_delta_of_delta, patch, raw, rle, scale,
};

/// An encoding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[non_exhaustive]
pub enum Encoding {
    /// Values as they are.
    Raw = raw::spec::ENCODING_ID,
    /// The smallest width for each group of 32 values.
    Afl = afl::spec::ENCODING_ID,
    /// Differences within a tile.
    Delta = delta::spec::ENCODING_ID,
    /// Differences of differences within a tile.
    Delta2 = delta_of_delta::spec::ENCODING_ID,
    /// Distances from the least value of a tile.
    Scale = scale::spec::ENCODING_ID,
    /// Quotients by a divisor that all values share.
    Divisor = divisor::spec::ENCODING_ID,
    /// Decimal floats as integers.
    FloatToInt = float_to_int::spec::ENCODING_ID,
    /// A few exceptions apart.
    Patch = patch::spec::ENCODING_ID,
    /// Runs of equal values.
    Rle = rle::spec::ENCODING_ID,
    /// Codes into a dictionary.
    Dict = dict::spec::ENCODING_ID,
    /// One value everywhere.
    Const = constant::spec::ENCODING_ID,
    /// Floats as differences from 32 values before, in whole bytes.
    Gfc = gfc::spec::ENCODING_ID,
    /// Rows grouped by key.
    Group = group::spec::ENCODING_ID,
    /// Differences along each key.
    KeyedDelta = keyed_delta::spec::ENCODING_ID,
    /// Differences of differences along each key.
    KeyedDelta2 = keyed_delta_of_delta::spec::ENCODING_ID,
}

impl Encoding {
    /// Every encoding, in order of identifier.
    pub const ALL: [Self; 15] = [
        Self::Raw,
        Self::Afl,
        Self::Delta,
        Self::Delta2,
        Self::Scale,
        Self::Divisor,
        Self::FloatToInt,
        Self::Patch,
        Self::Rle,
        Self::Dict,
        Self::Const,
        Self::Gfc,
        Self::Group,
        Self::KeyedDelta,
        Self::KeyedDelta2,
    ];

    /// The encoding with this wire identifier, if this reader knows it.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.id() == id)
    }

    /// Its identifier on the wire.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// Its name in plans and messages.
    pub fn name(self) -> &'static str {
        self.rules().name
    }

    /// True if it makes its whole tree work in grouped order.
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::Group | Self::KeyedDelta | Self::KeyedDelta2)
    }

    /// True if child `child` has its counts from this node's section.
    pub(crate) fn is_child_sparse(self, child: u8) -> bool {
        match self {
            Self::Rle => true,
            Self::Dict | Self::KeyedDelta | Self::KeyedDelta2 => child == 1,
            _ => false,
        }
    }

    /// What every node of it has.
    pub(crate) fn rules(self) -> &'static NodeRules {
        match self {
            Self::Raw => &raw::spec::RULES,
            Self::Afl => &afl::spec::RULES,
            Self::Delta => &delta::spec::RULES,
            Self::Delta2 => &delta_of_delta::spec::RULES,
            Self::Scale => &scale::spec::RULES,
            Self::Divisor => &divisor::spec::RULES,
            Self::FloatToInt => &float_to_int::spec::RULES,
            Self::Patch => &patch::spec::RULES,
            Self::Rle => &rle::spec::RULES,
            Self::Dict => &dict::spec::RULES,
            Self::Const => &constant::spec::RULES,
            Self::Gfc => &gfc::spec::RULES,
            Self::Group => &group::spec::RULES,
            Self::KeyedDelta => &keyed_delta::spec::RULES,
            Self::KeyedDelta2 => &keyed_delta_of_delta::spec::RULES,
        }
    }

    /// Checks a node of it among its relatives.
    pub(crate) fn check_place(self, place: &Place<'_>) -> Result<(), PlanFault> {
        match self {
            Self::Raw => raw::spec::check(place),
            Self::Afl => afl::spec::check(place),
            Self::Delta => delta::spec::check(place),
            Self::Delta2 => delta_of_delta::spec::check(place),
            Self::Scale => scale::spec::check(place),
            Self::Divisor => divisor::spec::check(place),
            Self::FloatToInt => float_to_int::spec::check(place),
            Self::Patch => patch::spec::check(place),
            Self::Rle => rle::spec::check(place),
            Self::Dict => dict::spec::check(place),
            Self::Const => constant::spec::check(place),
            Self::Gfc => gfc::spec::check(place),
            Self::Group => group::spec::check(place),
            Self::KeyedDelta => keyed_delta::spec::check(place),
            Self::KeyedDelta2 => keyed_delta_of_delta::spec::check(place),
        }
    }
}
