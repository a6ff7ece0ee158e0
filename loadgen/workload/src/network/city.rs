//! A city drawn from a seed.
//!
//! A grid of crossings, displaced at random. A random spanning tree of streets connects them, and a
//! share of the other streets is left out, so there are detours and dead ends.

use crate::network::graph::{Graph, Road};
use crate::random::{Domain, below, stream, unit};

/// Side of the space in metres, the same as in `gauss`.
const SPACE_M: f64 = 100_000.0;
/// Crossings along each side.
const LINES: u32 = 100;
/// Largest displacement of a crossing, as a share of the spacing.
const DISPLACEMENT: f64 = 0.25;
/// Share of the streets outside the spanning tree that are left out.
const MISSING: f64 = 0.2;

/// The city of a seed.
pub(super) fn city(seed: u64) -> Graph {
    let mut random = stream(seed, Domain::Places, 1);
    let spacing_m = SPACE_M / f64::from(LINES);
    let mut coordinate = |line: u32| {
        let displaced = 0.5 + DISPLACEMENT * (2.0 * unit(&mut random) - 1.0);
        (f64::from(line) + displaced) * spacing_m
    };
    let nodes: Vec<(f64, f64)> = (0..LINES * LINES)
        .map(|node| (coordinate(node % LINES), coordinate(node / LINES)))
        .collect();
    let mut streets = Vec::new();
    for node in 0..LINES * LINES {
        if node % LINES + 1 < LINES {
            streets.push(Road { from: node, to: node + 1 });
        }
        if node / LINES + 1 < LINES {
            streets.push(Road { from: node, to: node + LINES });
        }
    }
    // Shuffles the streets (Fisher-Yates); otherwise the tree would consist of rows and columns.
    for place in (1..streets.len()).rev() {
        streets.swap(place, below(&mut random, place + 1));
    }
    let mut districts: Vec<u32> = (0..LINES * LINES).collect();
    streets.retain(|street| {
        let joins = join(&mut districts, street);
        unit(&mut random) >= MISSING || joins
    });
    Graph::new(nodes, &streets, (SPACE_M, SPACE_M))
}

/// Joins the districts of the ends of a street; false if they are the same (union-find with path
/// halving).
fn join(districts: &mut [u32], street: &Road) -> bool {
    let mut district = |mut node: u32| {
        while districts[node as usize] != node {
            let above = districts[districts[node as usize] as usize];
            districts[node as usize] = above;
            node = above;
        }
        node
    };
    let (one, other) = (district(street.from), district(street.to));
    districts[one as usize] = other;
    one != other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_city_is_connected_and_inside() {
        let graph = city(3);
        let nodes = (LINES * LINES) as usize;
        // 19,800 streets of the grid, 9,999 of them in the tree, a fifth of the rest missing.
        assert!((17_500..18_200).contains(&(graph.roads() / 2)), "{} roads", graph.roads());
        let mut districts: Vec<u32> = (0..LINES * LINES).collect();
        let joined =
            (0..graph.roads()).filter(|number| join(&mut districts, &graph.road(*number))).count();
        assert_eq!(joined, nodes - 1);
        assert!((0..nodes as u32).all(|node| {
            let (x, y) = graph.node(node);
            (0.0..=SPACE_M).contains(&x) && (0.0..=SPACE_M).contains(&y)
        }));
    }
}
