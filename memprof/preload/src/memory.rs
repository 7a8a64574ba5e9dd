//! Memory of the tool itself: mapped, counted, never from the program's heap.
