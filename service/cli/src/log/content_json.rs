//! The content of a log as JSON.
//!
//! Terms are strings, as in all JSON of this program.

use serde_json::{Value, json};
use shoal_position_log::{Frame, LogError, Position};
use shoal_service::persistence::{LogContent, SegmentContent, StoredCheckpoint, StoredFleet};

use super::content_text::{clock_name, frame_kind, segment_state};

/// A place in the log.
pub(super) fn position(position: Position) -> Value {
    json!({
        "segment": position.segment,
        "offset": position.offset,
        "sequence": position.sequence,
        "epoch": position.epoch,
    })
}

/// One frame.
pub(super) fn frame(fleet: &str, frame: &Frame<'_>) -> Value {
    let header = &frame.header;
    json!({
        "fleet": fleet,
        "segment": header.segment,
        "offset": frame.offset,
        "kind": frame_kind(header.kind),
        "sequence": header.sequence,
        "synced_sequence": header.synced_sequence,
        "term": header.term.to_string(),
        "epoch_first": header.epoch_first,
        "epoch_last": header.epoch_last,
        "cycles": header.cycles,
        "bytes": header.frame_bytes(),
        "system_ms": header.system_ms,
    })
}

/// One fleet.
pub(super) fn fleet(
    fleet: &StoredFleet,
    content: &LogContent,
    checkpoints: &Result<Vec<StoredCheckpoint>, LogError>,
) -> Value {
    let (listed, checkpoint_fault) = match checkpoints {
        Ok(listed) => (&listed[..], None),
        Err(error) => (&[][..], Some(error.to_string())),
    };
    let identity = fleet.identity();
    let LogContent { counts, requests, torn, .. } = content;
    let terms = content.terms.iter().map(|term| {
        json!({
            "term": term.term.to_string(),
            "epoch_first": term.first_epoch,
            "epoch_last": term.last_epoch,
        })
    });
    json!({
        "fleet": fleet.name(),
        "id": format!("{:032x}", identity.id),
        "folder": format!("fleets/{}", identity.name),
        "options": options(fleet),
        "segments": content.segments.iter().map(|it| segment(content, it)).collect::<Vec<_>>(),
        "frames": counts.frames,
        "cycles": counts.cycles,
        "bytes": counts.bytes,
        "requests": {
            "blocks": requests.blocks,
            "rows": requests.rows,
            "removals": requests.removals,
            "clears": requests.clears,
            "with_batch_seq": requests.numbered,
        },
        "rows": requests.fixes,
        "removed_ids": requests.removed,
        "terms": terms.collect::<Vec<_>>(),
        "epoch_first": content.first_epoch,
        "end": position(content.end),
        "is_clean": content.is_clean,
        "torn_tail": torn.as_ref().map(|torn| json!({
            "segment": torn.segment,
            "offset": torn.offset,
            "reason": torn.reason,
            "frames": torn.frames,
        })),
        "fault": content.fault.as_ref().map(ToString::to_string),
        "checkpoints": listed.iter().map(checkpoint).collect::<Vec<_>>(),
        "checkpoint_fault": checkpoint_fault,
    })
}

fn options(fleet: &StoredFleet) -> Value {
    match fleet.spec() {
        Ok(spec) => json!({
            "space": spec.space.to_string(),
            "clock": clock_name(spec.clock),
            "ttl_ms": spec.ttl_ms.unwrap_or(0),
            "objects_max": spec.objects_max,
        }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn segment(content: &LogContent, segment: &SegmentContent) -> Value {
    let header = segment.header.as_ref().ok();
    json!({
        "segment": segment.number,
        "bytes": header.map(|header| header.bytes),
        "epoch_before": header.map(|header| header.epoch_before),
        "epoch_last": segment.last_epoch,
        "frames": segment.counts.frames,
        "cycles": segment.counts.cycles,
        "frame_bytes": segment.counts.bytes,
        "state": segment_state(content, segment),
    })
}

fn checkpoint(checkpoint: &StoredCheckpoint) -> Value {
    match &checkpoint.content {
        Ok(content) => json!({
            "epoch": checkpoint.epoch,
            "term": content.header.term.to_string(),
            "clock_ms": content.header.clock_ms,
            "bytes": content.bytes,
            "sections": content.sections,
            "objects": content.rows,
            "producers": content.producers,
            "names": content.names,
            "past_terms": content.past_terms.len(),
            "position": position(content.header.position),
        }),
        Err(error) => json!({ "epoch": checkpoint.epoch, "rejected": error.to_string() }),
    }
}
