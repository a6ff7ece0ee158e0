//! How do encoded columns become the bytes of one block?
//!
//! Directory, sections, padding, checksums (FORMAT.md, sections 1 to 4). It chooses nothing: plans
//! and sections are handed over.

use crate::encoding::Encoding;
use crate::header::BlockHeader;
use crate::limits::{
    CHUNK_ENTRY_BYTES, HEADER_BYTES, NODE_BYTES, SECTION_ALIGN_BYTES, SECTION_ENTRY_BYTES,
};
use crate::plan::Plan;
use crate::tree_encode::EncodedTree;

/// An encoded column about to be written.
pub(crate) struct ChunkBytes {
    /// Its column.
    pub(crate) id: u16,
    /// Its plan and sections.
    pub(crate) encoded: EncodedTree,
}

impl ChunkBytes {
    /// Bytes of its directory entry and of its padded sections.
    pub(crate) fn bytes(&self) -> usize {
        let padded = |section: &Vec<u8>| section.len().next_multiple_of(SECTION_ALIGN_BYTES);
        self.entry_bytes() + self.encoded.sections.iter().map(padded).sum::<usize>()
    }

    /// True if its plan is another than `raw`.
    pub(crate) fn is_planned(&self) -> bool {
        self.encoded.plan.root().encoding != Encoding::Raw
    }

    /// Bytes of its directory entry.
    fn entry_bytes(&self) -> usize {
        entry_bytes(&self.encoded.plan, self.encoded.sections.len())
    }

    /// Appends its sections, each padded; gives the checksum of what it appended.
    fn write_payload(&self, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        for section in &self.encoded.sections {
            out.extend_from_slice(section);
            out.resize(out.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
        }
        crc32c::crc32c(&out[start..])
    }

    /// Appends its directory entry.
    fn write_entry(&self, payload_crc: u32, out: &mut Vec<u8>) {
        let EncodedTree { plan, sections } = &self.encoded;
        let section_bytes: Vec<u64> = sections.iter().map(|section| section.len() as u64).collect();
        write_entry(self.id, plan, &section_bytes, payload_crc, out);
    }
}

/// Bytes of a directory entry.
pub(crate) fn entry_bytes(plan: &Plan, sections: usize) -> usize {
    CHUNK_ENTRY_BYTES + plan.nodes().len() * NODE_BYTES + sections * SECTION_ENTRY_BYTES
}

/// Appends the directory entry of column `id`.
pub(crate) fn write_entry(
    id: u16,
    plan: &Plan,
    section_bytes: &[u64],
    payload_crc: u32,
    out: &mut Vec<u8>,
) {
    let (nodes, root) = (plan.nodes(), plan.root());
    let decoded_bytes = u64::from(root.values) * root.value_type.width_bytes() as u64;
    out.extend_from_slice(&id.to_le_bytes());
    out.push(root.value_type.code());
    out.push(u8::try_from(nodes.len()).expect("a plan has at most 16 nodes"));
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&decoded_bytes.to_le_bytes());
    let count = u32::try_from(section_bytes.len()).expect("at most 64 sections");
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&payload_crc.to_le_bytes());
    for node in nodes {
        node.write(out);
    }
    for bytes in section_bytes {
        out.extend_from_slice(&bytes.to_le_bytes());
    }
}

/// Bytes of a directory with its padding.
pub(crate) fn directory_bytes(chunks: &[ChunkBytes]) -> usize {
    let entries: usize = chunks.iter().map(ChunkBytes::entry_bytes).sum();
    entries.next_multiple_of(SECTION_ALIGN_BYTES)
}

/// Replaces `out` with the block. Lengths and the directory's checksum in `header` are settled
/// here.
pub(crate) fn assemble(mut header: BlockHeader, chunks: &[ChunkBytes], out: &mut Vec<u8>) {
    let directory_bytes = directory_bytes(chunks);
    let chunk_bytes: usize = chunks.iter().map(ChunkBytes::bytes).sum();
    out.clear();
    out.reserve(HEADER_BYTES + directory_bytes + chunk_bytes);
    out.resize(HEADER_BYTES + directory_bytes, 0);
    let mut directory = Vec::with_capacity(directory_bytes);
    for chunk in chunks {
        let payload_crc = chunk.write_payload(out);
        chunk.write_entry(payload_crc, &mut directory);
    }
    directory.resize(directory_bytes, 0);
    out[HEADER_BYTES..HEADER_BYTES + directory_bytes].copy_from_slice(&directory);
    header.directory_bytes = u32::try_from(directory_bytes).expect("within its limit");
    header.directory_crc = crc32c::crc32c(&directory);
    header.block_bytes = out.len() as u64;
    out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
}
