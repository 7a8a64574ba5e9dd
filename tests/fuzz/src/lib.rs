//! Hostile input for whatever reads files, text and shared segments.
