//! Which values of a tile are exceptions, and what is left without them?
//!
//! Above a divisor or a number of decimals that the plan gives, the values that do not fit it;
//! elsewhere high bits, wherever that makes the groups of 32 below cheaper (FORMAT.md, section
//! 6.8). The choice is made by whole numbers, the same on every machine.

use crate::divisor::encode::Division;
use crate::encoding::Encoding;
use crate::float_to_int::decode::to_float;
use crate::float_to_int::encode::to_integer;
use crate::float_to_int::spec::{DECIMALS_MAX, power_of_ten};
use crate::packed::{WORD_BYTES, pack};
use crate::patch::high_bits::Widths;
use crate::patch::spec::{EXCEPTIONS_MAX, POSITION_BITS};
use crate::tile::GROUP_VALUES;
use crate::tree::Tree;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Exceptions of one tile.
struct Exceptions<T> {
    positions: Vec<u16>,
    additions: Vec<T>,
    shift: u32,
}

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    child: &Tree,
) -> Result<(), NotApplicable> {
    let misfit = Misfit::of(child, &node)?;
    let mut directory = Vec::with_capacity(node.counts.tiles() * 8);
    let mut out = Vec::new();
    let mut left = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let exceptions = match &misfit {
            Some(misfit) => misfit.split(tile, &mut left)?,
            None => split_high_bits(tile, &mut left),
        };
        let offset = u32::try_from(out.len() / WORD_BYTES).expect("a block has fewer words");
        let width = exceptions.additions.iter().map(|value| value.bits()).max().unwrap_or(0);
        let count = exceptions.positions.len() as u8;
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(&[count, exceptions.shift as u8, width as u8, 0]);
        pack(&exceptions.positions, POSITION_BITS, &mut out);
        pack(&exceptions.additions, width, &mut out);
    }
    writer.node(Encoding::Patch, &node, vec![directory, out], (0, 0));
    writer.subtree(child, node.child(node.value_type, &left))
}

/// Appends the low bits of a tile to `left`, gives the high bits of the exceptions.
fn split_high_bits<T: Word>(tile: &[T], left: &mut Vec<T>) -> Exceptions<T> {
    let none = Exceptions { positions: Vec::new(), additions: Vec::new(), shift: 0 };
    let Some(widths) = Widths::of(tile) else {
        left.extend_from_slice(tile);
        return none;
    };
    let mut found = Exceptions { shift: widths.least, ..none };
    for (group, values) in tile.chunks(GROUP_VALUES).enumerate() {
        let width = widths.of_group(group);
        let all = values.iter().fold(T::default(), |all, value| all | *value);
        if all.bits() <= width {
            left.extend_from_slice(values);
            continue;
        }
        for (index, value) in values.iter().enumerate() {
            if value.bits() <= width {
                left.push(*value);
                continue;
            }
            let pattern: u64 = (*value).into();
            let low = pattern & ((1 << width) - 1);
            left.push(T::low(low));
            found.positions.push((group * GROUP_VALUES + index) as u16);
            found.additions.push(T::low((pattern - low) >> found.shift));
        }
    }
    found
}

/// What a child with given parameters cannot hold.
enum Misfit {
    Divisor { division: Division, remainder: u32 },
    Decimals(u32),
}

impl Misfit {
    /// `None` if the exceptions are high bits.
    fn of<T: Word>(child: &Tree, node: &NodeValues<'_, T>) -> Result<Option<Self>, NotApplicable> {
        match child {
            Tree::Divisor(Some(choice), _) if !node.value_type.is_float() => {
                match Division::new(*choice, node.value_type) {
                    Some(division) => {
                        Ok(Some(Self::Divisor { division, remainder: choice.remainder }))
                    }
                    None => NotApplicable::because("the divisor does not suit the type"),
                }
            }
            Tree::FloatToInt(Some(decimals), _)
                if node.value_type.is_float() && u32::from(*decimals) <= DECIMALS_MAX =>
            {
                Ok(Some(Self::Decimals((*decimals).into())))
            }
            Tree::Divisor(..) | Tree::FloatToInt(..) => {
                NotApplicable::because("a patch takes its child's parameter from the plan")
            }
            _ => Ok(None),
        }
    }

    fn fits<T: Word>(&self, value: T) -> bool {
        match self {
            Self::Divisor { division, .. } => division.quotient(value).is_some(),
            Self::Decimals(decimals) => to_integer(value, *decimals).is_some(),
        }
    }

    /// The value that the child gives for 0.
    fn of_zero<T: Word>(&self) -> T {
        match self {
            Self::Divisor { remainder, .. } => T::low((*remainder).into()),
            Self::Decimals(decimals) => to_float(T::default(), power_of_ten(*decimals)),
        }
    }

    /// Appends a tile to `left` with each misfit replaced by the value before it.
    fn split<T: Word>(
        &self,
        tile: &[T],
        left: &mut Vec<T>,
    ) -> Result<Exceptions<T>, NotApplicable> {
        let mut found = Exceptions { positions: Vec::new(), additions: Vec::new(), shift: 0 };
        let mut before = self.of_zero();
        for (index, value) in tile.iter().enumerate() {
            if self.fits(*value) {
                before = *value;
            } else {
                found.positions.push(index as u16);
                found.additions.push(value.minus(before));
            }
            left.push(before);
        }
        if found.positions.len() > EXCEPTIONS_MAX {
            return NotApplicable::because("a tile has too many exceptions");
        }
        Ok(found)
    }
}
