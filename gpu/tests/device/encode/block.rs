//! Encodes whole blocks of fixes: the device writes the same bytes as the CPU with any plan.

use shoal_codec::{Aim, BlockCodec, BlockPlan, Column, CpuCodec, FixColumns, Planner};
use shoal_testkit::Random;

use super::column::encoder;
use crate::walk::{SPACE, any_plan, walks};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn blocks_of_any_plan_are_those_of_the_cpu() {
    let seed = 71;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let mut planned = 0;
    for case in 0..60 {
        let rows = if case % 20 == 0 { 70_000 } else { chance.below(3000) };
        let objects = 1 + chance.word() % 500;
        let columns = walks(&mut chance, rows, objects);
        let plan = match case % 3 {
            0 => BlockPlan::fixes(),
            1 => any_plan(&mut chance),
            _ => BlockPlan::raw().with(Column::X, BlockPlan::fixes().tree(Column::X).clone()),
        };
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let outcomes = CpuCodec.encode_planned(&columns, &plan, &SPACE, case, &mut expected);
        let made = encoder.encode_planned(&columns, &plan, &SPACE, case, &mut found);
        let (outcomes, made) = (outcomes.unwrap(), made.unwrap());
        assert_eq!(made, outcomes, "seed {seed}, case {case}");
        assert!(found == expected, "seed {seed}, case {case}: other bytes");
        planned += made.iter().filter(|column| column.is_planned).count();
    }
    assert!(planned > 60, "only {planned} columns took their trees: plans are not tested");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_planned_stream_is_that_of_the_cpu() {
    let seed = 72;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let (mut on_cpu, mut on_device) =
        (Planner::new(seed, Aim::Fast), Planner::new(seed, Aim::Fast));
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    // Enough batches that the planner explores repeatedly. Columns disappear and return.
    for batch in 0..70_u64 {
        let rows = if batch % 30 == 0 { 70_000 } else { chance.below(400) };
        let mut columns = walks(&mut chance, rows, 1 + batch * 3);
        if batch % 7 == 3 {
            columns.speed_mm_s = None;
        }
        if batch % 11 == 5 {
            columns.state = columns.state.map(|state| vec![7; state.len()]);
        }
        on_cpu.encode(&CpuCodec, &columns, &SPACE, batch, &mut expected).unwrap();
        encoder.encode_next(&mut on_device, &columns, &SPACE, batch, &mut found).unwrap();
        assert!(found == expected, "seed {seed}, batch {batch}, {rows} rows: other bytes");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn what_is_no_block_is_refused_as_on_the_cpu() {
    let mut encoder = encoder();
    let mut out = vec![1];
    let unequal = FixColumns { x: vec![1], ..FixColumns::new() };
    let plan = BlockPlan::fixes();
    let error = encoder.encode_planned(&unequal, &plan, &SPACE, 0, &mut out).unwrap_err();
    let expected = CpuCodec.encode_planned(&unequal, &plan, &SPACE, 0, &mut Vec::new());
    assert_eq!(error.to_string(), expected.unwrap_err().to_string());
    assert!(out.is_empty(), "nothing is left of what was there");
}
