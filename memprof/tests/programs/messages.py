"""Messages through mpi4py, which loads its MPI where no other object sees the names."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
memory = bytearray(20 << 20)
received = bytearray(1)
right = (comm.rank + 1) % comm.size
for _ in range(200):
    comm.Sendrecv(bytearray(1), right, recvbuf=received, source=MPI.ANY_SOURCE)
if comm.allreduce(1) != comm.size:
    raise SystemExit(1)
if comm.rank == 0:
    print("done")
