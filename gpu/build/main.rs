//! Compiles the kernels with nvcc: entry points to a fatbin that the library embeds, CUB's sorts
//! and scans to a static library with a C interface. Only with feature `cuda`.

use std::env;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use toolkit::{Toolkit, run};

mod toolkit;

#[path = "../../service/engine/src/layout.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "only the tables are used here")]
mod layout;

#[path = "../../service/codec/src/encoding/table.rs"]
#[macro_use]
mod encoding_table;

macro_rules! encodings {
    ($(
        $(#[$doc:meta])*
        $id:literal $name:literal $variant:ident $( ( $($field:ident: $type:ty),+ ) )?
            => $module:ident::$decoder:ident<$($generic:tt),+>;
    )+) => {
        /// Identifier and name of each of the codec's encodings.
        const ENCODINGS: &[(u16, &str)] = &[$(($id, $name)),+];
    };
}

encoding_table!(encodings);

#[path = "../src/launch/argument_layout.rs"]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "only the table is used here")]
mod argument_layout;

/// Files with entry points, by stage; `probe` is for tests alone and not part of the library.
const KERNELS: [&str; 34] = [
    "records/records",
    "dispatch/admission",
    "dispatch/dispatch",
    "dispatch/ordered",
    "update/update",
    "update/rebuild",
    "update/rebuild_place",
    "query/query",
    "query/warp_query",
    "query/nearest",
    "query/sort",
    "subscription/subscription",
    "subscription/trajectories",
    "codec/decode",
    "codec/slots",
    "codec/strings",
    "codec/group",
    "codec/order",
    "codec/runs",
    "codec/scatter",
    "codec/encode",
    "codec/encode_lanes",
    "codec/encode_hash",
    "codec/encode_strings",
    "codec/encode_distinct",
    "codec/encode_order",
    "codec/encode_group",
    "codec/statistics",
    "history/pack",
    "history/select",
    "history/states",
    "index/words",
    "index/pairs",
    "device/probe",
];

fn main() {
    println!("cargo::rerun-if-changed=build");
    // Without the feature no other file matters.
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=src/launch/argument_layout.rs");
    for table in
        ["layout.rs", "layout_codec.rs", "layout_measures.rs", "refusal.rs", "event_kind.rs"]
    {
        println!("cargo::rerun-if-changed=../service/engine/src/{table}");
    }
    for table in ["encoding/table.rs", "measure_table.rs"] {
        println!("cargo::rerun-if-changed=../service/codec/src/{table}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("layout.cuh"), header()).expect("OUT_DIR can be written");
    println!("cargo::metadata=include={}", out.display());
    let toolkit = Toolkit::find(&[&out, "kernels".as_ref()]);
    toolkit.fatbins(&KERNELS, &out);
    let object = out.join("cub.o");
    toolkit.compile(&["-c", "-Xcompiler", "-fPIC"], "kernels/device/cub.cu", &object);
    let library = out.join("libshoal_cub.a");
    let _ = std::fs::remove_file(&library);
    run(Command::new("ar").arg("crs").arg(&library).arg(&object));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=shoal_cub");
    for folder in ["lib", "lib64", "targets/x86_64-linux/lib"] {
        println!("cargo::rustc-link-search=native={}", toolkit.root.join(folder).display());
    }
    println!("cargo::rustc-link-lib=static=cudart_static");
    for library in ["dylib=stdc++", "dylib=dl", "dylib=rt", "dylib=pthread"] {
        println!("cargo::rustc-link-lib={library}");
    }
}

/// Appends a line to a text.
macro_rules! line {
    ($text:expr, $($arguments:tt)+) => {
        writeln!($text, $($arguments)+).expect("a string takes everything")
    };
}

/// The engine's constants and records, and the kernels' arguments, as C++.
fn header() -> String {
    let mut text =
        String::from("// Rendered from layout.rs and argument_layout.rs.\n#pragma once\n");
    text.push_str("#include <stddef.h>\n");
    for (name, is) in [
        ("u8", "unsigned char"),
        ("u16", "unsigned short"),
        ("u32", "unsigned int"),
        ("i32", "int"),
        ("u64", "unsigned long long"),
        ("i64", "long long"),
        ("f32", "float"),
        ("f64", "double"),
    ] {
        line!(text, "typedef {is} {name};");
    }
    for (prefix, values) in layout::ENUMERATIONS {
        for (number, name) in *values {
            writeln!(text, "static const u32 {prefix}{} = {number};", name.to_uppercase())
                .expect("a string takes everything");
        }
    }
    let tables = [layout::CONSTANTS, layout::CODEC_CONSTANTS];
    let tables = [&tables[..], &[layout::EVENT_CONSTANTS]].concat();
    for (name, kind, value) in tables.into_iter().flatten() {
        let suffix = if *value < 0 { "ll" } else { "ull" };
        line!(text, "static const {kind} {name} = ({kind}){value}{suffix};");
    }
    for (id, name) in ENCODINGS {
        writeln!(text, "static const u32 CODEC_{} = {id};", name.to_uppercase())
            .expect("a string takes everything");
    }
    for record in layout::RECORD_LISTS.into_iter().flatten() {
        // Records of whole 16 bytes are loaded 16 bytes at a time.
        let align = [16, 8].into_iter().find(|align| record.bytes.is_multiple_of(*align));
        let align = format!("alignas({}) ", align.unwrap_or(4));
        let fields = record.fields.iter();
        let fields = fields.map(|(name, kind, offset)| (format!("{kind} {name}"), *name, *offset));
        structure(&mut text, &align, record.name, record.bytes, fields);
    }
    for argument in argument_layout::ARGUMENTS {
        let name = argument.name.trim_end_matches("Argument");
        let fields = argument.fields.iter().map(|(declaration, name, offset)| {
            (declaration.replace("Argument ", " "), *name, *offset)
        });
        structure(&mut text, "", name, argument.bytes, fields);
    }
    text.push_str(&layout_list());
    text.push_str(&measure_list());
    text
}

/// A structure whose size and offsets the compiler asserts; a field is its declaration, its name
/// and its offset.
fn structure<'a>(
    text: &mut String,
    align: &str,
    name: &str,
    bytes: usize,
    fields: impl Iterator<Item = (String, &'a str, usize)> + Clone,
) {
    line!(text, "struct {align}{name} {{");
    for (declaration, ..) in fields.clone() {
        line!(text, "    {declaration};");
    }
    line!(text, "}};\nstatic_assert(sizeof({name}) == {bytes}, \"{name}\");");
    for (_, field, offset) in fields {
        line!(text, "static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");");
    }
}

/// All records and fields as one macro, so that the probe's kernel checks every one.
fn layout_list() -> String {
    let mut text = String::from("#define LAYOUT(RECORD, FIELD)");
    for record in layout::RECORD_LISTS.into_iter().flatten() {
        let name = record.name;
        text.push_str(&format!(" \\\n    RECORD({name})"));
        for (field, _, _) in record.fields {
            text.push_str(&format!(" FIELD({name}, {field})"));
        }
    }
    text.push('\n');
    text
}

/// All measures as one macro that calls its argument with the properties of each measure.
fn measure_list() -> String {
    let mut text = String::from("#define MEASURES(DO)");
    for (index, measure) in layout::MEASURES.iter().enumerate() {
        let layout::MeasureLayout { field, column_type, at, range: [min, max], .. } = measure;
        let bit = layout::FILTER_MEASURE << index;
        let refusal = measure.column.to_uppercase();
        let [unknown, least, greatest] = measure.values;
        let is_circular = measure.is_circular;
        text.push_str(&format!(
            " \\\n    DO({field}, {column_type}, {at}, REFUSED_{refusal}, {bit}u, {min}, {max}, \
             {unknown}ll, {least}ll, {greatest}ll, {is_circular})"
        ));
    }
    text.push('\n');
    text
}
