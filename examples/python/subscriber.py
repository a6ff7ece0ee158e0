#!/usr/bin/env python3
"""A Python subscriber of Shoal, generated from the protos.

Creates a fleet, subscribes to a circle and to the whole plane, reports moving objects, and tracks
the members of both regions from events alone. Breaks its stream several times and resumes it with
the token, changes a region, and compares its members with a range query. Every step verifies its
result: it prints a PASS line or exits with code 1.

The class Subscriber can be reused in other clients.
"""

import argparse
import math
import os
import sys
import time

import grpc

from fleet_client import (
    START_MS,
    collect,
    fleets,
    fleets_grpc,
    passed,
    positions,
    positions_grpc,
    queries,
    queries_grpc,
    refused,
)
from shoal.v1 import subscription_pb2 as subscriptions
from shoal.v1 import subscription_pb2_grpc as subscriptions_grpc

SIDE_M = 10_000.0
LEAVES = [
    subscriptions.EVENT_KIND_LEFT,
    subscriptions.EVENT_KIND_REMOVED,
    subscriptions.EVENT_KIND_EXPIRED,
    subscriptions.EVENT_KIND_FILTERED,
    subscriptions.EVENT_KIND_REGION_CHANGED,
    subscriptions.EVENT_KIND_CLEARED,
]


class Subscriber:
    """Tracks the members of its regions; `next` applies one message."""

    def __init__(self, stub, fleet, regions):
        self.stub, self.fleet, self.regions = stub, fleet, regions
        self.token, self.session = b"", b""
        self.last, self.epoch, self.gaps = 0, 0, 0
        self.members = {}
        self.stream = None
        self.open()

    def open(self):
        """Opens or resumes a session; a resumption uses the regions only if the session ended."""
        if self.stream is not None:
            self.stream.cancel()
        self.stream = self.stub.Subscribe(
            subscriptions.SubscribeRequest(
                fleet=self.fleet, regions=self.regions, resume_token=self.token
            )
        )
        opened = next(self.stream).opened
        self.session = opened.session
        return opened

    def next(self):
        message = next(self.stream)
        if message.first_sequence:
            assert message.first_sequence == self.last + 1, "messages were lost or repeated"
            self.last = message.last_sequence
        kind = message.WhichOneof("kind")
        if kind == "snapshot":
            for piece in message.snapshot.regions:
                if piece.first:
                    self.members[piece.region_id] = set()
                self.members[piece.region_id].update(piece.objects)
        elif kind == "events":
            for of in message.events.regions:
                held = self.members.setdefault(of.region_id, set())
                for object, event in zip(of.objects, of.kinds, strict=True):
                    if event in LEAVES:
                        held.discard(object)
                    elif event != subscriptions.EVENT_KIND_CROSS:
                        held.add(object)
        elif kind == "gap":
            # Snapshots follow.
            self.gaps += 1
            self.last = message.gap.next_sequence - 1
        # After processing: the token covers all messages up to here.
        self.token = message.resume_token
        if message.epoch_done:
            self.epoch = (
                message.progress.epoch if kind == "progress" else getattr(message, kind).epoch
            )
        return message

    def until(self, epoch):
        while self.epoch < epoch:
            self.next()

    def modify(self, **changes):
        request = subscriptions.ModifyRequest(fleet=self.fleet, session=self.session, **changes)
        return self.stub.Modify(request)


