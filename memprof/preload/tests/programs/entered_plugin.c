/* Opened by name by entered.c, through its own search path. */
int MPI_Sendrecv(const void *, int, void *, int, int, void *, int, void *, int, int, void *, void *);

int plugin_calls(void)
{
    char x[6];
    return MPI_Sendrecv(x, 1, x + 1, 2, 3, x + 2, 4, x + 3, 5, 6, x + 4, x + 5);
}
