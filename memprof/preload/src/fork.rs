//! A child is on its own: it keeps the ledgers, and leaves the file to its parent.
