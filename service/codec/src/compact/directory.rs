//! Rebuilds the directory and the sections of a block from the short entries and sections of its
//! compact form.
//!
//! The reader adds up the claimed sizes before it allocates memory for them.

use crate::chunk::{PAYLOAD_CRC_AT, SECTIONS_AT};
use crate::columns::Column;
use crate::compact::Form;
use crate::compact::body::Body;
use crate::compact::code_lengths;
use crate::compact::squeeze::Layout;
use crate::error::BlockError;
use crate::limits::{CHUNK_ENTRY_BYTES, DIRECTORY_BYTES_MAX, SECTION_ALIGN_BYTES};
use crate::plan::PlanNode;
use crate::value_type::ValueType;
use crate::wire::put;

/// How a section is stored.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    /// As it is.
    Plain,
    /// Field by field.
    Squeezed(Layout),
    /// As code lengths of this number of symbols.
    CodeLengths(usize),
}

impl Stored {
    /// How section `index` of a node is stored. It has `bytes` bytes, and the chunk has `values`
    /// values.
    pub(super) fn of(form: Form, node: &PlanNode, index: usize, bytes: u64, values: u32) -> Self {
        let Some(spec) = node.encoding.spec().sections.get(index) else { return Self::Plain };
        if form == Form::Second
            && let Some(symbols) = code_lengths::symbols(node, index)
        {
            return Self::CodeLengths(symbols);
        }
        match Layout::of(*spec, node).filter(|layout| layout.fits(bytes, values)) {
            Some(layout) => Self::Squeezed(layout),
            None => Self::Plain,
        }
    }

    /// Appends a section as it is stored.
    pub(super) fn put(&self, section: &[u8], values: usize, body: &mut Vec<u8>) {
        match self {
            Self::Plain => body.extend_from_slice(section),
            Self::Squeezed(layout) => layout.squeeze(section, values, body),
            Self::CodeLengths(symbols) => code_lengths::put(section, *symbols, body),
        }
    }

    /// Reads the next stored section and appends it, expanded to `bytes` bytes, to `out`.
    fn read(
        &self,
        form: Form,
        bytes: usize,
        values: usize,
        body: &mut Body<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        match self {
            Self::Plain => out.extend_from_slice(body.bytes("section", bytes)?),
            Self::Squeezed(layout) => layout.restore(form, values, body, out)?,
            Self::CodeLengths(symbols) => code_lengths::read(*symbols, body, out)?,
        }
        Ok(())
    }

    /// True if the bytes that [`Stored::put`] appended expand to the same section. They do not if
    /// unused bits are set, because unused bits are not stored.
    pub(super) fn comes_back(&self, stored: &[u8], section: &[u8], values: usize) -> bool {
        let (mut body, mut back) = (Body::new(stored, 0), Vec::new());
        matches!(self, Self::Plain)
            || self.read(Form::Second, section.len(), values, &mut body, &mut back).is_ok()
                && back == section
    }

    /// Estimated bytes of a stored section.
    pub(super) fn estimated_bytes(&self, bytes: u64, tiles: usize) -> usize {
        match self {
            Self::Plain => bytes as usize,
            Self::Squeezed(layout) => layout.estimated_bytes(tiles),
            Self::CodeLengths(_) => bytes as usize * 3 / 4,
        }
    }
}

/// A short entry, as read.
pub(super) struct Entry {
    /// Number of the column.
    pub(super) id: u16,
    /// Code of the part.
    pub(super) part: u8,
    /// Type of the values.
    pub(super) value_type: ValueType,
    /// Number of the values.
    pub(super) values: u32,
    /// The plan.
    pub(super) nodes: Vec<PlanNode>,
    /// Length of each section.
    pub(super) section_bytes: Vec<u64>,
}

/// A chunk whose entry is in the directory.
struct PlacedChunk {
    /// Offset of the entry in the directory.
    entry: usize,
    /// Number of the values.
    values: u32,
    /// Length of each section, and how it is stored.
    sections: Vec<(u64, Stored)>,
}

/// The directory, and the total bytes of its sections.
pub(super) struct Directory {
    form: Form,
    pub(super) bytes: Vec<u8>,
    chunks: Vec<PlacedChunk>,
    /// Bytes of all sections with their padding.
    pub(super) payload_bytes: u64,
    /// Bytes of the sections that are stored as they are.
    pub(super) plain_bytes: u64,
    /// The greatest minor version of its encodings and columns.
    pub(super) version_minor: u16,
}

impl Directory {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            bytes: Vec::new(),
            chunks: Vec::new(),
            payload_bytes: 0,
            plain_bytes: 0,
            version_minor: 0,
        }
    }

    /// Appends an entry, which was read from byte `offset` of the compact block; an error names it.
    pub(super) fn push(&mut self, entry: &Entry, offset: usize) -> Result<(), BlockError> {
        let start = self.bytes.len();
        let count = entry.nodes.len() as u8;
        self.bytes.extend_from_slice(&entry.id.to_le_bytes());
        self.bytes.extend_from_slice(&[entry.value_type.code(), count, entry.part, 0, 0, 0]);
        let decoded_bytes = u64::from(entry.values) * entry.value_type.width_bytes() as u64;
        self.bytes.extend_from_slice(&decoded_bytes.to_le_bytes());
        self.bytes.resize(start + CHUNK_ENTRY_BYTES, 0);
        let sections = entry.section_bytes.len() as u32;
        put(&mut self.bytes, start + SECTIONS_AT, sections.to_le_bytes());
        self.version_minor = self.version_minor.max(Column::version_minor(entry.id));
        for node in &entry.nodes {
            node.write(&mut self.bytes);
            self.version_minor = self.version_minor.max(node.encoding.version_minor());
        }
        let mut lengths = entry.section_bytes.iter();
        let mut stored = Vec::with_capacity(entry.section_bytes.len());
        for node in &entry.nodes {
            for (index, bytes) in lengths.by_ref().take(node.sections.into()).enumerate() {
                let each = Stored::of(self.form, node, index, *bytes, entry.values);
                self.bytes.extend_from_slice(&bytes.to_le_bytes());
                let padded = bytes.checked_next_multiple_of(SECTION_ALIGN_BYTES as u64);
                self.payload_bytes = self.payload_bytes.saturating_add(padded.unwrap_or(u64::MAX));
                if matches!(each, Stored::Plain) {
                    self.plain_bytes = self.plain_bytes.saturating_add(*bytes);
                }
                stored.push((*bytes, each));
            }
        }
        if self.bytes.len() > DIRECTORY_BYTES_MAX {
            let problem = format!("entries take more than {DIRECTORY_BYTES_MAX} bytes");
            return Err(BlockError::Chunk { chunk: self.chunks.len(), offset, problem });
        }
        self.chunks.push(PlacedChunk { entry: start, values: entry.values, sections: stored });
        Ok(())
    }

    /// Pads the directory to its alignment.
    pub(super) fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
    }

    /// Appends all sections with their padding to `out`, and puts their checksums in the entries.
    pub(super) fn read_sections(
        &mut self,
        body: &mut Body<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        for PlacedChunk { entry, values, sections } in &self.chunks {
            let start = out.len();
            for (bytes, stored) in sections {
                stored.read(self.form, *bytes as usize, *values as usize, body, out)?;
                out.resize(out.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
            }
            let crc = crc32c::crc32c(&out[start..]);
            put(&mut self.bytes, entry + PAYLOAD_CRC_AT, crc.to_le_bytes());
        }
        Ok(())
    }
}
