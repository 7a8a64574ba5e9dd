//! Phases: init, main, finalize, those of MPI_Pcontrol, of the program and of quo.
