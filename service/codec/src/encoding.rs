//! The table of encodings: wire identifier, name, parameters and children, module.
//!
//! `encodings!` renders [`Encoding`], [`Tree`], the decoder of a tile and all dispatch over them. A
//! new encoding takes a row here and a file in `encoding/` with its rules, encoder and decoder. The
//! build of the GPU package renders the device's constants from [`Encoding::ALL`].

mod afl;
mod constant;
mod delta;
mod delta_of_delta;
pub mod dict;
pub(crate) mod divisor;
pub mod float_to_int;
mod gfc;
mod group;
mod keyed_delta;
mod keyed_delta_of_delta;
mod patch;
mod raw;
mod rle;
mod scale;

use std::fmt;

use crate::encoding::divisor::DivisorChoice;
use crate::node_spec::NodeSpec;
use crate::section::Fault;
use crate::tree::{NodeText, TreeField};
use crate::tree_decode::{NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

macro_rules! encodings {
    ($(
        $(#[$doc:meta])*
        $id:literal $name:literal $variant:ident $( ( $($field:ident: $type:ty),+ ) )?
            => $module:ident::$decoder:ident<$($generic:tt),+>;
    )+) => {
        /// An encoding of values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Encoding {
            $($(#[$doc])* $variant = $id,)+
        }

        impl Encoding {
            /// Every encoding, in order of identifier.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in plans and messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Rules of its nodes.
            pub fn spec(self) -> &'static NodeSpec {
                match self {
                    $(Self::$variant => &$module::SPEC,)+
                }
            }
        }

        /// A tree of encodings to try on a column, with parameters where the plan gives them.
        ///
        /// The encoder finds all other parameters in the values; a tree that does not apply to them
        /// is refused as a whole. Its text form is `divisor(keyed_delta.z(patch(afl), scale(afl)))`.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Tree {
            $($(#[$doc])* $variant $( ( $($type),+ ) )?,)+
        }

        impl Tree {
            /// The encoding of its root.
            pub fn encoding(&self) -> Encoding {
                match self {
                    $(Self::$variant { .. } => Encoding::$variant,)+
                }
            }

            /// Its subtrees.
            pub fn children(&self) -> Vec<&Self> {
                match self {
                    $(Self::$variant $( ( $($field),+ ) )? => {
                        let children: &[Option<&Self>] = &[$( $($field.child()),+ )?];
                        children.iter().copied().flatten().collect()
                    })+
                }
            }

            /// Writes the parameters of its root as they follow the name.
            pub(crate) fn write_parameters(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant $( ( $($field),+ ) )? => {
                        $( $($field.write(out)?;)+ )?
                        Ok(())
                    })+
                }
            }

            /// The node of a text; `None` if it does not take these parameters and subtrees.
            pub(crate) fn from_text(encoding: Encoding, mut text: NodeText<'_>) -> Option<Self> {
                let tree = match encoding {
                    $(Encoding::$variant => {
                        Self::$variant $( ( $(<$type as TreeField>::take(&mut text)?),+ ) )?
                    })+
                };
                text.is_empty().then_some(tree)
            }
        }

        impl TreeWriter<'_> {
            /// Writes one subtree.
            pub(crate) fn subtree<T: Word>(
                &mut self,
                tree: &Tree,
                node: NodeValues<'_, T>,
            ) -> Result<(), NotApplicable> {
                match tree {
                    $(Tree::$variant $( ( $($field),+ ) )? => {
                        $module::encode(self, node $( $(, $field)+ )?)
                    })+
                }
            }
        }

        /// A subtree ready to decode tiles.
        pub(crate) enum TileTree<'a, T> {
            $($variant($module::$decoder<$($generic),+>),)+
        }

        impl<'a, T: Word> TileTree<'a, T> {
            /// Opens the next subtree, whose values have the width of `T`.
            ///
            /// # Errors
            /// Counts of sparse children that do not add up; a dictionary that does not ascend.
            pub(crate) fn open(reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
                let node = reader.take();
                assert_eq!(node.node.value_type.width_bytes(), T::BYTES, "plans are checked");
                Ok(match node.node.encoding {
                    $(Encoding::$variant => {
                        Self::$variant($module::$decoder::open(&node, reader)?)
                    })+
                })
            }

            /// Decodes the tile's values into `out`, whose length is their number, at most 1,024.
            ///
            /// # Errors
            /// What FORMAT.md, section 6, refuses in a tile; `out` is undefined then.
            pub(crate) fn tile(
                &self,
                context: TileContext<'_>,
                out: &mut [T],
            ) -> Result<(), Fault> {
                match self {
                    $(Self::$variant(node) => node.tile(context, out),)+
                }
            }
        }
    };
}

// Identifiers are frozen: they never change once released.
encodings! {
    /// Unencoded values.
    1 "raw" Raw => raw::Raw<'a>;
    /// The smallest width for each group of 32 values.
    2 "afl" Afl => afl::Afl<'a>;
    /// Differences within a tile.
    3 "delta" Delta(mode: Mode, child: Box<Tree>) => delta::Delta<'a, T>;
    /// Differences of differences within a tile.
    4 "delta2" Delta2(mode: Mode, child: Box<Tree>) => delta_of_delta::Delta2<'a, T>;
    /// Distances from the least value of a tile.
    5 "scale" Scale(child: Box<Tree>) => scale::Scale<'a, T>;
    /// Quotients by this divisor and remainder, or by the greatest that fits all values.
    6 "divisor" Divisor(choice: Option<DivisorChoice>, child: Box<Tree>) => divisor::Divisor<'a, T>;
    /// Floats as integers of so many decimals, or of as many as needed.
    7 "float_to_int" FloatToInt(decimals: Option<u8>, child: Box<Tree>)
        => float_to_int::FloatToInt<'a, T>;
    /// A few exceptions apart: high bits, or values that a given divisor or number of decimals
    /// below does not fit.
    8 "patch" Patch(child: Box<Tree>) => patch::Patch<'a, T>;
    /// Runs of equal values: values, lengths.
    9 "rle" Rle(values: Box<Tree>, lengths: Box<Tree>) => rle::Rle<'a, T>;
    /// Codes into a dictionary of at most so many entries; with a second child of the most frequent
    /// values only.
    10 "dict" Dict(limit: u32, codes: Box<Tree>, exceptions: Option<Box<Tree>>)
        => dict::Dict<'a, T>;
    /// One value in every row.
    11 "const" Const => constant::Const<T>;
    /// Floats as differences from 32 values before, in whole bytes.
    12 "gfc" Gfc => gfc::Gfc<'a>;
    /// Rows grouped by key.
    13 "group" Group(child: Box<Tree>) => group::Group<'a, T>;
    /// Differences along each key: residuals, heads.
    14 "keyed_delta" KeyedDelta(mode: Mode, residuals: Box<Tree>, heads: Box<Tree>)
        => keyed_delta::KeyedDelta<'a, T>;
    /// Differences of differences along each key: residuals, heads.
    15 "keyed_delta2" KeyedDelta2(mode: Mode, residuals: Box<Tree>, heads: Box<Tree>)
        => keyed_delta_of_delta::KeyedDelta2<'a, T>;
}

impl Encoding {
    /// The encoding with this wire identifier, if this reader supports it.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|encoding| encoding.id() == id)
    }

    /// Its identifier on the wire.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// True if it makes its whole tree work in grouped order.
    pub fn is_keyed(self) -> bool {
        self.spec().is_keyed()
    }

    /// True if a section of the node states the number of values of child `child` per tile.
    pub fn is_child_sparse(self, child: usize) -> bool {
        self.spec().children[child].is_sparse
    }
}