class Wanderers:
    """A fleet of objects that move in circles."""

    def __init__(self, target, objects):
        self.channel = grpc.insecure_channel(target)
        grpc.channel_ready_future(self.channel).result(timeout=10)
        self.fleets = fleets_grpc.FleetServiceStub(self.channel)
        self.positions = positions_grpc.PositionServiceStub(self.channel)
        self.queries = queries_grpc.QueryServiceStub(self.channel)
        self.subscriptions = subscriptions_grpc.SubscriptionServiceStub(self.channel)
        self.fleet = f"subscriber-{os.getpid()}-{time.time_ns() % 1_000_000}"
        self.objects, self.round = objects, 0
        plane = fleets.Space(planar=fleets.PlanarSpace(width_m=SIDE_M, height_m=SIDE_M))
        self.fleets.CreateFleet(
            fleets.CreateFleetRequest(name=self.fleet, space=plane, clock=fleets.CLOCK_EVENT)
        )

    def report(self):
        """Moves every object; returns the acknowledgement."""
        self.round += 1
        request = positions.ReportOnceRequest(fleet=self.fleet)
        for object in range(self.objects):
            angle = object * 2.4 + self.round * 0.05
            radius = SIDE_M * (0.1 + 0.35 * (object * 0.7548776662 % 1.0))
            request.rows.fixes.add(
                object=object,
                time_ms=START_MS + self.round * 1000,
                x=SIDE_M / 2 + radius * math.cos(angle),
                y=SIDE_M / 2 + radius * math.sin(angle),
            )
        return self.positions.ReportOnce(request).ack

    def inside(self, region, token):
        options = queries.QueryOptions(fleet=self.fleet, min_token=token)
        request = queries.RangeRequest(options=options, region=region)
        return set(collect(self.queries.Range(request))[1])


def circle(x, y, radius_m):
    return queries.Region(circle=queries.Circle(x=x, y=y, radius_m=radius_m))


def run(wanderers):
    everything = queries.Region(
        rectangle=queries.Rectangle(west=0, south=0, east=SIDE_M, north=SIDE_M)
    )
    stop = circle(7_000, 5_000, 800)
    wanderers.report()
    enter_and_leave = [subscriptions.EVENT_KIND_ENTER, *LEAVES]
    subscriber = Subscriber(
        wanderers.subscriptions,
        wanderers.fleet,
        [
            subscriptions.RegionSubscription(
                region_id=1, region=stop, events=enter_and_leave, snapshot=True
            ),
            subscriptions.RegionSubscription(region_id=2, region=everything, snapshot=True),
        ],
    )
    while len(subscriber.members) < 2:
        subscriber.next()
    assert len(subscriber.members[2]) == wanderers.objects
    passed(f"subscribed: {len(subscriber.members[1])} of {wanderers.objects} are at the stop")

    for _ in range(50):
        ack = wanderers.report()
        subscriber.until(ack.epoch)
    assert subscriber.members[1] == wanderers.inside(stop, ack.token)
    passed(f"after {subscriber.last} messages the members equal a query's result")

    for _ in range(20):
        wanderers.report()
        subscriber.next()
        assert subscriber.open().resumed, "the session has ended"
    ack = wanderers.report()
    subscriber.until(ack.epoch)
    assert subscriber.gaps == 0
    assert subscriber.members[1] == wanderers.inside(stop, ack.token)
    passed("20 broken streams resumed without loss or repetition")

    further = circle(3_000, 5_000, 800)
    moved = subscriptions.RegionSubscription(region_id=1, region=further, events=enter_and_leave)
    wrong = subscriptions.RegionSubscription(region_id=3, region=circle(0, 0, -1))
    changed = subscriber.modify(change=[moved], add=[wrong], remove=[2])
    assert [error.region_id for error in changed.errors] == [3]
    ack = wanderers.report()
    subscriber.until(ack.epoch)
    assert subscriber.members[1] == wanderers.inside(further, ack.token)
    passed(f"from epoch {changed.epoch} on the stop has moved; {changed.errors[0].status.message}")

    forged = bytearray(subscriber.token)
    forged[20] ^= 1
    request = subscriptions.SubscribeRequest(fleet=wanderers.fleet, resume_token=bytes(forged))
    error, info, _ = refused(
        lambda: wanderers.subscriptions.Subscribe(request), grpc.StatusCode.INVALID_ARGUMENT
    )
    passed(f"forged token: {error.details()} [{info.reason}]")

    subscriber.modify(close=True)
    assert not [message for message in subscriber.stream if message.HasField("events")]
    passed("the session is closed and its stream ended without error")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", default="127.0.0.1:7117", help="HOST:PORT")
    parser.add_argument("--objects", type=int, default=2_000, help="size of the fleet")
    arguments = parser.parse_args()
    wanderers = Wanderers(arguments.target, arguments.objects)
    try:
        run(wanderers)
    finally:
        wanderers.fleets.DeleteFleet(fleets.DeleteFleetRequest(name=wanderers.fleet))
    print("all passed")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"FAIL {error}")
