# Inverts a matrix on each rank, and adds up over the ranks with Rmpi.
library(Rmpi)
world <- 0
# Rmpi numbers its communicators; 0 is MPI_COMM_WORLD.
values <- numeric(2e6) + 1
matrix <- matrix(seq_len(90000)^0.5, 300) + diag(300) * 1e4
inverse <- solve(matrix)
sum <- mpi.allreduce(sum(values), type = 2, op = "sum", comm = world)
if (mpi.comm.rank(world) == 0) cat("sum", sum / mpi.comm.size(world), "\n")
invisible(mpi.barrier(world))
mpi.quit(save = "no")
