//! What a token allows: rights on fleets, and quotas.
//!
//! The token file and the claims of signed tokens contain these structures.

use serde::{Deserialize, Serialize};

use super::fleet_pattern::FleetPattern;
use crate::limits::{GRANT_PATTERNS_MAX, GRANTS_MAX};
use crate::right::{Right, Rights};

/// Rights on the fleets whose names match a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Patterns of fleet names.
    pub fleets: Vec<FleetPattern>,
    /// The rights on each of them.
    pub rights: Rights,
}

/// The grants of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Every right on every fleet.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![Grant { fleets: vec![FleetPattern::any()], rights: Rights::all() }])
    }

    /// Confirms that the numbers of grants and of their patterns are within the limits, and that
    /// each grant has a right.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=GRANTS_MAX).contains(&self.0.len()) {
            return Err(format!("{} grants: use 1 to {GRANTS_MAX}", self.0.len()));
        }
        for grant in &self.0 {
            if !(1..=GRANT_PATTERNS_MAX).contains(&grant.fleets.len()) {
                let patterns = grant.fleets.len();
                return Err(format!(
                    "{patterns} patterns of fleets: use 1 to {GRANT_PATTERNS_MAX}"
                ));
            }
            if grant.rights.is_empty() {
                return Err("a grant without rights".to_owned());
            }
        }
        Ok(())
    }

    /// The grants, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// The rights on a fleet.
    fn on(&self, fleet: &str) -> impl Iterator<Item = Rights> {
        let matching = move |grant: &&Grant| grant.fleets.iter().any(|it| it.matches(fleet));
        self.0.iter().filter(matching).map(|grant| grant.rights)
    }

    /// Whether there is a right on a fleet.
    #[must_use]
    pub fn allow(&self, right: Right, fleet: &str) -> bool {
        self.on(fleet).any(|rights| rights.has(right))
    }

    /// Whether there is any right on a fleet.
    #[must_use]
    pub fn show(&self, fleet: &str) -> bool {
        self.on(fleet).any(|rights| !rights.is_empty())
    }

    /// Whether there is a right on some fleet.
    #[must_use]
    pub fn allow_somewhere(&self, right: Right) -> bool {
        self.0.iter().any(|grant| grant.rights.has(right))
    }

    /// Whether there is a right on all fleets, including fleets that are created later.
    #[must_use]
    pub fn allow_everywhere(&self, right: Right) -> bool {
        let is_any = |grant: &Grant| grant.fleets.iter().any(FleetPattern::is_any);
        self.0.iter().any(|grant| grant.rights.has(right) && is_any(grant))
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<T: IntoIterator<Item = Grant>>(grants: T) -> Self {
        Self(grants.into_iter().collect())
    }
}

/// The quotas of a token. `None` means that only the limits of the server apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Connections at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Long-lived streams at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
    /// Reported and removed rows in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_per_second: Option<u64>,
    /// Queries in a second. Each query of a batch counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_per_second: Option<u64>,
    /// Bytes of answers and events in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_bytes_per_second: Option<u64>,
    /// Subscribed regions of all sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<u64>,
    /// Maximum number of fleets on which the token has the right `admin`. Only the creation of a
    /// fleet checks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleets: Option<u64>,
}

impl Quotas {
    /// Whether there is no quota.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(fleets: &[&str], rights: &[Right]) -> Grant {
        let fleets = fleets.iter().map(|text| text.parse().unwrap()).collect();
        Grant { fleets, rights: rights.iter().copied().collect() }
    }

    #[test]
    fn grants_add_up() {
        let grants: Grants = [
            grant(&["truck-*", "bus"], &[Right::Report]),
            grant(&["bus"], &[Right::Query]),
            grant(&["*"], &[Right::History]),
        ]
        .into_iter()
        .collect();
        assert!(grants.allow(Right::Report, "truck-7") && grants.allow(Right::Report, "bus"));
        assert!(grants.allow(Right::Query, "bus") && !grants.allow(Right::Query, "truck-7"));
        assert!(grants.show("ship") && !grants.allow(Right::Report, "ship"));
        assert!(grants.allow_everywhere(Right::History));
        assert!(grants.allow_somewhere(Right::Report) && !grants.allow_everywhere(Right::Report));
        assert!(!grants.allow_somewhere(Right::Admin));
        assert!(Right::ALL.into_iter().all(|right| Grants::all().allow_everywhere(right)));
    }

    #[test]
    fn numbers_are_bounded() {
        let one = grant(&["a"], &[Right::Query]);
        assert!(Grants::default().check().is_err());
        assert!(Grants::from_iter(vec![one.clone(); GRANTS_MAX + 1]).check().is_err());
        assert!(Grants::from_iter(vec![one; GRANTS_MAX]).check().is_ok());
        assert!(Grants::from_iter([grant(&[], &[Right::Query])]).check().is_err());
        assert!(Grants::from_iter([grant(&["a"], &[])]).check().is_err());
    }
}
