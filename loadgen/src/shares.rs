//! Value types of the command line: the ratio of updates to queries (`100:10`) and the mix of query
//! kinds (`range:80,nearest:10`).

use std::fmt;
use std::str::FromStr;

/// Ratio of updates to queries, such as 100:10. Either side may be 0, but not both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateQuery {
    /// Rows.
    pub updates: u32,
    /// Queries per that number of rows.
    pub queries: u32,
}

impl UpdateQuery {
    /// Queries due after `rows` rows, rounded down.
    #[must_use]
    pub fn queries_due(&self, rows: u64) -> u64 {
        if self.updates == 0 {
            return 0;
        }
        let due = u128::from(rows) * u128::from(self.queries) / u128::from(self.updates);
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

impl FromStr for UpdateQuery {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a ratio like 100:10: two whole numbers, not both 0");
        let (updates, queries) = text.split_once(':').ok_or_else(wrong)?;
        let ratio = Self {
            updates: updates.parse().map_err(|_| wrong())?,
            queries: queries.parse().map_err(|_| wrong())?,
        };
        if ratio.updates == 0 && ratio.queries == 0 {
            return Err(wrong());
        }
        Ok(ratio)
    }
}

impl fmt::Display for UpdateQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.updates, self.queries)
    }
}

/// A kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawnKind {
    /// All objects in a rectangle: the workload's window.
    Range,
    /// All objects in a circle of half the window's height around its centre.
    Circle,
    /// All objects in a polygon of a few vertices inside the window.
    Polygon,
    /// The objects nearest to the window's centre.
    Nearest,
    /// Some objects by id.
    Get,
}

impl DrawnKind {
    /// All kinds with their names in a mix.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Range, "range"),
        (Self::Circle, "circle"),
        (Self::Polygon, "polygon"),
        (Self::Nearest, "nearest"),
        (Self::Get, "get"),
    ];
}

/// Weights of the kinds of query, in the order of [`DrawnKind::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryMix([u32; DrawnKind::ALL.len()]);

impl QueryMix {
    /// The kind selected by `draw`, a number below [`QueryMix::total`].
    #[must_use]
    pub fn pick(&self, draw: u64) -> DrawnKind {
        let mut left = draw;
        for (weight, (kind, _)) in self.0.iter().zip(DrawnKind::ALL) {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        DrawnKind::Range
    }

    /// Sum of the weights, above 0.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }
}

impl Default for QueryMix {
    /// Rectangles only, as in the published experiments.
    fn default() -> Self {
        Self([1, 0, 0, 0, 0])
    }
}

impl FromStr for QueryMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix = Self([0; DrawnKind::ALL.len()]);
        for part in text.split(',') {
            let (name, weight) = part.split_once(':').unwrap_or((part, "1"));
            let place = DrawnKind::ALL.iter().position(|(_, known)| *known == name);
            let place = place.ok_or_else(|| {
                let names: Vec<_> = DrawnKind::ALL.iter().map(|(_, name)| *name).collect();
                format!("{name:?} is not a kind of query; the kinds are {}", names.join(", "))
            })?;
            mix.0[place] = weight
                .parse()
                .map_err(|_| format!("weight {weight:?} of {name} is not a whole number"))?;
        }
        if mix.total() == 0 {
            return Err("the weights of a mix must not all be 0".to_owned());
        }
        Ok(mix)
    }
}

impl fmt::Display for QueryMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.iter().zip(DrawnKind::ALL);
        let shown = parts.filter(|(weight, _)| **weight > 0);
        let shown: Vec<_> = shown.map(|(weight, (_, name))| format!("{name}:{weight}")).collect();
        f.write_str(&shown.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_read_and_count() {
        let ratio: UpdateQuery = "100:10".parse().unwrap();
        assert_eq!(ratio.queries_due(99), 9);
        assert_eq!(ratio.queries_due(u64::MAX), u64::MAX / 10);
        assert_eq!(ratio.to_string(), "100:10");
        let silent: UpdateQuery = "0:1".parse().unwrap();
        assert_eq!(silent.queries_due(1_000), 0);
        for text in ["", "100", "100:", "0:0", "1:-1", "a:b", "1:2:3"] {
            assert!(text.parse::<UpdateQuery>().unwrap_err().contains("100:10"), "{text}");
        }
    }

    #[test]
    fn mixes_read_and_pick_by_weight() {
        let mix: QueryMix = "range:80,nearest:10,get:10".parse().unwrap();
        assert_eq!(mix.total(), 100);
        assert_eq!(mix.pick(0), DrawnKind::Range);
        assert_eq!(mix.pick(79), DrawnKind::Range);
        assert_eq!(mix.pick(80), DrawnKind::Nearest);
        assert_eq!(mix.pick(90), DrawnKind::Get);
        assert_eq!(mix.pick(99), DrawnKind::Get);
        assert_eq!(mix.to_string(), "range:80,nearest:10,get:10");
        assert_eq!("get".parse::<QueryMix>().unwrap().pick(0), DrawnKind::Get);
        for text in ["", "rang:1", "range:x", "range:0", "range:-1"] {
            assert!(text.parse::<QueryMix>().is_err(), "{text}");
        }
    }
}
