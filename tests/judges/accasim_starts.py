"""Prints the start of each job of a log under a scheduler of AccaSim: job, start, a line each.

    accasim_starts.py fifo|easy|easy-as-shipped LOG PROCESSORS
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
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut
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
    """First fit that holds jobs against the reservation, if there is one."""

    def _compute_reservation_overlaps(self, e, cur_time, reserved_time, reserved_nodes):
        if reserved_time is not None and cur_time + e.expected_duration > reserved_time:
            return ["reserved"]
        return []


def main():
    name, log, processors = sys.argv[1:]
    schedulers = {
        "fifo": lambda: FirstInFirstOut(FirstFit()),
        "easy": lambda: Easy(Gap()),
        "easy-as-shipped": lambda: EASYBackfilling(FirstFit()),
    }
    starts = []
    finish = EventManager.finish_event

    def noted(self, event):
        finish(self, event)
        starts.append((event.id, event.start_time))

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
