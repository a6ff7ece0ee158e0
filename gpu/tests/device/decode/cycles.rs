//! Damaged blocks in whole cycles: an accepted block has the same effect as in the model, a refused
//! block has no effect. Some dictionaries have entries that no row uses.
//!
//! The number of damaged blocks is an eighth of SHOAL_MUTATIONS.

use bytes::Bytes;
use shoal_codec::{Block, BlockPlan, Budget, Chunk, Column, Encoding};
use shoal_engine::conformance::Trial;
use shoal_engine::{Backend, EngineOptions, Request};
use shoal_gpu::{CudaBackend, Gpu};
use shoal_testkit::{Random, seal::seal};

use super::blocks::{damaged, encode, some_plan};
use crate::walk::walks;

const SEED: u64 = 417;
const BLOCKS: usize = 12;

fn cuda(options: EngineOptions) -> Box<dyn Backend> {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    Box::new(CudaBackend::new(&gpu, options).unwrap())
}

fn ids_of(block: &Block) -> &Chunk {
    block.columns().find(|(column, _)| *column == Column::Object).unwrap().1
}

/// A block with a flipped bit in the codes of its ids, if it still parses.
fn recoded(chance: &mut Random) -> Option<Block> {
    // Each object has few rows, so a changed code often leaves an object without rows.
    let rows = 100 + chance.below(200);
    let columns = walks(chance, rows, rows as u64 / 2);
    let mut bytes = encode(&columns, &BlockPlan::fixes());
    let whole = Block::parse(Bytes::copy_from_slice(&bytes), &Budget::default()).unwrap();
    let codes = ids_of(&whole).sections.last().unwrap();
    bytes[codes.start + chance.below(codes.len())] ^= 1 << chance.below(8);
    seal(&mut bytes);
    Block::parse(bytes.into(), &Budget::default()).ok()
}

/// True if the dictionary of ids has entries that no row uses; `None` if the block is refused.
fn has_spare_entries(block: &Block) -> Option<bool> {
    let mut ids = block.decode().ok()?.object;
    ids.sort_unstable();
    ids.dedup();
    let root = ids_of(block).plan.root();
    let entries = (root.parameter_u32 & 0x00ff_ffff) as usize;
    Some(root.encoding == Encoding::Dict && entries > ids.len())
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn damaged_blocks_have_the_effect_of_the_model() {
    let mut chance = Random::new(SEED);
    let mut trial = Trial::geographic(cuda);
    let (mut refused, mut spare) = (0, 0);
    let cycles = super::decoder::count("SHOAL_MUTATIONS", 6000) / 8 / BLOCKS;
    for cycle in 0..cycles {
        let mut blocks = Vec::new();
        while blocks.len() < BLOCKS {
            let (rows, objects) = (chance.below(1500), 1 + chance.word() % 40);
            let columns = walks(&mut chance, rows, objects);
            let whole = encode(&columns, &some_plan(&mut chance));
            blocks.extend(damaged(&mut chance, &whole));
            blocks.extend(recoded(&mut chance));
        }
        for block in &blocks {
            match has_spare_entries(block) {
                Some(has_spare) => spare += usize::from(has_spare),
                None => refused += 1,
            }
        }
        let mut requests: Vec<Request> = blocks.into_iter().map(Request::Block).collect();
        if cycle % 5 == 4 {
            // In a cycle with a removal, the rows of each object are applied one after another.
            let ids = (0..20).map(|_| chance.word() % 40 * 1_000_003).collect();
            requests.insert(chance.below(BLOCKS), Request::Remove(ids));
        }
        trial.submit(requests, Vec::new());
        trial.wait(0);
        if cycle % 10 == 9 {
            trial.export();
        }
    }
    println!("{refused} refused, {spare} with entries of no row");
    assert!(refused.min(spare) > cycles / 4, "the test is lopsided");
}
