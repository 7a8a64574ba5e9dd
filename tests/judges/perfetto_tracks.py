"""Reads a trace with the messages of Perfetto's own package, and prints its counters and slices.

    perfetto_tracks.py FILE

A line for each: `counter PROCESS NAME VALUES LARGEST`, `slices PROCESS NAME COUNT`, by tabs. It fails on a field that the
schema does not know, an event of a track that nothing describes, time that runs backwards on a track, and slices that do not nest.
"""

import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def known(message):
    """Fails where a message, or one within it, has a field without a meaning."""
    assert not len(UnknownFieldSet(message)), f"unknown fields in {message}"
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if isinstance(value, list) or hasattr(value, "add") else [value]:
                known(one)


def main(file):
    trace = Trace()
    with open(file, "rb") as source:
        trace.ParseFromString(source.read())
    assert trace.packet and not len(UnknownFieldSet(trace)), "no packets, or other fields beside them"
    tracks, values, slices, last = {}, {}, {}, {}
    for packet in trace.packet:
        known(packet)
        assert packet.trusted_packet_sequence_id == 1, packet
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks, f"described twice: {track}"
            if track.HasField("parent_uuid"):
                assert tracks[track.parent_uuid].HasField("process"), track
            if track.HasField("counter"):
                assert track.counter.unit == track.counter.UNIT_SIZE_BYTES, track
            tracks[track.uuid] = track
            continue
        event = packet.track_event
        track = tracks[event.track_uuid]
        assert packet.timestamp >= last.get(track.uuid, 0), f"backwards: {packet}"
        last[track.uuid] = packet.timestamp
        if event.type == TrackEvent.TYPE_COUNTER:
            assert track.HasField("counter"), track
            values.setdefault(track.uuid, []).append(event.counter_value)
        else:
            opened, count = slices.get(track.uuid, (0, 0))
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                assert event.name, event
                slices[track.uuid] = (opened + 1, count + 1)
            else:
                assert event.type == TrackEvent.TYPE_SLICE_END and opened > 0, event
                slices[track.uuid] = (opened - 1, count)

    def place(uuid):
        track = tracks[uuid]
        return tracks[track.parent_uuid].process.process_name + "\t" + track.name

    for uuid, found in values.items():
        print(f"counter\t{place(uuid)}\t{len(found)}\t{max(found)}")
    for uuid, (opened, count) in slices.items():
        assert opened == 0, f"slices of {place(uuid)} have no end"
        print(f"slices\t{place(uuid)}\t{count}")


main(sys.argv[1])
