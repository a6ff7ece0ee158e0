"""Asks DuckDB, chDB and PostGIS the questions of `shoal-bench history`, in the same run.

Usage: history_peers.py SHOAL_BENCH [--server SHOAL] [--peers duckdb,chdb,postgis] [--work DIR]
           [--json FILE] [--runs N] [-- FLAGS OF shoal-bench history]

shoal-bench builds the past, exports its rows through a pipe and answers the questions. With
--server, `SHOAL serve --history` gets the rows by `SHOAL history import` and is asked in its stead,
over gRPC from this process: its times contain the network and the messages in Python. The rows
become one Parquet file in the order of the runs (partition, Hilbert cell of the object, object,
time; row groups of 122,880 rows with statistics; zstd), which DuckDB and chDB read, or a table of
PostGIS with an index by (object, time), one by place and one by time. Every system has all cores,
warm caches, and returns whole rows where shoal does. All questions of a kind are asked once
untimed, then N times one after another; the median of its times counts. A wrong answer ends the
run.

Needs the packages numpy, pyarrow, duckdb, chdb and psycopg2-binary, with --server also grpcio and
grpcio-tools; PostGIS also the server's programs (Debian: postgresql-15-postgis-3), which run as user
`postgres` when this is root.
"""

import argparse
import contextlib
import glob
import importlib
import json
import os
import pwd
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

COLUMNS = [
    ("object", "<u8"),
    ("time_ms", "<i8"),
    ("x", "<i4"),
    ("y", "<i4"),
    ("speed", "<u4"),
    ("heading", "<u2"),
]
# Maximum number of questions of each kind, because some systems are slow.
QUESTIONS_MAX = {"trajectory": 20, "passed": 20, "as-of": 5, "filter": 5, "region": 5}
CORES = len(os.sched_getaffinity(0))


def groups(pipe):
    """The groups of rows of an export, as dictionaries of columns."""
    while head := pipe.read(4):
        rows = int.from_bytes(head, "little")
        yield {
            name: np.frombuffer(pipe.read(rows * np.dtype(kind).itemsize), kind)
            for name, kind in COLUMNS
        }


class Parquet:
    """The rows as one file."""

    def __init__(self, path):
        types = {"<u8": pa.uint64(), "<i8": pa.int64(), "<i4": pa.int32(), "<u4": pa.uint32()}
        types["<u2"] = pa.uint16()
        self.schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS])
        self.path = path
        self.writer = pq.ParquetWriter(
            path, self.schema, compression="zstd", write_statistics=True, use_dictionary=True
        )

    def add(self, group):
        self.writer.write_table(pa.table(group, self.schema), row_group_size=len(group["object"]))

    def finish(self):
        self.writer.close()


class Sql:
    """The questions as SQL for analytic systems; each returns its rows as columns."""

    def __init__(self, source, newest):
        self.source, self.newest = source, newest

    def text(self, q):
        rows, window = self.source, "time_ms BETWEEN {from_ms} AND {to_ms}"
        kinds = {
            "trajectory": f"SELECT * FROM {rows} WHERE object = {{object}} AND {window}"
            " ORDER BY time_ms",
            "as-of": f"SELECT object, {self.newest} FROM {rows} WHERE time_ms <= {{time_ms}}"
            " GROUP BY object",
            "passed": f"SELECT DISTINCT object FROM {rows} WHERE {window}"
            " AND x BETWEEN {x} - {radius} AND {x} + {radius}"
            " AND y BETWEEN {y} - {radius} AND {y} + {radius}"
            " AND (x - CAST({x} AS BIGINT)) * (x - CAST({x} AS BIGINT))"
            " + (y - CAST({y} AS BIGINT)) * (y - CAST({y} AS BIGINT))"
            " <= CAST({radius} AS BIGINT) * {radius}",
            "filter": f"SELECT count(*) AS count FROM {rows}"
            " WHERE speed BETWEEN {low} AND {high}",
            "region": f"SELECT count(*) AS count FROM {rows} WHERE {window}"
            " AND x BETWEEN {x[0]} AND {x[1]} AND y BETWEEN {y[0]} AND {y[1]}",
        }
        return kinds[q["kind"]].format(**q)


