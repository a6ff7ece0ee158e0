//! Which regions lag when a cycle has more events than it may tell?
//!
//! Regions are filled in the order of their ids; one whose events do not fit beside those told of
//! lower ids is lagged, and the next may fit again. Only then are events counted by region.

use std::collections::BTreeMap;

use shoal_engine::EngineError;

use super::told::HostMade;
use crate::launch::{SceneArgument, fault};
use crate::pipeline::driver::Driver;

impl Driver {
    /// Lets those regions lag whose events do not fit beside those of lower ids; what the host made
    /// of the others. Waits.
    pub(super) fn cut(
        &mut self,
        scene: Option<&SceneArgument>,
        made: Vec<HostMade>,
    ) -> Result<Vec<HostMade>, EngineError> {
        let subscriptions = &mut self.subscriptions;
        let (kernels, stream) = (&self.gpu.kernels, &subscriptions.stream);
        let (table, found) = (&mut subscriptions.table, &mut subscriptions.found);
        let mut tallies = Vec::new();
        if let Some(scene) = scene {
            tallies = found.tally(kernels, stream, scene, table.numbers())?;
        }
        let mut made: BTreeMap<_, _> = made.into_iter().map(|made| (made.region, made)).collect();
        let (mut kept, mut marks, mut told) = (Vec::new(), Vec::new(), 0);
        for (region, number) in table.iter() {
            let tally = tallies.get(number as usize).map_or(0, |tally| u64::from(*tally));
            let own = made.remove(&region);
            let events = own.as_ref().map_or(tally, |made| made.objects.len() as u64);
            if told + events <= self.options.events_max {
                told += events;
                kept.extend(own);
                continue;
            }
            kept.push(HostMade::lagged(region));
            if own.is_none() {
                marks.push(number << 1);
            }
        }
        if let (Some(scene), false) = (scene, marks.is_empty()) {
            for mark in &marks {
                table.standing[(mark >> 1) as usize].silent = self.epoch as u32;
            }
            subscriptions.marks.fit(marks.len())?;
            subscriptions.marks.upload(stream, 0, &marks)?;
            let (standing, marked) =
                (&subscriptions.on_device.standing, (&subscriptions.marks, marks.len()));
            kernels.subscription_mark(stream, standing, marked, self.epoch)?;
            found.count(kernels, stream, scene)?;
            stream.synchronize().map_err(fault)?;
        }
        Ok(kept)
    }
}
