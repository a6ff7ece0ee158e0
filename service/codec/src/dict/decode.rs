//! How do codes become values?
//!
//! The dictionary is unpacked once, when the tree is opened, and must ascend. A code above it is
//! an exception, if the node has them, and refused otherwise.

use crate::dict::spec::{code_type, entries, entry_bits};
use crate::packed::unpack;
use crate::section::{Fault, Section};
use crate::tile::TILE_VALUES;
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree, check_sum};
use crate::word::Word;

/// A dict node.
pub(crate) struct Dict<'a, T> {
    dictionary: Section<'a>,
    entries: Vec<T>,
    codes: Codes<'a>,
    exceptions: Option<Exceptions<'a, T>>,
}

/// Codes in the narrowest type that holds them.
enum Codes<'a> {
    Narrow(Box<TileTree<'a, u8>>),
    Wide(Box<TileTree<'a, u16>>),
}

/// Values that the dictionary lacks.
struct Exceptions<'a, T> {
    counts: Section<'a>,
    values: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Dict<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let dictionary = node.sections[0];
        let parameter = node.node.parameter_u32;
        let count = entries(parameter) as usize;
        let mut entries = vec![T::default(); count];
        unpack(dictionary.bytes, entry_bits(parameter), &mut entries);
        let base = T::low(node.node.parameter_u64);
        for entry in &mut entries {
            *entry = entry.plus(base);
        }
        if !entries.is_sorted_by(|before, after| before < after) {
            return dictionary.fault(0, format!("{count} entries must ascend strictly"));
        }
        let has_exceptions = node.node.children == 2;
        let codes = match code_type(count + usize::from(has_exceptions)).width_bytes() {
            1 => Codes::Narrow(TileTree::open_boxed(reader)?),
            _ => Codes::Wide(TileTree::open_boxed(reader)?),
        };
        let mut exceptions = None;
        if has_exceptions {
            let counts = node.sections[1];
            check_sum(&counts, reader.peek())?;
            exceptions = Some(Exceptions { counts, values: TileTree::open_boxed(reader)? });
        }
        Ok(Self { dictionary, entries, codes, exceptions })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        match &self.codes {
            Codes::Narrow(tree) => self.look_up(tree, context, out),
            Codes::Wide(tree) => self.look_up(tree, context, out),
        }
    }

    /// Decodes codes and replaces them by entries.
    fn look_up<C: Word>(
        &self,
        tree: &TileTree<'a, C>,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let mut codes = [C::default(); TILE_VALUES];
        let codes = &mut codes[..out.len()];
        tree.tile(context, codes)?;
        let count = self.entries.len() as u64;
        let greatest: u64 = codes.iter().copied().max().unwrap_or_default().into();
        if greatest > count || (greatest == count && self.exceptions.is_none()) {
            let tile = context.tile;
            let problem = format!("tile {tile} has code {greatest} of {count} entries");
            return self.dictionary.fault(0, problem);
        }
        match &self.exceptions {
            None => {
                for (value, code) in out.iter_mut().zip(codes) {
                    let code: u64 = (*code).into();
                    *value = self.entries[code as usize];
                }
                Ok(())
            }
            Some(exceptions) => self.look_up_or_take(codes, exceptions, context, out),
        }
    }

    /// Replaces codes by entries, and the code above them by the next exception.
    fn look_up_or_take<C: Word>(
        &self,
        codes: &[C],
        exceptions: &Exceptions<'a, T>,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let (tile, count) = (context.tile, self.entries.len() as u64);
        let found = codes.iter().filter(|code| (**code).into() == count).count();
        let stated = usize::from(exceptions.counts.value::<u16>(tile));
        if found != stated {
            let problem = format!("tile {tile} has {found} exceptions, {stated} are stated");
            return exceptions.counts.fault(2 * tile, problem);
        }
        let mut values = [T::default(); TILE_VALUES];
        exceptions.values.tile(context, &mut values[..found])?;
        let mut values = values.into_iter();
        for (value, code) in out.iter_mut().zip(codes) {
            let code: u64 = (*code).into();
            let next = || values.next().expect("as many as counted");
            *value = self.entries.get(code as usize).copied().unwrap_or_else(next);
        }
        Ok(())
    }
}