def answer(kind, columns):
    """Count and sum as shoal-bench states them."""
    if kind in ("filter", "region"):
        return int(columns["count"][0]), 0
    values = columns["object" if kind == "passed" else "x"]
    return len(values), int(np.sum(values.astype(np.int64)))


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Shoal:
    """A server of its own in the space of the workloads, stopped at the end."""

    name = "shoal"
    SIDE_M, QUANTUM_M = 1_000_000, 0.01
    PROTOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "proto", "proto")

    def __init__(self, program, work):
        from grpc_tools import protoc

        files = [f"shoal/v1/{name}.proto" for name in ("fleet", "query", "history")]
        files += ["shoal/v1/error.proto", "google/rpc/status.proto"]
        out = [f"--python_out={work}", f"--grpc_python_out={work}"]
        well_known = os.path.join(os.path.dirname(protoc.__file__), "_proto")
        if protoc.main(["protoc", f"-I{self.PROTOS}", f"-I{well_known}", *out, *files]):
            sys.exit("the protos do not compile")
        sys.path.insert(0, work)
        self.query, self.fleet, self.history = (
            importlib.import_module(f"shoal.v1.{name}_pb2")
            for name in ("query", "fleet", "history")
        )
        self.version = subprocess.check_output([program, "--version"], text=True).split()[-1]
        self.program, self.work = program, work
        self.server = self.importer = None

    def start(self):
        # grpc's fork handlers break the start of subprocesses.
        os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
        import grpc

        services = [
            importlib.import_module(f"shoal.v1.{name}_pb2_grpc") for name in ("fleet", "history")
        ]
        address = f"127.0.0.1:{free_port()}"
        space = f"planar:{self.SIDE_M}x{self.SIDE_M}:{self.QUANTUM_M}"
        serve = ["serve", "--listen", address, "--space", space, "--engine", "cpu"]
        serve += ["--data", os.path.join(self.work, "shoal-data"), "--history", "--log", "warn"]
        self.server = subprocess.Popen([self.program, *serve])
        channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(channel).result(timeout=60)
        self.fleets = services[0].FleetServiceStub(channel)
        self.past = services[1].HistoryServiceStub(channel)
        columns = ["object_id", "t_ms", "lon", "lat", "speed", "heading"]
        schema = pa.schema([(name, pa.float64()) for name in columns[2:]])
        self.schema = pa.schema([("object_id", pa.uint64()), ("t_ms", pa.int64()), *schema])
        target = ["--target", f"http://{address}", "--encoding", "block"]
        self.importer = subprocess.Popen(
            [self.program, "history", "import", *target, "-"], stdin=subprocess.PIPE
        )
        # `import` does not parse quotes, which the CSV writer puts around column names.
        self.importer.stdin.write((",".join(columns) + "\n").encode())
        options = csv.WriteOptions(include_header=False)
        self.csv = csv.CSVWriter(self.importer.stdin, self.schema, write_options=options)

    def add(self, group):
        places = [group[name] * self.QUANTUM_M for name in ("x", "y")]
        motion = [group["speed"] / 1e3, group["heading"] / 1e2]
        rows = [group["object"], group["time_ms"], *places, *motion]
        self.csv.write_batch(pa.record_batch([pa.array(each) for each in rows], self.schema))

    def finish(self):
        """Waits until the rows are in and nothing is merged any more."""
        self.csv.close()
        self.importer.stdin.close()
        if self.importer.wait():
            sys.exit("the import failed")
        known, quiet = None, 0
        while quiet < 10:
            time.sleep(1)
            state = self.state()
            if state.problem:
                sys.exit(f"the history has stopped: {state.problem}")
            now = (state.merge_count, state.run_count, state.byte_count)
            quiet = quiet + 1 if now == known and not state.backlog_byte_count else 0
            known = now
        per_fix = state.byte_count / state.fix_count
        print(f"# {state.fix_count} fixes in {state.run_count} runs, {per_fix:.3f} bytes a fix")

    def state(self):
        request = self.fleet.GetFleetRequest(name="default")
        return self.fleets.GetFleet(request).fleet.history

    def quanta(self, metres):
        return np.rint(np.array(metres) / self.QUANTUM_M).astype(np.int64)

    def ask(self, q):
        window = None
        if "from_ms" in q:
            window = self.history.TimeWindow(from_ms=q["from_ms"], to_ms=q["to_ms"])
        return getattr(self, q["kind"].replace("-", "_"))(q, window)

    def of_fixes(self, chunks):
        x = [fix.x for chunk in chunks for fix in chunk.fixes]
        return len(x), int(self.quanta(x).sum())

    def trajectory(self, q, window):
        request = self.history.TrajectoryRequest(objects=[q["object"]], window=window)
        return self.of_fixes(self.past.Trajectory(request))

    def as_of(self, q, _):
        return self.of_fixes(self.past.AsOf(self.history.AsOfRequest(time_ms=q["time_ms"])))

    def passed(self, q, window):
        x, y, radius = (q[name] * self.QUANTUM_M for name in ("x", "y", "radius"))
        region = self.query.Region(circle=self.query.Circle(x=x, y=y, radius_m=radius))
        request = self.history.PassedRequest(region=region, window=window)
        objects = [part for chunk in self.past.Passed(request) for part in chunk.objects]
        return len(objects), sum(objects)

    def counted(self, **conditions):
        """All fixes are in one square."""
        request = self.history.DensityRequest(cell=self.SIDE_M * 2, **conditions)
        return sum(sum(chunk.fixes) for chunk in self.past.Density(request)), 0

    def filter(self, q, _):
        speeds = self.query.Interval(min=q["low"] / 1e3, max=q["high"] / 1e3)
        always = self.history.TimeWindow(from_ms=-(1 << 63), to_ms=(1 << 63) - 1)
        return self.counted(filter=self.query.Filter(speed_mps=speeds), window=always)

    def region(self, q, window):
        (west, east), (south, north) = ([at * self.QUANTUM_M for at in q[side]] for side in "xy")
        sides = self.query.Rectangle(west=west, east=east, south=south, north=north)
        return self.counted(region=self.query.Region(rectangle=sides), window=window)

    def close(self):
        for process in filter(None, (self.importer, self.server)):
            process.terminate()
            process.wait()


