//! The format of memory traces: what a rank writes into its live file, and how it is read back.
