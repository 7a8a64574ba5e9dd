/* Stands in for threading libraries: remembers a thread count each. Its OpenBLAS changes OpenMP's
 * count too, as a build on top of OpenMP does. */
static int omp = 6, openblas = 5, mkl = 3;
static long long blis = -1;

void omp_set_num_threads(int n) { omp = n; }
int omp_get_max_threads(void) { return omp; }
void openblas_set_num_threads(int n) { openblas = n; omp = n; }
int openblas_get_num_threads(void) { return openblas; }
void MKL_Set_Num_Threads(int n) { mkl = n; }
int MKL_Get_Max_Threads(void) { return mkl; }
void bli_thread_set_num_threads(long long n) { blis = n; }
long long bli_thread_get_num_threads(void) { return blis; }