class DuckDb:
    name = "duckdb"

    def __init__(self, path, _):
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {CORES}")
        self.connection.execute("SET enable_object_cache = true")
        self.connection.execute("SET enable_progress_bar = false")
        newest = ", ".join(f"arg_max({name}, time_ms) AS {name}" for name, _ in COLUMNS[1:])
        self.sql = Sql(f"read_parquet('{path}')", newest)
        self.version = duckdb.__version__

    def ask(self, q):
        return answer(q["kind"], self.connection.execute(self.sql.text(q)).fetchnumpy())

    def close(self):
        self.connection.close()


class ChDb:
    name = "chdb"

    def __init__(self, path, work):
        import chdb
        from chdb import session

        self.session = session.Session(os.path.join(work, "chdb"))
        self.session.query(f"SET max_threads = {CORES}")
        newest = ", ".join(f"argMax({name}, time_ms) AS {name}" for name, _ in COLUMNS[1:])
        # An alias would shadow the column in the condition.
        newest = newest.replace("AS time_ms", "AS newest_ms")
        self.sql = Sql(f"file('{path}', Parquet)", newest)
        self.version = chdb.__version__

    def ask(self, q):
        result = self.session.query(self.sql.text(q), "Arrow")
        table = pa.ipc.open_file(pa.BufferReader(result.bytes())).read_all()
        return answer(q["kind"], {name: table[name].to_numpy() for name in table.column_names})

    def close(self):
        self.session.close()


