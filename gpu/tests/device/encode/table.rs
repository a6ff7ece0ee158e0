//! Streams of tables: the device plans and encodes the same bytes as the CPU, and decodes them.

use bytes::Bytes;
use shoal_codec::{
    Aim, Budget, Table, TablePlanner, TableValues, Text, Values, encode_planned_table,
};
use shoal_gpu::{Decoder, Gpu};
use shoal_testkit::Random;

use super::column::encoder;

/// More columns than the encoder has workers: a key, numbers of several kinds, and text. The text
/// columns have a name for each key, random sentences, and empty strings.
fn columns(chance: &mut Random, rows: usize) -> Vec<TableValues> {
    let (mut key, mut walk) = (Vec::new(), vec![0_i32; 50]);
    let mut steps = Vec::new();
    for _ in 0..rows {
        let object = chance.below(50);
        walk[object] += chance.below(200) - 90;
        key.push(object as u32 + 7);
        steps.push(walk[object]);
    }
    let names: Text = key.iter().map(|key| NAMES[*key as usize % NAMES.len()]).collect();
    let words = "the quick brown fox jumps over the lazy dög".split_inclusive(' ');
    let words: Vec<&str> = words.collect();
    let sentences = (0..rows).map(|_| {
        let count = chance.below(4);
        (0..count).map(|_| words[chance.below(words.len())]).collect::<String>() + "."
    });
    let sentences: Vec<String> = sentences.collect();
    let sentences: Text = sentences.iter().map(String::as_str).collect();
    let none: Text = (0..rows).map(|_| "").collect();
    let mut values: Vec<Values> = vec![Values::U32(key), Values::I32(steps.clone())];
    values.push(Values::U64((0..rows as u64).map(|row| 1_480_000_000_000 + 37 * row).collect()));
    values.push(Values::F64(steps.iter().map(|step| f64::from(*step) / 100.0).collect()));
    values.push(Values::U8((0..rows).map(|_| b"abcde fgh"[chance.below(9)]).collect()));
    values.push(Values::U16((0..rows).map(|_| (chance.word() % 3) as u16 * 500).collect()));
    values.push(Values::I64((0..rows).map(|_| chance.word() as i64).collect()));
    values.push(Values::I8(vec![-3; rows]));
    values.push(Values::F32((0..rows).map(|_| chance.below(40) as f32 / 8.0).collect()));
    values.push(Values::U32((0..rows).map(|row| row as u32 / 11).collect()));
    let texts = [names, sentences, none].map(TableValues::Text);
    values.into_iter().map(TableValues::Numbers).chain(texts).collect()
}

const NAMES: [&str; 7] = ["Aurora", "Bjørn", "Capella", "", "Deneb", "Eos", "Fjord"];

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_planned_stream_of_tables_is_that_of_the_cpu() {
    let seed = 91;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let mut decoder = Decoder::new(&Gpu::open(Gpu::FIRST).unwrap(), 1 << 30).unwrap();
    for aim in [Aim::Fast, Aim::Small] {
        for is_keyed in [false, true] {
            let mut on_cpu: Vec<_> = (0..13).map(|seed| TablePlanner::new(seed, aim)).collect();
            let mut on_device = on_cpu.clone();
            for batch in 0..12_u64 {
                let rows = if batch % 6 == 0 { 70_000 } else { chance.below(3000) };
                let values = columns(&mut chance, rows);
                let columns: Vec<_> = (256..).zip(&values).collect();
                let (mut expected, mut found) = (Vec::new(), Vec::new());
                encode_planned_table(&mut on_cpu, &columns, is_keyed, batch, &mut expected)
                    .unwrap();
                encoder
                    .encode_table(&mut on_device, &columns, is_keyed, batch, &mut found)
                    .unwrap();
                let case = format!("seed {seed}, {aim:?}, keyed {is_keyed}, batch {batch}");
                assert!(found == expected, "{case}, {rows} rows: other bytes");
                let table = Table::parse(Bytes::from(found), &Budget::default()).unwrap();
                let mut chunks = decoder.table(&table).unwrap();
                let decoded = table.decode_by(0..rows, |chunk, rows| {
                    let empty = Ok(Values::U8(Vec::new()));
                    let found = std::mem::replace(&mut chunks[chunk], empty);
                    assert_eq!(rows, 0..table.chunks()[chunk].values(), "{case}: decoded whole");
                    found
                });
                assert!(decoded.unwrap() == values, "{case}: other values come back");
            }
        }
    }
}
