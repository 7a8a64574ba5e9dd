"""Prints the start of each job of a log under a scheduler of AccaSim: job, start, a line each.

    accasim_starts.py fifo|easy|easy-as-shipped|conservative LOG PROCESSORS
"""

import collections
import collections.abc
import json
import os
import sys
import tempfile

# AccaSim 1.1.3 was written for Python before 3.10.
collections.Mapping = collections.abc.Mapping

from accasim.base.allocator_class import FirstFit
from accasim.base.event_class import EventManager
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut, SchedulerBase
from accasim.base.simulator_class import Simulator


class Easy(EASYBackfilling):
    """EASY backfilling as its authors define it, from AccaSim's parts.

    As shipped, the reservation is computed once and the first job is not tried before it, even if jobs end early;
    and jobs that fill the gap are not held against the reservation, since no reserved nodes are passed on. Here the
    reservation is computed at each decision, and a job that would run beyond it is not started.
    """

    def scheduling_method(self, cur_time, queued_jobs, es_dict):
        self._blocked_job_id = None
        self._reserved_slot = (None, [])
        return super().scheduling_method(cur_time, queued_jobs, es_dict)


class Gap(FirstFit):
    """First fit that checks jobs against the reservation, if there is one."""

    def _compute_reservation_overlaps(self, e, cur_time, reserved_time, reserved_nodes):
        if reserved_time is not None and cur_time + e.expected_duration > reserved_time:
            return ["reserved"]
        return []


class Conservative(SchedulerBase):
    """Conservative backfilling in AccaSim's engine, which has none.

    Each job has a reservation from its arrival on. After an early end, jobs move forward in order of arrival, each to its
    earliest instant beside all other reservations, in passes until none moves.
    """

    name = "conservative"

    def __init__(self, processors, finished):
        super().__init__(0)
        self.processors, self.finished = processors, finished
        self.fit = FirstFit()
        self.running, self.reserved = {}, {}

    def get_id(self):
        return self.name

    def earliest(self, now, job, at_most=None):
        """Returns the earliest start of a job, given the running jobs and all reservations but its own."""
        changes = collections.Counter()
        free = self.processors
        for end, count in self.running.values():
            free -= count
            changes[max(end, now)] += count
        for other, (start, length, count) in self.reserved.items():
            if other != job.id:
                changes[start] -= count
                changes[start + length] += count
        free += changes.pop(now, 0)
        wanted, length = job.requested_nodes, max(job.expected_duration, 1)
        times = sorted(changes)
        begin = now if free >= wanted else None
        for time in times:
            if begin is not None and time >= begin + length:
                break
            free += changes[time]
            if free < wanted:
                begin = None
            elif begin is None:
                begin = time
            if at_most is not None and begin is None and time >= at_most:
                return at_most
        return begin

    def scheduling_method(self, now, queued, es_dict):
        is_early = False
        for job in [job for job in self.running if job in self.finished]:
            is_early |= self.running.pop(job)[0] > now
        moves = is_early
        while moves:
            moves = False
            for job in queued:
                if job.id in self.reserved:
                    before, length, count = self.reserved[job.id]
                    start = min(self.earliest(now, job, before), before)
                    self.reserved[job.id] = (start, length, count)
                    moves |= start < before
        for job in queued:
            if job.id not in self.reserved:
                length = max(job.expected_duration, 1)
                self.reserved[job.id] = (self.earliest(now, job), length, job.requested_nodes)
        self.fit.set_resource_manager(self.resource_manager)
        self.fit.set_resources(self.resource_manager.current_availability)
        plan = []
        for job in queued:
            start, length, count = self.reserved[job.id]
            allocation = (None, job.id, [])
            if start <= now:
                allocation = self.fit.allocating_method(job, now, skip=False)
            if allocation[-1]:
                del self.reserved[job.id]
                self.running[job.id] = (now + length, count)
            plan.append(allocation)
        return plan, []


def main():
    name, log, processors = sys.argv[1:]
    finished = set()
    schedulers = {
        "conservative": lambda: Conservative(int(processors), finished),
        "fifo": lambda: FirstInFirstOut(FirstFit()),
        "easy": lambda: Easy(Gap()),
        "easy-as-shipped": lambda: EASYBackfilling(FirstFit()),
    }
    starts = []
    finish = EventManager.finish_event

    def noted(self, event):
        finish(self, event)
        starts.append((event.id, event.start_time))
        finished.add(event.id)

    EventManager.finish_event = noted
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "system.json")
        # One node with all processors: a job of n processors fits if n are free, wherever they are.
        system = {
            "groups": {"all": {"core": int(processors)}},
            "resources": {"all": 1},
            "equivalence": {"processor": {"core": 1}},
            "start_time": 0,
        }
        with open(config, "w") as file:
            json.dump(system, file)
        Simulator(
            log, config, schedulers[name](), scheduling_output=False, statistics_output=False,
            show_statistics=False, RESULTS_FOLDER_PATH=folder, LOG_LEVEL="ERROR",
        ).start_simulation()
    for job, start in starts:
        print(job, start)


main()
