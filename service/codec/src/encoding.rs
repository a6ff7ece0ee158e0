//! The enumeration of encodings, trees of encodings, and the decoder of a tile.
//!
//! `encodings!` renders them from the rows of `encoding/table.rs`. A new encoding takes a row
//! there, a `mod` line here and a file in `encoding/` with its rules, encoder and decoder.

#[macro_use]
mod table;
mod afl;
mod constant;
mod delta;
pub mod dict;
pub(crate) mod divisor;
pub mod float_to_int;
mod gfc;
mod group;
pub mod huffman;
mod huffman_long;
mod keyed_delta;
pub mod lzw;
mod patch;
mod raw;
mod rle;
mod scale;
pub mod stateless;

use std::fmt;

use crate::encoding::delta::second_order as delta2;
use crate::encoding::divisor::DivisorChoice;
use crate::encoding::keyed_delta::second_order as keyed_delta2;
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

        /// A tree of encodings to try on a column, with the parameters that the planner has chosen.
        ///
        /// The encoder computes all other parameters from the values. If a node does not apply to
        /// the values, neither does the tree. Its text form is `divisor(keyed_delta.z(patch(afl),
        /// scale(afl)))`.
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

            /// Creates a node from text; `None` if it does not accept these parameters and
            /// subtrees.
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
                self.watch(tree, node.values);
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
            /// Opens the next subtree; `T` is as wide as its values.
            ///
            /// # Errors
            /// If the counts of a sparse child do not add up, or a dictionary does not ascend.
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

encoding_table!(encodings);

impl Encoding {
    /// The encoding with this wire identifier, if this reader supports it.
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|encoding| encoding.id() == id)
    }

    /// Its identifier on the wire.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// Minor version of the format that introduced it.
    pub const fn version_minor(self) -> u16 {
        match self {
            Self::Raw => 0,
            Self::Huffman => 2,
            Self::Stateless | Self::Lzw | Self::HuffmanLong => 3,
            _ => 1,
        }
    }

    /// True if a node of this encoding makes its whole tree keyed, so that the tree works in
    /// grouped order.
    pub fn is_keyed(self) -> bool {
        self.spec().is_keyed()
    }

    /// True if a section of the node states the number of values of child `child` per tile.
    pub fn is_child_sparse(self, child: usize) -> bool {
        self.spec().children[child].is_sparse
    }
}
