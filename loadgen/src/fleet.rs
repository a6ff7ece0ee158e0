//! The fleet of a run: a fresh one with a random name, the workload's space and an event clock,
//! deleted at the end; or a named one that is kept.
//!
//! The oracle needs the complete state of a fleet, so it requires an empty one.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use shoal_client::v1::{
    self as proto, CreateFleetRequest, ErrorReason, Fleet, FleetKind, GeographicSpace, PlanarSpace,
    ReplicationRole, space,
};
use shoal_client::{Client, Error, duration};
use shoal_engine::Space;
use shoal_workload::WorkloadSpace;
use tokio::time::{Duration, Instant, sleep};

use crate::error::LoadError;
use crate::limits::{EVENT_CLOCK_LEAD_MS, STALL_S_MAX};
use crate::plan::RunPlan;

/// Delay between two calls while a follower has no copy yet.
const COPY_INTERVAL: Duration = Duration::from_millis(50);

/// The fleet of a run.
#[derive(Debug)]
pub struct RunFleet {
    client: Client,
    /// The fleet's description at the start of the run.
    pub fleet: Fleet,
    /// Its space.
    pub space: Space,
    is_kept: bool,
}

impl RunFleet {
    /// Creates a fresh fleet, or opens the named fleet and creates it if absent.
    ///
    /// # Errors
    /// [`LoadError::Usage`] if the named fleet cannot serve the run, [`LoadError::Call`].
    pub async fn open(
        client: Client,
        plan: &RunPlan,
        space: WorkloadSpace,
    ) -> Result<Self, LoadError> {
        let name = plan.flags.fleet.clone().unwrap_or_else(fresh_name);
        let existing = match &plan.flags.fleet {
            None => None,
            Some(name) => find(&client, name).await?,
        };
        let space = proto_space(space);
        let fleet = match existing {
            Some(fleet) => fleet,
            None => create(&client, plan, name, &space).await?,
        };
        // Deletes a newly created fleet if the checks below refuse it.
        let mut open =
            Self { client, space: Space::geographic(), is_kept: plan.flags.fleet.is_some(), fleet };
        match open.check(plan, &space) {
            Ok(space) => {
                open.space = space;
                Ok(open)
            }
            Err(error) => {
                open.close().await?;
                Err(error)
            }
        }
    }

    /// Confirms that the fleet can serve the run; returns its space.
    fn check(&self, plan: &RunPlan, wanted: &proto::Space) -> Result<Space, LoadError> {
        let Fleet { name, limits, object_count: objects, .. } = &self.fleet;
        let usage = |text: String| Err(LoadError::Usage(text));
        let (is, wanted) = (engine_space(self.fleet.space.as_ref())?, engine_space(Some(wanted))?);
        if is != wanted {
            return usage(format!("fleet {name} has space {is}, the workload needs {wanted}"));
        }
        if (self.fleet.kind() == FleetKind::Named) != plan.flags.named {
            return usage(if plan.flags.named {
                format!("fleet {name} is numeric, --named needs a named fleet")
            } else {
                format!("fleet {name} is named, it needs --named")
            });
        }
        let objects_max = limits.map_or(0, |limits| limits.objects_max);
        if plan.verify_share.is_none() {
            return Ok(is);
        }
        if *objects > 0 {
            return usage(format!(
                "fleet {name} holds {objects} objects that the oracle does not know; --verify \
                 takes an empty fleet"
            ));
        }
        if self.fleet.clock != i32::from(proto::Clock::Event) {
            return usage(format!("fleet {name} has no event clock, --verify needs one"));
        }
        let lead = self.fleet.event_clock_lead.as_ref().and_then(|it| duration::to_millis(it).ok());
        if lead.is_some_and(|lead_ms| lead_ms.unsigned_abs() < EVENT_CLOCK_LEAD_MS) {
            return usage(format!(
                "the event clock of fleet {name} does not follow every row, --verify needs one \
                 that does: create it with `shoal fleets create {name} --clock event \
                 --event-clock-lead 36525d`"
            ));
        }
        if objects_max > 0 && objects_max < plan.params.objects {
            let wanted = plan.params.objects;
            return usage(format!("fleet {name} takes {objects_max} objects, not {wanted}"));
        }
        Ok(is)
    }

    /// Waits until a follower has a copy of the fleet with its term.
    ///
    /// # Errors
    /// [`LoadError::Usage`] if the server is no follower, [`LoadError::NoCopy`],
    /// [`LoadError::Call`].
    pub async fn wait_for_copy(&self, follower: &Client) -> Result<(), LoadError> {
        let name = &self.fleet.name;
        let deadline = Instant::now() + Duration::from_secs(STALL_S_MAX);
        while Instant::now() < deadline {
            match follower.get_fleet(name).await {
                Ok(copy) if !is_follower(&copy) => {
                    return Err(LoadError::Usage(format!(
                        "{} is no follower; start one with `shoal serve --data DIR --follow ADDR`",
                        follower.target()
                    )));
                }
                // The term is the first thing that a copy receives.
                Ok(copy) if copy.term == self.fleet.term => return Ok(()),
                Ok(_) => {}
                Err(error) if is_copy_awaited(&error) => {}
                Err(error) => return Err(LoadError::call("GetFleet at the follower")(error)),
            }
            sleep(COPY_INTERVAL).await;
        }
        let (fleet, follower) = (name.clone(), follower.target().to_owned());
        Err(LoadError::NoCopy { fleet, follower, waited_s: STALL_S_MAX })
    }

