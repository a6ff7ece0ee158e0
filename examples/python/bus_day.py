#!/usr/bin/env python3
"""Opens an export of the history in DuckDB and GeoPandas, and draws a day of buses.

    shoal history import sample/bus_austin.csv.gz
    shoal history export day.parquet --from 2016-11-26T06:00:00Z --to 2016-11-27T06:00:00Z
    python bus_day.py day.parquet day.png

Needs no server: it reads the file. Both libraries read it on their own, and the script compares
what they found.
"""

import argparse
import sys

import duckdb
import geopandas
import matplotlib
import pandas

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection

# The centre of Austin: west, south, east, north.
CENTRE = (-97.755, 30.255, -97.725, 30.29)
# A bus that was silent for longer is not joined to its next position by a line.
GAP = pandas.Timedelta(minutes=10)


def with_duckdb(file):
    """Counts without loading the file: DuckDB skips row groups by the statistics of `bbox`."""
    connection = duckdb.connect()
    connection.execute(f"create view fixes as from read_parquet('{file}')")
    west, south, east, north = CENTRE
    connection.execute(f"""create view centre as from fixes
        where bbox.xmin between {west} and {east} and bbox.ymin between {south} and {north}""")
    print(connection.sql("""select count(*) fixes, count(distinct object_id) buses,
        min(epoch_ms(time)) first_ms, max(epoch_ms(time)) last_ms from fixes"""))
    print("in the centre, the fastest buses:")
    print(connection.sql("""select object_id, count(*) fixes, round(avg(speed), 2) speed_m_s
        from centre group by object_id having fixes >= 20 order by speed_m_s desc limit 5"""))
    # UTC is 6 hours ahead of local time.
    hours = connection.sql("""select (epoch_ms(time) // 3600000 + 18) % 24 as hour,
        count(distinct object_id) buses from fixes group by hour order by hour""").fetchall()
    return connection.sql("select count(*) from centre").fetchall()[0][0], hours


def with_geopandas(file):
    """Loads the fixes; a box uses the covering `bbox` as well."""
    centre = geopandas.read_parquet(file, bbox=CENTRE)
    fixes = geopandas.read_parquet(file).sort_values(["object_id", "time"])
    assert fixes.crs is None or fixes.crs == "OGC:CRS84", fixes.crs
    return len(centre), fixes


def draw(fixes, hours, file):
    """The lines of all buses, coloured by speed, and the buses on the road by hour."""
    figure, (map_axes, hour_axes) = plt.subplots(
        1, 2, figsize=(13, 8), width_ratios=[2, 1], layout="constrained")
    points = fixes.geometry.get_coordinates().to_numpy()
    same_bus = fixes["object_id"].to_numpy()[1:] == fixes["object_id"].to_numpy()[:-1]
    joined = same_bus & (fixes["time"].diff().to_numpy()[1:] <= GAP)
    lines = LineCollection(list(zip(points[:-1][joined], points[1:][joined])), linewidths=0.5,
                           cmap="viridis", alpha=0.6)
    lines.set_array(fixes["speed"].to_numpy()[1:][joined])
    lines.set_clim(0, 25)
    map_axes.add_collection(lines)
    map_axes.autoscale()
    # A degree of longitude is shorter than one of latitude.
    map_axes.set_aspect(1 / 0.864)
    west, south, east, north = CENTRE
    map_axes.add_patch(plt.Rectangle((west, south), east - west, north - south, fill=False))
    map_axes.set(title=f"{len(fixes):,} positions of {fixes['object_id'].nunique()} buses",
                 xlabel="longitude", ylabel="latitude")
    figure.colorbar(lines, ax=map_axes, label="speed, m/s", shrink=0.6)
    hour_axes.barh([hour for hour, _ in hours], [buses for _, buses in hours])
    hour_axes.set(title="buses by hour", xlabel="buses", ylabel="hour, local time")
    hour_axes.invert_yaxis()
    figure.savefig(file, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", help="GeoParquet file of `shoal history export`")
    parser.add_argument("picture", help="PNG file to write")
    arguments = parser.parse_args()
    in_duckdb, hours = with_duckdb(arguments.export)
    in_geopandas, fixes = with_geopandas(arguments.export)
    if in_duckdb != in_geopandas:
        sys.exit(f"FAIL {in_duckdb} fixes in the centre in DuckDB, {in_geopandas} in GeoPandas")
    print(f"PASS both find {in_duckdb} fixes in the centre")
    draw(fixes, hours, arguments.picture)
    print(f"PASS {arguments.picture}")


if __name__ == "__main__":
    main()
