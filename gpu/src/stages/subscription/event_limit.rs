//! Applies the event limit of a cycle: decides which continuous queries lag.
//!
//! Regions are admitted in the order of their ids; a region lags if its events do not fit in
//! addition to those of lower ids; the next one may fit again. Events are counted by region only if
//! they exceed the limit.

use std::collections::BTreeMap;

use shoal_engine::EngineError;

use super::events::HostEvents;
use super::stage::SubscriptionStage;
use crate::launch::{SceneArgument, fault};
use crate::state::fleet::FleetState;

impl SubscriptionStage {
    /// Marks regions as lagging whose events do not fit in addition to those of lower ids; returns
    /// the host's events of the others. Waits.
    pub(super) fn limit_events(
        &mut self,
        state: &mut FleetState,
        scene: Option<&SceneArgument>,
        made: Vec<HostEvents>,
    ) -> Result<Vec<HostEvents>, EngineError> {
        let (kernels, stream) = (&self.context.gpu.kernels, &self.stream);
        let (queries, found) = (&mut state.queries, &mut self.found);
        let table = &mut queries.table;
        let mut tallies = Vec::new();
        if let Some(scene) = scene {
            tallies = found.tally(kernels, stream, scene, table.numbers())?;
        }
        let mut made: BTreeMap<_, _> = made.into_iter().map(|made| (made.region, made)).collect();
        let (mut kept, mut marks, mut admitted) = (Vec::new(), Vec::new(), 0);
        for (region, number) in table.iter() {
            let tally = tallies.get(number as usize).map_or(0, |tally| u64::from(*tally));
            let own = made.remove(&region);
            let events = own.as_ref().map_or(tally, |made| made.objects.len() as u64);
            if admitted + events <= self.context.options.events_max {
                admitted += events;
                kept.extend(own);
                continue;
            }
            kept.push(HostEvents::lagged(region));
            if own.is_none() {
                marks.push(number << 1);
            }
        }
        if let (Some(scene), false) = (scene, marks.is_empty()) {
            for mark in &marks {
                table.queries[(mark >> 1) as usize].suppressed_epoch = state.epoch as u32;
            }
            self.marks.fit(marks.len())?;
            self.marks.upload(stream, 0, &marks)?;
            let (queries, marked) = (&queries.on_device.queries, (&self.marks, marks.len()));
            kernels.subscription_mark(stream, queries, marked, state.epoch)?;
            found.count(kernels, stream, scene)?;
            stream.synchronize().map_err(fault)?;
        }
        Ok(kept)
    }
}
