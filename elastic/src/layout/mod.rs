//! How arrays lie on ranks, and who sends what to whom when the ranks change.
