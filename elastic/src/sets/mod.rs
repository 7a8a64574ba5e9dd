//! Named process sets, their algebra, versions and epochs.
