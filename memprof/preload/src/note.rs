//! What could not be done: said once, kept in the file.
