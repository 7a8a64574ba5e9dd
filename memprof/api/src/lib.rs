//! Memory per component at run time, for programs that run under memprof.
