//! Hazard: a road network is read incorrectly from its files.
//!
//! A small network is read with both separators, objects are on its roads, and every fault is an
//! error with its location.

use std::path::Path;

use shoal_workload::{Fix, Params, Workload, WorkloadSpace, open};

const NODES: &str = "# id x y\n1 1000 2000\n2,4000,2000\n\n30\t4000 6000\n4 9000 2000\n";
const EDGES: &str = "1 1 2 3000\r\n2 2 30\r\n3,30,1,x\r\n9 4 2\r\n5 4 4\r\n";

fn opened(folder: &Path, nodes: &str, edges: &str) -> Result<Box<dyn Workload>, String> {
    std::fs::write(folder.join("town.node.txt"), nodes).unwrap();
    std::fs::write(folder.join("town.edge.txt"), edges).unwrap();
    let name = format!("network:{}", folder.join("town.node.txt").display());
    let params = Params { objects: 200, seed: 8, ..Params::default() };
    open(&name, &params).map_err(|error| error.to_string())
}

#[test]
fn objects_are_on_the_roads_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut workload = opened(folder.path(), NODES, EDGES).unwrap();
    let space = WorkloadSpace::Planar { width_m: 8_000.0, height_m: 4_000.0 };
    assert_eq!(workload.space(), space);
    let mut fixes: Vec<Fix> = Vec::new();
    workload.fill(5_000, &mut fixes);
    for fix in &fixes {
        let on_a_road = fix.y == 0.0
            || (fix.x - 3_000.0).abs() < 1e-9
            || (fix.y - fix.x * 4.0 / 3.0).abs() < 1e-9;
        assert!(on_a_road, "{fix:?}, seed 8");
    }
    let crossings = [(0.0, 0.0), (3_000.0, 0.0), (3_000.0, 4_000.0), (8_000.0, 0.0)];
    for fix in &fixes[200..] {
        assert!(crossings.contains(&(fix.x, fix.y)), "{fix:?}, seed 8");
    }
    let window = workload.window();
    assert!((window.east - window.west - 8.0).abs() < 1e-9, "{window:?}");
    assert!((window.north - window.south - 4.0).abs() < 1e-9, "{window:?}");
}

#[test]
fn faults_are_refused_with_their_location() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |nodes: &str, edges: &str| opened(folder.path(), nodes, edges).err().unwrap();
    for (nodes, edges, expected) in [
        ("1 0 0\n1 1 1\n", EDGES, "town.node.txt, line 2, id: `1` is not a new node"),
        ("1 0\n", EDGES, "town.node.txt, line 1, y: it is empty, not a number"),
        ("1 0 inf\n", EDGES, "town.node.txt, line 1, y: `inf` is not a finite number"),
        (NODES, "1 1 3\n", "town.edge.txt, line 1, to: `3` is not a node of the network"),
        (NODES, "1 1\n", "town.edge.txt, line 1, to: it is empty, not an integer in range"),
        (NODES, "1 1 1\n", "town.edge.txt: no edge joins two different nodes"),
        (NODES, "", "town.edge.txt: no edge joins two different nodes"),
    ] {
        let refusal = refusal(nodes, edges);
        assert!(refusal.contains(expected), "{refusal}");
    }
    std::fs::remove_file(folder.path().join("town.edge.txt")).unwrap();
    let name = format!("network:{}", folder.path().join("town.node.txt").display());
    let refusal = open(&name, &Params::default()).err().unwrap().to_string();
    assert!(refusal.contains("town.edge.txt: "), "{refusal}");
}
