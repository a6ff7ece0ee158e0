//! The codec of tables on the device.

#[cfg(feature = "cuda")]
use std::ops::Range;

#[cfg(feature = "cuda")]
use shoal_codec::{Table, TableOutcome, TablePlanner, TableValues};
use shoal_service::ServiceError;
use shoal_table::TableCodec;
#[cfg(feature = "cuda")]
use shoal_table::{CodecFault, CpuTableCodec};

/// Limit of the device memory of `shoal codec --device`, bytes: one such amount for encoding and
/// one for decoding.
#[cfg(feature = "cuda")]
const DEVICE_TABLE_BYTES_MAX: u64 = 8 << 30;
/// Maximum bytes of decoded values of a table that the device decodes at once. Larger tables,
/// which a small file can declare, are decoded in parts on the CPU.
#[cfg(feature = "cuda")]
const DEVICE_DECODE_BYTES_MAX: usize = 256 << 20;

/// Opens the codec, with memory of its own.
///
/// # Errors
/// [`ServiceError::EngineUnavailable`], and those of the device.
#[cfg(feature = "cuda")]
pub(super) fn device_table_codec() -> Result<Box<dyn TableCodec>, ServiceError> {
    let unavailable = |cause: shoal_gpu::Unavailable| ServiceError::EngineUnavailable {
        engine: "cuda",
        cause: cause.to_string(),
    };
    let gpu = shoal_gpu::Gpu::open(shoal_gpu::Gpu::FIRST).map_err(unavailable)?;
    let encoder = shoal_gpu::Encoder::new(&gpu, DEVICE_TABLE_BYTES_MAX)?;
    let decoder = shoal_gpu::Decoder::new(&gpu, DEVICE_TABLE_BYTES_MAX)?;
    Ok(Box::new(CudaTableCodec { encoder, decoder }))
}

/// Always fails: this build has no CUDA engine.
#[cfg(not(feature = "cuda"))]
pub(super) fn device_table_codec() -> Result<Box<dyn TableCodec>, ServiceError> {
    let cause = shoal_gpu::Unavailable::NotBuilt.to_string();
    Err(ServiceError::EngineUnavailable { engine: "cuda", cause })
}

/// Table codec on the GPU. Tables of which only some rows are requested are decoded on the CPU.
#[cfg(feature = "cuda")]
struct CudaTableCodec {
    encoder: shoal_gpu::Encoder,
    decoder: shoal_gpu::Decoder,
}

#[cfg(feature = "cuda")]
impl TableCodec for CudaTableCodec {
    fn encode(
        &mut self,
        planners: &mut [TablePlanner],
        columns: &[(u16, &TableValues)],
        is_keyed: bool,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<TableOutcome>, CodecFault> {
        let encoded = self.encoder.encode_table(planners, columns, is_keyed, sequence, out);
        encoded.map_err(|error| match error {
            shoal_gpu::EncodeError::Block(error) => CodecFault::Block(error),
            error => CodecFault::Device(error.to_string()),
        })
    }

    fn decode(
        &mut self,
        table: &Table,
        rows: Range<usize>,
    ) -> Result<Vec<TableValues>, CodecFault> {
        if rows != (0..table.rows()) {
            return Ok(table.decode_all(rows)?);
        }
        let chunks = self.decoder.table(table);
        let chunks = chunks.map_err(|error| CodecFault::Device(error.to_string()))?;
        let mut chunks: Vec<_> = chunks.into_iter().map(Some).collect();
        // `decode_by` requests each chunk of text once. A chunk that is requested again is decoded
        // on the CPU.
        let decoded = table.decode_by(rows, |chunk, rows| match chunks[chunk].take() {
            Some(values) => values,
            None => table.decode_chunk(chunk, rows),
        });
        Ok(decoded?)
    }

    fn rows_together(&self, table: &Table) -> usize {
        let chunks = table.chunks().iter();
        let bytes: usize =
            chunks.map(|chunk| chunk.values() * chunk.value_type.width_bytes()).sum();
        let is_bounded = bytes <= DEVICE_DECODE_BYTES_MAX;
        if is_bounded { table.rows() } else { CpuTableCodec.rows_together(table) }
    }
}
