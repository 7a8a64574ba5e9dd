//! The live file: the only place that writes it.
