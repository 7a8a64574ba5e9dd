"""A world grows beyond the launched ranks by starting this program again."""

from check import expect, run

from libquo import Status, World


def main():
    with World(max_ranks=2) as world:
        if "parked ranks only" in world.back_end:
            print(world.back_end)
            return
        step, request = 0, None
        if world.status is Status.NEW:
            world.add_array("line", 10).local[:] = 7.0
        while world.is_running():
            if world.enters():
                with world.begin() as window:
                    step = window.broadcast(step)
                if world.rank is not None:
                    expect((world.array("line").local == 7.0).all(), "the array came along")
                    expect(world.array("line").local.size == 10 // world.size, "its half")
                continue
            target = 2 if step == 0 else 1
            if world.rank == 0 and request is None and world.size != target:
                request = world.request(target)
            if world.size == target:
                request, step = None, step + 1
            if step == 2:
                break
        if world.rank == 0:
            print(f"{world.epoch} resizes")


run(main)
