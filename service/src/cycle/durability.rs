//! The durability levels of acknowledgements.

/// Which failures an acknowledged change survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// It is applied in memory: a crash may lose it.
    #[default]
    Applied,
    /// Its cycle is synced in the log of the fleet: a crash does not lose it.
    Logged,
}
