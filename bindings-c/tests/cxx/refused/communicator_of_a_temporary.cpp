// Refused: deleted
#include "quo.hpp"

MPI_Comm lost(const quo::Context &ctx);

MPI_Comm
lost(const quo::Context &ctx)
{
    return ctx.get_mpi_comm_by_type(quo::ObjectType::machine);
}
