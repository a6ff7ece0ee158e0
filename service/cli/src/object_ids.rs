//! The objects that a command names: names in a named fleet, numbers in a numeric one.

use std::collections::HashSet;
use std::hash::Hash;

use shoal_client::{Client, v1};
use shoal_service::json::fleet::is_named;
use shoal_table::printable;

use super::error::CliError;
use super::logs::note;
use super::values::object;

/// Most names that a command lists because a fleet does not have them.
const UNKNOWN_TOLD_MAX: usize = 5;

/// Objects of one fleet, each once.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectList {
    /// Of a numeric fleet.
    Numbers(Vec<u64>),
    /// Of a named fleet.
    Names(Vec<String>),
}

impl ObjectList {
    /// Reads ids as the fleet has them.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a text that is no number in a numeric fleet.
    pub fn of(fleet: &v1::Fleet, ids: &[String]) -> Result<Self, CliError> {
        if is_named(fleet) {
            return Ok(Self::Names(each_once(ids.to_vec())));
        }
        let number = |id: &String| {
            object(id).map_err(|reason| {
                let name = &fleet.name;
                CliError::Usage(format!("`{id}`: fleet {name} is numeric, and {reason}"))
            })
        };
        ids.iter().map(number).collect::<Result<_, _>>().map(each_once).map(Self::Numbers)
    }

    /// Reads ids as the fleet with this name has them.
    ///
    /// # Errors
    /// As [`ObjectList::of`]; those of the server.
    pub async fn of_fleet(client: &Client, fleet: &str, ids: &[String]) -> Result<Self, CliError> {
        if ids.is_empty() {
            return Ok(Self::Numbers(Vec::new()));
        }
        Self::of(&client.get_fleet(fleet).await?, ids)
    }

    /// Finds the names that the fleet does not have, and says so on standard error.
    ///
    /// # Errors
    /// Those of the server.
    pub async fn find_unknown(
        &self,
        client: &Client,
        fleet: &str,
    ) -> Result<HashSet<String>, CliError> {
        let Self::Names(names) = self else { return Ok(HashSet::new()) };
        let numbers = client.resolve(fleet, names).await?;
        let unknown = names.iter().zip(numbers).filter(|(_, number)| *number == 0);
        let unknown: Vec<&String> = unknown.map(|(name, _)| name).collect();
        for name in unknown.iter().take(UNKNOWN_TOLD_MAX) {
            note(&format!("fleet {fleet} has no name `{}`", printable(name)));
        }
        if unknown.len() > UNKNOWN_TOLD_MAX {
            note(&format!("and {} more names", unknown.len() - UNKNOWN_TOLD_MAX));
        }
        Ok(unknown.into_iter().cloned().collect())
    }

    /// The number of objects.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Names(names) => names.len(),
        }
    }

    /// Returns the fields `objects` and `names` of a request; one of them is empty.
    #[must_use]
    pub fn into_fields(self) -> (Vec<u64>, Vec<String>) {
        match self {
            Self::Numbers(numbers) => (numbers, Vec::new()),
            Self::Names(names) => (Vec::new(), names),
        }
    }
}

/// Keeps the first of equal ids.
fn each_once<T: Clone + Eq + Hash>(mut ids: Vec<T>) -> Vec<T> {
    let mut known = HashSet::new();
    ids.retain(|id| known.insert(id.clone()));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_fleet() {
        let ids = ["7", "truck", "7", "5"].map(str::to_owned);
        let fleet = |kind: v1::FleetKind| v1::Fleet { kind: kind.into(), ..Default::default() };
        let named = ObjectList::of(&fleet(v1::FleetKind::Named), &ids).unwrap();
        let names = ["7", "truck", "5"].map(str::to_owned).to_vec();
        assert_eq!(named.clone().into_fields(), (vec![], names));
        assert_eq!(named.count(), 3);
        let numeric = fleet(v1::FleetKind::Numeric);
        let error = ObjectList::of(&numeric, &ids).unwrap_err().to_string();
        assert!(error.contains("`truck`") && error.contains("numeric"), "{error}");
        let numbers = ["7", "7", "5"].map(str::to_owned);
        let numbers = ObjectList::of(&numeric, &numbers).unwrap();
        assert_eq!(numbers.into_fields(), (vec![7, 5], vec![]));
    }
}
