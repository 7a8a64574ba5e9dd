//! What happens when the object is loaded, and when the process ends.
