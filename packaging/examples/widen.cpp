// A threaded library in a program with one rank per core: at most one rank per package is selected and widens
// to its whole package, the others sleep until it is done.
//
//   make widen-cpp && mpirun ./widen-cpp
#include <cstdio>
#include <quo.hpp>
#include <vector>

static int
run()
{
    int rank, ranks, packages, threads = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    {
        quo::Context quo(MPI_COMM_WORLD);
        packages = quo.nobjs_by_type(quo::ObjectType::package);
        const int cpus = quo.nobjs_in_type_by_type(quo::ObjectType::package, 0,
                                                  quo::ObjectType::pu);
        if (quo.auto_distrib(quo::ObjectType::package, 1)) {
            const quo::BindGuard wide(quo, quo::BindPushPolicy::object, quo::ObjectType::package);
            threads = cpus; // ... the threaded library runs here ...
        }
        quo.barrier();
    }
    std::vector<int> all(static_cast<std::size_t>(ranks));
    MPI_Gather(&threads, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        std::printf("packages: %d\n", packages);
        int number = 0;
        for (const int count : all) std::printf("rank %d: threads: %d\n", number++, count);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    try {
        run();
    } catch (const quo::Error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return MPI_Finalize();
}
