"""A Python client of Shoal, generated from the published protos; example and test.

Creates a fleet on a running server, reports, queries, provokes errors, receives an answer much
larger than one message, and deletes the fleet. Every step verifies its result: it prints a PASS
line or exits with code 1. Only the protos are specific to Shoal.
"""

import argparse
import atexit
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
import grpc_tools
from grpc_tools import protoc

PROTO_ROOT = Path(__file__).resolve().parents[2] / "proto" / "proto"
START_MS = 1_577_836_800_000  # 2020-01-01
SIDE_M = 100_000.0


def load_stubs():
    """Generates the client from the protos into a temporary folder."""
    folder = tempfile.mkdtemp(prefix="shoal-stubs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = sorted(str(path) for path in PROTO_ROOT.glob("shoal/v1/*.proto"))
    outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    # grpcio-tools contains the types of google.protobuf, grpcio-status google.rpc.Status.
    includes = [f"-I{PROTO_ROOT}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]
    if protoc.main(["protoc", *includes, *outputs, *files]) != 0:
        sys.exit("the protos could not be compiled")
    sys.path.insert(0, folder)
    from shoal.v1 import fleet_pb2, fleet_pb2_grpc, position_pb2, position_pb2_grpc
    from shoal.v1 import query_pb2, query_pb2_grpc

    return fleet_pb2, fleet_pb2_grpc, position_pb2, position_pb2_grpc, query_pb2, query_pb2_grpc


fleets, fleets_grpc, positions, positions_grpc, queries, queries_grpc = load_stubs()


def passed(what):
    print(f"PASS {what}", flush=True)


def place(index):
    """Start position of object `index`: a low-discrepancy sequence over the plane."""
    return (index * 0.7548776662 % 1.0) * SIDE_M, (index * 0.5698402910 % 1.0) * SIDE_M


def messages(fleet, objects, rows_a_message=10_000):
    """Reports every object once."""
    for first in range(0, objects, rows_a_message):
        request = positions.ReportRequest(fleet=fleet)
        for index in range(first, min(first + rows_a_message, objects)):
            x, y = place(index)
            request.rows.fixes.add(object=index, time_ms=START_MS, x=x, y=y, speed_mps=index % 50)
        yield request


def details(status):
    """Returns ErrorInfo and BadRequest of a google.rpc.Status; None for a missing one."""
    info, bad = None, None
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
    return info, bad


def refused(call, code):
    """Returns status, ErrorInfo and BadRequest of a call that must fail with `code`."""
    try:
        answer = call()
        if hasattr(answer, "__next__"):
            next(answer)
    except grpc.RpcError as error:
        assert error.code() == code, f"{error.code()}, expected {code}: {error.details()}"
        status = rpc_status.from_call(error)
        assert status is not None, "the error has no google.rpc.Status"
        return error, *details(status)
    raise AssertionError(f"the call succeeded, expected {code}")


def collect(stream):
    """Returns the header and rows of an answer; checks the invariants of every answer."""
    header, objects, fixes, distances, chunks = None, [], [], [], 0
    for chunk in stream:
        assert chunk.ByteSize() <= 1 << 20, f"a chunk of {chunk.ByteSize()} bytes"
        assert chunk.HasField("header") == (chunks == 0), "a header outside the first chunk"
        if chunk.HasField("header"):
            header = chunk.header
        objects.extend(chunk.objects)
        fixes.extend(chunk.fixes)
        distances.extend(getattr(chunk, "distance_m", []))
        chunks += 1
    assert header is not None, "no header"
    return header, objects, fixes, distances, chunks


class Client:
    def __init__(self, target, objects):
        # Default limits: 4 MiB per message.
        self.channel = grpc.insecure_channel(target)
        grpc.channel_ready_future(self.channel).result(timeout=10)
        self.fleets = fleets_grpc.FleetServiceStub(self.channel)
        self.positions = positions_grpc.PositionServiceStub(self.channel)
        self.queries = queries_grpc.QueryServiceStub(self.channel)
        self.objects = objects
        self.fleet = f"python-{os.getpid()}-{time.time_ns() % 1_000_000}"

    def options(self, projection=queries.PROJECTION_FIXES, **more):
        return queries.QueryOptions(fleet=self.fleet, projection=projection, **more)

    def health(self):
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01", "not serving"
        passed("the server reports serving")

    def create(self):
        plane = fleets.Space(planar=fleets.PlanarSpace(width_m=SIDE_M, height_m=SIDE_M))
        request = fleets.CreateFleetRequest(
            name=self.fleet, space=plane, clock=fleets.CLOCK_EVENT
        )
        created = self.fleets.CreateFleet(request).fleet
        assert created.name == self.fleet and created.object_count == 0
        listed, page = [], fleets.ListFleetsRequest(page_size=1)
        while True:
            response = self.fleets.ListFleets(page)
            listed.extend(fleet.name for fleet in response.fleets)
            if not response.next_page_token:
                break
            page.page_token = response.next_page_token
        assert self.fleet in listed and listed == sorted(listed)
        passed(f"fleet {self.fleet} created, engine {created.engine}")

    def report(self):
        started = time.monotonic()
        applied, last, token = 0, 0, b""
        for response in self.positions.Report(messages(self.fleet, self.objects)):
            ack = response.ack
            assert ack.first_message == last + 1, "acks out of order"
            last = ack.last_message
            applied += ack.rows.applied
            token = ack.token or token
            assert ack.rows.refused == 0 and ack.failed_messages == 0, ack
        assert applied == self.objects, f"{applied} of {self.objects} rows applied"
        seconds = time.monotonic() - started
        passed(f"{applied} rows reported over one stream and acknowledged in {seconds:.1f} s")
        return token

    def read_own_writes(self, token):
        options = self.options(queries.PROJECTION_COUNT, min_token=token)
        everywhere = queries.Region(
            rectangle=queries.Rectangle(west=0, south=0, east=SIDE_M, north=SIDE_M)
        )
        request = queries.RangeRequest(options=options, region=everywhere)
        header, *_ = collect(self.queries.Range(request))
        assert header.total == self.objects and header.clock_ms == START_MS
        passed(f"a query with the token includes all {header.total} objects at epoch {header.epoch}")

    def judge_rows(self):
        request = positions.ReportOnceRequest(fleet=self.fleet)
        good = dict(object=1_000_000_001, time_ms=START_MS, x=1.0, y=2.0)
        for change in [
            dict(),
            dict(object=1_000_000_002, x=math.nan),
            dict(object=1_000_000_003, y=-1.0),
            dict(object=1_000_000_004, time_ms=0),
            dict(object=1_000_000_005, heading_deg=360.0),
            dict(object=1_000_000_006, speed_mps=-1.0),
            dict(object=2**64 - 1),
        ]:
            request.rows.fixes.add(**{**good, **change})
        ack = self.positions.ReportOnce(request).ack
        assert (ack.rows.applied, ack.rows.refused) == (1, 6), ack
        found = [(row.row, row.field, row.reason) for row in ack.refused_rows]
        assert found == [
            (1, "x", positions.REFUSAL_REASON_NOT_FINITE),
            (2, "y", positions.REFUSAL_REASON_OUTSIDE_SPACE),
            (3, "time_ms", positions.REFUSAL_REASON_TIME_TOO_EARLY),
            (4, "heading_deg", positions.REFUSAL_REASON_HEADING),
            (5, "speed_mps", positions.REFUSAL_REASON_SPEED),
            (6, "object", positions.REFUSAL_REASON_OBJECT),
        ], found
        removed = self.positions.Remove(
            positions.RemoveRequest(fleet=self.fleet, objects=[1_000_000_001, 1_000_000_002])
        )
        assert (removed.removed_count, removed.missing_count) == (1, 1)
        passed("rows are validated one by one; removal counts existing objects")

    def retry(self):
        fix = positions.Fix(object=0, time_ms=START_MS + 1, x=5.0, y=5.0)
        request = positions.ReportOnceRequest(
            fleet=self.fleet, producer="example", batch_seq=1, rows=positions.Rows(fixes=[fix])
        )
        first = self.positions.ReportOnce(request).ack
        again = self.positions.ReportOnce(request).ack
        assert (first.duplicate_messages, again.duplicate_messages) == (0, 1)
        request.batch_seq = 3
        error, info, _ = refused(
            lambda: self.positions.ReportOnce(request), grpc.StatusCode.FAILED_PRECONDITION
        )
        assert (info.reason, info.metadata["expected"]) == ("OUT_OF_ORDER", "2")
        passed("a message sent twice is applied once; a skipped number is refused")

    def bad_message(self):
        def stream():
            yield positions.ReportRequest(fleet=self.fleet, block=b"no block at all")
            yield positions.ReportRequest(
                fleet=self.fleet,
                rows=positions.Rows(fixes=[positions.Fix(object=1, time_ms=START_MS, x=1, y=1)]),
            )

        failed, rows = [], 0
        for response in self.positions.Report(stream()):
            ack = response.ack
            failed.extend(ack.failed)
            rows += ack.rows.applied + ack.rows.duplicate + ack.rows.late
        assert len(failed) == 1 and failed[0].message == 1, failed
        assert rows == 1, "the stream did not continue"
        info, _ = details(failed[0].status)
        why = f"{info.reason}: {failed[0].status.message}"
        passed(f"a bad block fails alone ({why}), the stream continues")

    def query(self):
        options = self.options()
        header, objects, fixes, _, _ = collect(
            self.queries.Get(queries.GetRequest(options=options, objects=[7, 3, 3, 10**12]))
        )
        assert (header.total, objects) == (2, [3, 7])
        x, y = place(7)
        assert abs(fixes[1].x - x) <= 0.005 and abs(fixes[1].y - y) <= 0.005
        assert fixes[1].speed_mps == 7.0 and not fixes[1].HasField("heading_deg")

        circle = queries.Region(circle=queries.Circle(x=x, y=y, radius_m=3_000.0))
        _, objects, fixes, _, _ = collect(
            self.queries.Range(queries.RangeRequest(options=options, region=circle))
        )
        within = [math.hypot(fix.x - x, fix.y - y) for fix in fixes]
        assert 7 in objects and objects == sorted(objects) and max(within) <= 3_000.01

        triangle = queries.Polygon(rings=[queries.Ring(x=[0, SIDE_M, 0], y=[0, 0, SIDE_M])])
        slow = queries.Filter(speed_mps=queries.Interval(min=0, max=9))
        request = queries.RangeRequest(
            options=self.options(filter=slow), region=queries.Region(polygon=triangle)
        )
        _, objects, fixes, _, _ = collect(self.queries.Range(request))
        assert objects and all(fix.x + fix.y <= SIDE_M + 0.02 for fix in fixes)
        assert all(fix.speed_mps <= 9 for fix in fixes)

        near = queries.NearestRequest(options=options, x=x, y=y, k=5)
        header, objects, _, distances, _ = collect(self.queries.Nearest(near))
        assert objects[0] == 7 and len(objects) == 5 and distances == sorted(distances)
        near.distance_max_m = distances[2]
        header, nearer, _, _, _ = collect(self.queries.Nearest(near))
        assert nearer[:2] == objects[:2] and 2 <= header.total < 5

        parts = [queries.Polygon(rings=[queries.Ring(x=[0, w, w, 0], y=[0, 0, h, h])])
                 for w, h in ((SIDE_M, SIDE_M / 2), (SIDE_M / 2, SIDE_M))]
        regions = [queries.Region(polygon=part) for part in parts]
        regions.append(queries.Region(multi_polygon=queries.MultiPolygon(polygons=parts)))
        counted = self.queries.CountRegions(
            queries.CountRegionsRequest(fleet=self.fleet, regions=regions)
        )
        assert max(counted.counts[:2]) < counted.counts[2] < sum(counted.counts[:2])
        passed("get, circle, polygon with a filter, nearest and counts return the expected objects")

    def pages(self):
        request = queries.RangeRequest(
            options=self.options(queries.PROJECTION_IDS, limit=1_000),
            region=queries.Region(circle=queries.Circle(x=0, y=0, radius_m=SIDE_M / 4)),
        )
        listed, pages = [], 0
        while True:
            header, objects, *_ = collect(self.queries.Range(request))
            listed.extend(objects)
            pages += 1
            if not header.truncated:
                break
            request.options.after_object = objects[-1]
        request.options.limit = 0
        request.options.ClearField("after_object")
        assert listed == collect(self.queries.Range(request))[1]
        passed(f"{len(listed)} objects listed in {pages} pages")

    def batch(self):
        def one(**kind):
            return queries.BatchQuery(**kind)

        request = queries.BatchRequest(
            options=self.options(queries.PROJECTION_IDS),
            queries=[
                one(get=queries.GetQuery(objects=[3])),
                one(range=queries.Region(circle=queries.Circle(x=1, y=1, radius_m=-1))),
                one(nearest=queries.NearestQuery(x=1, y=1, k=2)),
            ],
        )
        results = {}
        for answer in self.queries.Batch(iter([request])):
            for result in answer.results:
                results[result.query] = result
        assert list(results[0].objects) == [3] and len(results[2].objects) == 2
        info, bad = details(results[1].error)
        assert bad.field_violations[0].field == "queries[1].range.circle.radius_m", bad
        passed(f"one query of a batch fails alone ({results[1].error.message})")

    def large_answer(self):
        everywhere = queries.Region(
            rectangle=queries.Rectangle(west=0, south=0, east=SIDE_M, north=SIDE_M)
        )
        started = time.monotonic()
        request = queries.RangeRequest(options=self.options(), region=everywhere)
        header, objects, fixes, _, chunks = collect(self.queries.Range(request))
        assert header.total == len(objects) == len(fixes) == self.objects
        assert objects == list(range(self.objects))
        seconds = time.monotonic() - started
        passed(f"{len(objects)} records in {chunks} chunks with default limits in {seconds:.1f} s")

    def refusals(self):
        unknown = queries.GetRequest(options=queries.QueryOptions(fleet="nobody"), objects=[1])
        error, info, _ = refused(lambda: self.queries.Get(unknown), grpc.StatusCode.NOT_FOUND)
        assert "nobody" in error.details() and info.domain == "shoal" and info.reason
        passed(f"unknown fleet: {error.details()} [{info.reason}]")

        line = queries.Polygon(rings=[queries.Ring(x=[0, 1], y=[0, 1])])
        request = queries.RangeRequest(options=self.options(), region=queries.Region(polygon=line))
        error, info, bad = refused(
            lambda: self.queries.Range(request), grpc.StatusCode.INVALID_ARGUMENT
        )
        assert info.reason and bad.field_violations[0].field, error
        violation = bad.field_violations[0]
        passed(f"polygon of two vertices: {violation.field}: {violation.description}")

        request = queries.NearestRequest(options=self.options(), x=0, y=0, k=5_000)
        error, *_ = refused(lambda: self.queries.Nearest(request), grpc.StatusCode.INVALID_ARGUMENT)
        passed(f"too many neighbours: {error.details()}")

        request = fleets.CreateFleetRequest(name="No Such Name!")
        error, *_ = refused(lambda: self.fleets.CreateFleet(request), grpc.StatusCode.INVALID_ARGUMENT)
        passed(f"bad name: {error.details()}")

        request = fleets.CreateFleetRequest(name=self.fleet)
        error, *_ = refused(lambda: self.fleets.CreateFleet(request), grpc.StatusCode.ALREADY_EXISTS)
        passed(f"name taken: {error.details()}")

    def delete(self):
        self.fleets.DeleteFleet(fleets.DeleteFleetRequest(name=self.fleet))
        request = fleets.GetFleetRequest(name=self.fleet)
        refused(lambda: self.fleets.GetFleet(request), grpc.StatusCode.NOT_FOUND)
        passed("the fleet is deleted")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", default="127.0.0.1:7117", help="HOST:PORT")
    parser.add_argument("--objects", type=int, default=300_000, help="size of the fleet")
    arguments = parser.parse_args()
    client = Client(arguments.target, arguments.objects)
    client.health()
    client.create()
    try:
        client.read_own_writes(client.report())
        client.query()
        client.pages()
        client.batch()
        client.large_answer()
        client.judge_rows()
        client.retry()
        client.bad_message()
        client.refusals()
    finally:
        client.delete()
    print("all passed")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"FAIL {error}")
