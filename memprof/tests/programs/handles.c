/* Makes MPI objects and frees some of them. Each rank prints the objects that each line of this
 * file makes: `made KIND LINE MADE FREED`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define LEFT 5000

static void made(const char *kind, int line, long number, long freed)
{
    printf("made %s %d %ld %ld\n", kind, line, number, freed);
}

static void datatypes(void)
{
    for (int number = 0; number < LEFT; number++) {
        MPI_Datatype left;
        MPI_Type_vector(4, 1, 8 + number, MPI_DOUBLE, &left);
        MPI_Type_commit(&left);
    }
    made("datatype", __LINE__ - 3, LEFT, 0);
    for (int number = 0; number < 300; number++) {
        MPI_Datatype pair, copy;
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_dup(pair, &copy);
        MPI_Type_free(&pair);
        if (number % 3) MPI_Type_free(&copy);
    }
    made("datatype", __LINE__ - 5, 300, 300);
    made("datatype", __LINE__ - 5, 300, 200);

    /* Each call returns the same datatype, and each of these is freed. */
    MPI_Datatype inner, outer, again;
    MPI_Type_contiguous(3, MPI_INT, &inner);
    int line = __LINE__ - 1;
    MPI_Type_contiguous(5, inner, &outer);
    int integers[1], outer_line = __LINE__ - 1;
    MPI_Aint addresses[1];
    for (int number = 0; number < 4; number++) {
        MPI_Type_get_contents(outer, 1, 1, 1, integers, addresses, &again);
        if (number) MPI_Type_free(&again);
    }
    made("datatype", __LINE__ - 3, 4, 3);
    made("datatype", line, 1, 0);
    made("datatype", outer_line, 1, 0);
}

static void communicators(int rank)
{
    MPI_Comm split, copy, later;
    MPI_Request request;
    /* Odd ranks get no communicator. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : 0, rank, &split);
    made("communicator", __LINE__ - 1, rank % 2 ? 0 : 1, 0);
    for (int number = 0; number < 20; number++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
        if (number % 2)
            MPI_Comm_free(&copy);
        else
            MPI_Comm_disconnect(&copy);
    }
    made("communicator", __LINE__ - 7, 20, 20);
    MPI_Comm_idup(MPI_COMM_WORLD, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    made("communicator", __LINE__ - 2, 1, 1);
    MPI_Comm_free(&later);

    /* Not the group of the world, which may be predefined. Each call may return the same. */
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    made("communicator", __LINE__ - 1, 1, 0);
    MPI_Group all, part, other;
    MPI_Comm_group(reversed, &all);
    made("group", __LINE__ - 1, 1, 0);
    for (int number = 0; number < 10; number++) {
        MPI_Comm_group(reversed, &other);
        MPI_Group_incl(other, 1, (int[]){0}, &part);
        MPI_Group_free(&other);
        if (number < 4) MPI_Group_free(&part);
    }
    made("group", __LINE__ - 5, 10, 10);
    made("group", __LINE__ - 5, 10, 4);
    MPI_Comm_create(reversed, all, &copy);
    made("communicator", __LINE__ - 1, 1, 0);
}

static void failing(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    (void)error;
}

static void others(void)
{
    MPI_Request requests[3];
    int value = 0;
    for (int number = 0; number < 3; number++)
        MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[number]);
    made("request", __LINE__ - 1, 3, 2);
    MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
    made("request", __LINE__ - 1, 1, 0);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[1]);
    MPI_Request_free(&requests[2]);

    MPI_Win window;
    void *memory;
    for (int number = 0; number < 3; number++) {
        MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        MPI_Win_free(&window);
    }
    made("window", __LINE__ - 3, 3, 3);

    MPI_Info info;
    for (int number = 0; number < 7; number++) MPI_Info_create(&info);
    made("info", __LINE__ - 1, 7, 1);
    MPI_Info_free(&info);

    /* The first handler is predefined; the others are one, with a handle for each call. */
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    MPI_Comm_create_errhandler(failing, &handler);
    made("errhandler", __LINE__ - 1, 1, 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    for (int number = 0; number < 3; number++)
        MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler);
    made("errhandler", __LINE__ - 1, 3, 1);
    MPI_Errhandler_free(&handler);

    MPI_Op op;
    MPI_Op_create((MPI_User_function *)failing, 1, &op);
    made("op", __LINE__ - 1, 1, 0);

    void *buffer = malloc(1 << 16);
    int size;
    for (int number = 0; number < 3; number++) {
        MPI_Buffer_attach(buffer, 1 << 16);
        if (number < 2) MPI_Buffer_detach(&buffer, &size);
    }
    made("buffer", __LINE__ - 3, 3, 2);
}

static void files(const char *path)
{
    MPI_File file;
    for (int number = 0; number < 3; number++) {
        MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        MPI_File_close(&file);
    }
    made("file", __LINE__ - 3, 3, 3);
    /* A call that fails makes nothing. */
    MPI_File none;
    int error = MPI_File_open(MPI_COMM_SELF, "/dev/null/none", MPI_MODE_RDONLY, MPI_INFO_NULL, &none);
    if (error == MPI_SUCCESS) puts("no error");
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    datatypes();
    communicators(rank);
    others();
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", argv[1], rank);
    files(path);
    /* Not every launcher has ports. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        char port[MPI_MAX_PORT_NAME];
        if (MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS) {
            made("port", __LINE__ - 1, 1, 1);
            MPI_Close_port(port);
        }
    }
    MPI_Finalize();
    return 0;
}
