/* Options of a world: impossible ones are refused with their text, and the sizes that the program can have
 * decide on requests. Two processes, one of them parked at first. */
#include "../check.h"
#include "quo-elastic.h"

static void
wrong(const QUO_world_options_t *options, const char *text)
{
    QUO_world w = NULL;
    CHECK_CODE(QUO_world_create(&w, options), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES(text);
    CHECK(NULL == w);
}

static int
only_one(void *data, int size)
{
    return size == *(int *)data;
}

/* Makes a world of one rank and asks for two. */
static void
asks(const QUO_world_options_t *options, int code, const char *text)
{
    QUO_world w = NULL;
    long long request = 0;
    int joins = 1;
    REQUIRE_OK(QUO_world_create(&w, options));
    if (0 == check_rank) {
        CHECK_CODE(QUO_world_request(w, 2, &request), code);
        if (QUO_SUCCESS != code) CHECK_ERROR_NAMES(text);
    } else {
        REQUIRE_OK(QUO_world_wait(w, &joins));
        CHECK_INT(joins, 0);
    }
    REQUIRE_OK(QUO_world_end(w));
}

#define WRONG(field, value, text)                                                                  \
    do {                                                                                           \
        QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;                                      \
        options.field = value;                                                                     \
        wrong(&options, text);                                                                     \
    } while (0)

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_slurm_options_t slurm = QUO_SLURM_OPTIONS_INIT;
    int one = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    WRONG(min_size, -1, "min_size is -1");
    WRONG(max_size, -1, "max_size is -1");
    WRONG(step, 7, "no size");
    WRONG(allowed_sizes, "1,many", "allowed_sizes is \"1,many\"");
    WRONG(hosts, "n1", "NAME:SLOTS");
    WRONG(spawn_info, "host", "KEY=VALUE");
    WRONG(spawn_command, "", "spawn_command is empty");
    WRONG(control_folder, "/nowhere", "control is 0");
    options.initial_ranks = 1;
    options.min_size = 2;
    options.max_size = 6;
    wrong(&options, "1 ranks at the start (the option initial_ranks): bounds: 1 processes are not allowed; 2 is the nearest");
    options.step = 3;
    options.min_size = 1;
    wrong(&options, "1 processes are not allowed; 3 is the nearest that is, and ");
    options = (QUO_world_options_t)QUO_WORLD_OPTIONS_INIT;
    options.step = 2;
    options.allowed_sizes = "2";
    wrong(&options, "only one of");
    slurm.wait = -1;
    options.allowed_sizes = NULL;
    options.slurm = &slurm;
    wrong(&options, "-1 seconds");

    options = (QUO_world_options_t)QUO_WORLD_OPTIONS_INIT;
    options.initial_ranks = 1;
    asks(&options, QUO_SUCCESS, "");
    options.max_size = 1;
    asks(&options, QUO_ERR_REFUSED, "2 processes are not allowed");
    options.max_size = 0;
    options.allowed_sizes = "square";
    asks(&options, QUO_ERR_REFUSED, "2 processes are not allowed");
    options.allowed_sizes = "power-of-two";
    asks(&options, QUO_SUCCESS, "");
    options.allowed_sizes = NULL;
    options.allows = only_one;
    options.allows_data = &one;
    asks(&options, QUO_ERR_REFUSED, "2 processes are not allowed");
    /* Without effect if nothing is started, and outside of Slurm. */
    options.allows = NULL;
    options.hosts = "n1:2,n2:2";
    options.remote_shell = "ssh -o BatchMode=yes";
    options.spawn_info = "key=value\nother=1";
    options.spawn_command = "program\nargument";
    options.connect_timeout = -1;
    options.no_spawn_helper = 1;
    options.slurm = &slurm;
    slurm.wait = 2;
    slurm.submit = "--constraint=fast\n--exclusive";
    asks(&options, QUO_SUCCESS, "");
    if (0 == check_rank && 0 == check_failures) printf("ok\n");
    MPI_Finalize();
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
