// Checks whether C++ programs compile.
#include <mpi.h>

#include <vector>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    std::vector<int> ranks(1);
    MPI_Comm_size(MPI_COMM_WORLD, ranks.data());
    return MPI_Finalize() + ranks[0] - 1;
}