    /// Objects that the fleet holds now.
    ///
    /// # Errors
    /// [`LoadError::Call`].
    pub async fn objects(&self) -> Result<u64, LoadError> {
        let fleet = find(&self.client, &self.fleet.name).await?;
        Ok(fleet.map_or(0, |fleet| fleet.object_count))
    }

    /// Deletes the fleet unless it is kept.
    ///
    /// # Errors
    /// [`LoadError::Call`].
    pub async fn close(self) -> Result<(), LoadError> {
        if self.is_kept {
            return Ok(());
        }
        let deleted = self.client.delete_fleet(&self.fleet.name).await;
        deleted.map_err(LoadError::call("DeleteFleet"))
    }

    /// Time to live of the fleet's records; `None` if they do not expire.
    #[must_use]
    pub fn ttl_ms(&self) -> Option<i64> {
        let ttl_ms = duration::to_millis(self.fleet.ttl.as_ref()?).ok();
        ttl_ms.filter(|ttl_ms| *ttl_ms > 0)
    }
}

fn is_follower(fleet: &Fleet) -> bool {
    let role = fleet.replication.as_ref().map(proto::FleetReplication::role);
    role == Some(ReplicationRole::Follower)
}

/// True for the errors of a follower that may still receive its copy of the fleet.
fn is_copy_awaited(error: &Error) -> bool {
    matches!(error.reason(), Some(ErrorReason::FleetUnknown | ErrorReason::Recovering))
}

async fn find(client: &Client, name: &str) -> Result<Option<Fleet>, LoadError> {
    match client.get_fleet(name).await {
        Ok(fleet) => Ok(Some(fleet)),
        Err(error) if error.reason() == Some(ErrorReason::FleetUnknown) => Ok(None),
        Err(error) => Err(LoadError::call("GetFleet")(error)),
    }
}

async fn create(
    client: &Client,
    plan: &RunPlan,
    name: String,
    space: &proto::Space,
) -> Result<Fleet, LoadError> {
    let kind = if plan.flags.named { FleetKind::Named } else { FleetKind::Numeric };
    let request = CreateFleetRequest {
        name,
        kind: kind.into(),
        space: Some(*space),
        clock: proto::Clock::Event.into(),
        ttl: Some(duration::from_millis(plan.flags.ttl_ms.unsigned_abs())),
        limits: None,
        durability: plan.flags.durability.unwrap_or_default().into(),
        event_clock_lead: Some(duration::from_millis(
            plan.flags.event_clock_lead_ms.unwrap_or(EVENT_CLOCK_LEAD_MS),
        )),
        ..Default::default()
    };
    client.create_fleet(request).await.map_err(LoadError::call("CreateFleet"))
}

/// `load-` and 64 random bits, from the random hash keys of the standard library.
pub(crate) fn fresh_name() -> String {
    format!("load-{:016x}", RandomState::new().build_hasher().finish())
}

/// A workload's space on the wire.
fn proto_space(space: WorkloadSpace) -> proto::Space {
    let kind = match space {
        WorkloadSpace::Geographic => space::Kind::Geographic(GeographicSpace {}),
        WorkloadSpace::Planar { width_m, height_m } => {
            space::Kind::Planar(PlanarSpace { width_m, height_m, quantum_m: 0.0 })
        }
    };
    proto::Space { kind: Some(kind) }
}

/// The engine's form of a space on the wire.
fn engine_space(space: Option<&proto::Space>) -> Result<Space, LoadError> {
    match space.and_then(|space| space.kind) {
        None | Some(space::Kind::Geographic(_)) => Ok(Space::geographic()),
        Some(space::Kind::Planar(planar)) => {
            let quantum_m = if planar.quantum_m > 0.0 {
                planar.quantum_m
            } else {
                shoal_engine::PLANAR_QUANTUM_M
            };
            Ok(Space::planar(planar.width_m, planar.height_m, quantum_m)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_names_are_legal_and_differ() {
        let (one, other) = (fresh_name(), fresh_name());
        assert_ne!(one, other);
        assert!(one.len() <= 64 && one.starts_with("load-"));
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        assert!(one.chars().all(legal), "{one}");
    }

    #[test]
    fn spaces_come_back_the_same() {
        let planar = WorkloadSpace::Planar { width_m: 1e5, height_m: 1e3 };
        for (workload, text) in
            [(WorkloadSpace::Geographic, "geographic"), (planar, "planar:100000x1000")]
        {
            let space = engine_space(Some(&proto_space(workload))).unwrap();
            assert_eq!(space.to_string(), text);
        }
    }
}