class PostGis:
    """A server of its own on a free port, stopped at the end."""

    name = "postgis"
    TABLE = (
        "CREATE UNLOGGED TABLE fixes (object bigint, time_ms bigint, x integer, y integer,"
        " speed bigint, heading integer, place geometry(Point))"
    )

    def __init__(self, work):
        found = glob.glob("/usr/lib/postgresql/*/bin/initdb") or [shutil.which("initdb")]
        if not found[-1]:
            sys.exit("PostGIS: no initdb; install postgresql-15-postgis-3 or leave out the peer")
        self.programs = os.path.dirname(found[-1])
        self.folder = os.path.join(work, "postgres")
        os.makedirs(self.folder)
        self.user = {}
        if os.getuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chmod(work, 0o755)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.user = {"user": account.pw_uid, "group": account.pw_gid}
        self.program("initdb", "-D", self.folder, "-U", "bench", "-A", "trust", "--no-sync")
        port = free_port()
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "shared_buffers": "4GB",
            "work_mem": "512MB",
            "maintenance_work_mem": "2GB",
            "effective_cache_size": "8GB",
            "max_parallel_workers_per_gather": CORES - 1,
            "max_wal_size": "4GB",
            "fsync": "off",
            "random_page_cost": "1.1",
        }
        flags = [word for item in settings.items() for word in ("-c", "{}={}".format(*item))]
        self.server = subprocess.Popen(
            [os.path.join(self.programs, "postgres"), "-D", self.folder, *flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            **self.user,
        )
        import psycopg2

        self.connection = self.connected(psycopg2, port)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("CREATE EXTENSION postgis")
        self.cursor.execute("SELECT postgis_lib_version()")
        self.version = self.cursor.fetchone()[0]
        self.cursor.execute(self.TABLE)

    def program(self, name, *flags):
        program = os.path.join(self.programs, name)
        run = {"check": True, "stdout": subprocess.DEVNULL, "cwd": self.folder}
        subprocess.run([program, *flags], **run, **self.user)

    def connected(self, psycopg2, port):
        to = {"host": "127.0.0.1", "port": port, "user": "bench", "dbname": "postgres"}
        for _ in range(100):
            with contextlib.suppress(psycopg2.OperationalError):
                return psycopg2.connect(**to)
            time.sleep(0.1)
        sys.exit("PostGIS: the server does not start")

    def add(self, group):
        """Copies rows in the binary form: each field with its length, places as EWKB."""
        import io

        fields = [("object", ">i8"), ("time_ms", ">i8"), ("x", ">i4"), ("y", ">i4")]
        fields += [("speed", ">i8"), ("heading", ">i4")]
        layout = [("count", ">i2")]
        for name, kind in fields:
            layout += [(name + "_bytes", ">i4"), (name, kind)]
        layout += [("place_bytes", ">i4"), ("order", "u1"), ("type", "<u4")]
        layout += [("place_x", "<f8"), ("place_y", "<f8")]
        rows = np.zeros(len(group["object"]), dtype=layout)
        rows["count"] = len(fields) + 1
        for name, kind in fields:
            rows[name + "_bytes"] = np.dtype(kind).itemsize
            rows[name] = group[name]
        rows["place_bytes"], rows["order"], rows["type"] = 21, 1, 1
        rows["place_x"], rows["place_y"] = group["x"], group["y"]
        data = b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff"
        self.cursor.copy_expert("COPY fixes FROM STDIN BINARY", io.BytesIO(data))

    def finish(self):
        for index in ("(object, time_ms)", "(time_ms)", "USING gist (place)"):
            self.cursor.execute(f"CREATE INDEX ON fixes {index}")
        self.cursor.execute("VACUUM ANALYZE fixes")

    def ask(self, q):
        whole = "object, time_ms, x, y, speed, heading"
        window = "time_ms BETWEEN {from_ms} AND {to_ms}"
        kinds = {
            "trajectory": f"SELECT {whole} FROM fixes WHERE object = {{object}} AND {window}"
            " ORDER BY time_ms",
            # The next object by the index, then its newest fix by the index.
            "as-of": "WITH RECURSIVE next(object) AS (SELECT min(object) FROM fixes UNION ALL"
            " SELECT (SELECT min(object) FROM fixes WHERE object > next.object) FROM next"
            " WHERE object IS NOT NULL) SELECT newest.* FROM next, LATERAL"
            f" (SELECT {whole} FROM fixes WHERE object = next.object AND time_ms <= {{time_ms}}"
            " ORDER BY time_ms DESC LIMIT 1) AS newest",
            "passed": f"SELECT DISTINCT object FROM fixes WHERE {window}"
            " AND ST_DWithin(place, ST_MakePoint({x}, {y}), {radius})",
            "filter": "SELECT count(*) FROM fixes WHERE speed BETWEEN {low} AND {high}",
            "region": f"SELECT count(*) FROM fixes WHERE {window}"
            " AND place && ST_MakeEnvelope({x[0]}, {y[0]}, {x[1]}, {y[1]})",
        }
        self.cursor.execute(kinds[q["kind"]].format(**q))
        rows = self.cursor.fetchall()
        if q["kind"] in ("filter", "region"):
            return rows[0][0], 0
        return len(rows), sum(row[0 if q["kind"] == "passed" else 2] for row in rows)

    def close(self):
        self.connection.close()
        self.server.terminate()
        self.server.wait()


def ask_all(peer, questions, runs):
    """The median times of a peer by kind, milliseconds."""
    kinds = {}
    for q in questions:
        kinds.setdefault(q["kind"], []).append(q)
    times = {}
    for kind, asked in kinds.items():
        asked = asked[: QUESTIONS_MAX[kind]]
        taken = [[] for _ in asked]
        for run in range(runs + 1):
            for number, q in enumerate(asked):
                start = time.perf_counter()
                found = peer.ask(q)
                if run > 0:
                    taken[number].append((time.perf_counter() - start) * 1e3)
                if found != (q["count"], q["sum"]):
                    sys.exit(f"{peer.name} answers {found} to {q}")
        times[kind] = [statistics.median(each) for each in taken]
    return times


def main():
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("shoal_bench")
    parser.add_argument("--server", metavar="SHOAL", help="ask `SHOAL serve` for shoal's times")
    parser.add_argument("--peers", default="duckdb,chdb")
    parser.add_argument("--work", help="parent of the temporary folder")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--runs", type=int, default=3)
    # Arguments after -- are flags of shoal-bench.
    own, _, flags = "\0".join(sys.argv[1:]).partition("\0--\0")
    options = parser.parse_args(own.split("\0"))
    peers = options.peers.split(",")
    work = tempfile.mkdtemp(prefix="history-peers-", dir=options.work)
    opened = []
    try:
        answers = os.path.join(work, "answers.json")
        pipe, end = os.pipe()
        command = [options.shoal_bench, "history", "--export", f"/dev/fd/{end}"]
        command += ["--answers", answers]
        # With a server, shoal-bench supplies only the expected answers, not the times.
        command += ["--passes", "1" if options.server else str(options.runs)]
        command += flags.split("\0") * bool(flags)
        shoal = subprocess.Popen(command, pass_fds=[end])
        os.close(end)
        parquet = os.path.join(work, "fixes.parquet")
        takers = [Parquet(parquet)] if {"duckdb", "chdb"} & set(peers) else []
        if options.server:
            opened.append(Shoal(options.server, work))
            opened[-1].start()
        if "postgis" in peers:
            opened.append(PostGis(work))
        takers += opened
        rows = 0
        with open(pipe, "rb") as source:
            for group in groups(source):
                rows += len(group["object"])
                for taker in takers:
                    taker.add(group)
        # shoal-bench now runs its questions alone; the peers build their indexes afterwards.
        if shoal.wait():
            sys.exit("shoal-bench failed")
        for taker in takers:
            taker.finish()
        if os.path.exists(parquet):
            size = os.path.getsize(parquet)
            print(f"\n# {rows} rows; Parquet {size} bytes, {size / rows:.3f} a row")
            with open(parquet, "rb") as file:
                while file.read(1 << 24):
                    pass
        with open(answers, encoding="utf-8") as file:
            questions = json.load(file)
        results = []
        if options.server:
            version, shoal_times = opened[0].version, ask_all(opened[0], questions, options.runs)
            opened.pop(0).close()
        else:
            version, shoal_times = "", {}
            for q in questions:
                shoal_times.setdefault(q["kind"], []).append(q["ms"])
        report(results, "shoal", version, shoal_times, rows, shoal_times)
        for kind in (DuckDb, ChDb):
            if kind.name in peers:
                peer = kind(parquet, work)
                times = ask_all(peer, questions, options.runs)
                report(results, kind.name, peer.version, times, rows, shoal_times)
                peer.close()
        for peer in opened:
            times = ask_all(peer, questions, options.runs)
            report(results, peer.name, peer.version, times, rows, shoal_times)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=2)
    finally:
        for peer in opened:
            peer.close()
        shutil.rmtree(work, ignore_errors=True)


def report(results, name, version, times, rows, shoal_times):
    """Prints and keeps the times of a system, and how many times longer it takes than shoal."""
    for kind, taken in times.items():
        median, shoal = statistics.median(taken), statistics.median(shoal_times[kind])
        last = sorted(taken)[min(len(taken) - 1, len(taken) * 99 // 100)]
        row = {"system": name, "version": version, "kind": kind, "rows": rows}
        row |= {"questions": len(taken), "p50_ms": median, "p99_ms": last, "ratio": median / shoal}
        results.append(row)
        print(
            f"{name:>8} {version:>8} {kind:>10} {len(taken):>4} asked"
            f" p50 {median:10.3f} ms  p99 {last:10.3f} ms  {median / shoal:8.1f} times",
            flush=True,
        )


if __name__ == "__main__":
    main()
